"""Row rules such as `relationship != 'Husband' or sex == 'Male'`: a small, safe expression language over columns.

Names are columns (`col('hours-per-week')` for names that are no identifiers); comparisons, `and or not`, `in`,
arithmetic and constants are allowed; nothing else, so that a suite file cannot run code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.errors import InputError, unknown

_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Rule:
    """A parsed rule; `holds(frame)` says for each row whether it is kept. Rows where a compared value is missing pass."""

    text: str
    columns: frozenset[str]
    tree: ast.expr

    def holds(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Boolean array (n,)."""
        missing = frame[sorted(self.columns)].isna().any(axis=1).to_numpy() if self.columns else np.zeros(len(frame), bool)
        result = np.zeros(len(frame), bool)
        present = frame.loc[~missing] if missing.any() else frame
        try:
            with np.errstate(all="ignore"):  # a division by zero compares as infinity or NaN
                value = _evaluate(self.tree, present)
        except (TypeError, ArithmeticError) as error:
            raise InputError(f"rule {self.text!r}: {error}; compare numbers with numbers and text with text") from error
        result[~missing] = np.broadcast_to(np.asarray(value, dtype=bool), len(present))
        return np.asarray(result | missing)


def parse_rule(text: str, columns: list[str] | None) -> Rule:
    """Checks a rule's syntax and column names (None: any); `InputError` says what is not allowed."""
    used: set[str] = set()
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        _check(tree, text, columns, used)
    except SyntaxError as error:
        raise InputError(f"rule {text!r}: not an expression ({error.msg}); write e.g. age >= 17 and sex == 'Male'") from error
    except (ValueError, RecursionError, MemoryError) as error:  # null characters; nesting without end
        raise InputError(f"rule {text[:60]!r}: not an expression ({error}); write e.g. age >= 17 and sex == 'Male'") from error
    return Rule(text, frozenset(used), tree)


def _check(node: ast.expr, text: str, columns: list[str] | None, used: set[str]) -> None:
    name = _column_of(node)
    if name is not None:
        if columns is not None and name not in columns:
            raise InputError(f"rule {text!r}: {unknown('column', name, columns)}")
        used.add(name)
        return
    children: list[ast.expr]
    match node:
        case ast.Constant(value=value) if isinstance(value, str | int | float | bool):
            return
        case ast.BoolOp(values=children):
            pass
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            children = [operand]
        case ast.BinOp(left=left, right=right, op=op) if type(op) in _ARITHMETIC:
            children = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=comparators) if len(ops) == 1:
            if isinstance(ops[0], ast.In | ast.NotIn):
                if not isinstance(comparators[0], ast.List | ast.Tuple | ast.Set) or not all(map(_fixed, comparators[0].elts)):
                    raise InputError(f"rule {text!r}: `in` needs a list of constants, e.g. race in ['White', 'Black']")
                children = [left, *comparators[0].elts]
            elif type(ops[0]) in _COMPARE:
                children = [left, comparators[0]]
            else:
                raise InputError(f"rule {text!r}: got the comparison {type(ops[0]).__name__}, expected == != < <= > >= in")
        case ast.Compare():
            raise InputError(f"rule {text!r}: {ast.unparse(node)!r} compares twice; write e.g. 17 <= age and age <= 90")
        case _:
            raise InputError(
                f"rule {text!r}: {ast.unparse(node)!r} is not allowed; use columns, constants, comparisons, "
                "and, or, not, in, + - * /"
            )
    for child in children:
        _check(child, text, columns, used)


def _column_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "col"
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], ast.Constant)
    ):
        return str(node.args[0].value)
    return None


def _evaluate(node: ast.expr, frame: pd.DataFrame) -> Any:
    name = _column_of(node)
    if name is not None:
        return frame[name].to_numpy()
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BoolOp(op=op, values=values):
            parts = [np.broadcast_to(np.asarray(_evaluate(value, frame), dtype=bool), len(frame)) for value in values]
            return np.logical_and.reduce(parts) if isinstance(op, ast.And) else np.logical_or.reduce(parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~np.asarray(_evaluate(operand, frame), dtype=bool)
        case ast.UnaryOp(operand=operand):
            return -_number(_evaluate(operand, frame))
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(_evaluate(left, frame)), _number(_evaluate(right, frame)))
        case ast.Compare(
            left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.List() | ast.Tuple() | ast.Set() as group]
        ):
            inside = pd.Series(_evaluate(left, frame)).isin([_evaluate(item, frame) for item in group.elts]).to_numpy()
            return inside if isinstance(op, ast.In) else ~inside
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_evaluate(left, frame), _evaluate(right, frame))
    raise InputError(f"rule: {ast.unparse(node)!r} is not allowed")


def _fixed(node: ast.expr) -> bool:
    """Is it a constant, or a negative number."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _number(value: Any) -> Any:
    """`value`, if one can calculate with it: repeated text would fill the memory."""
    if np.asarray(value).dtype.kind not in "iuf":
        raise TypeError("got text, dates or true/false in a calculation, expected numbers")
    return value
