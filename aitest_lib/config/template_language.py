"""What a card's template may say, and where its costs are counted: both settled in the tree, before it is compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

from aitest_lib.config.template_filters import MAPPING_METHODS, TEXT_METHODS

METHODS = (*TEXT_METHODS, *MAPPING_METHODS, "cycle", "isoformat")
_ELSEWHERE = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_STATEMENTS = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.With, nodes.Assign, nodes.AssignBlock),
    *(nodes.Macro, nodes.FilterBlock),
)
_EXPRESSIONS = (
    *(nodes.Name, nodes.NSRef, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.Call, nodes.Concat, nodes.Compare),
    *(nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div),
    *(nodes.FloorDiv, nodes.Mod),
)
_ALLOWED = frozenset((*_STATEMENTS, *_EXPRESSIONS))
_WRITTEN = {"Pow": "**", "CallBlock": "call", "Scope": "autoescape"}
_FOR_NUMBERS: dict[type[nodes.Node], str] = {nodes.Mul: "*", nodes.Mod: "%"}
# Which argument of a filter names another filter or a test.
_NAMES_FILTER = {"map": 0}
_NAMES_TEST = {"select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}


def language_problem(tree: nodes.Template, filters: Mapping[str, Callable[..., Any]], tests: Collection[str]) -> str | None:
    """What a template uses that is not among `filters`, `tests` and the rest of the language, or None."""
    for node in (tree, *tree.find_all(nodes.Node)):
        if problem := _problem(node) or _name_problem(node, filters, tests):
            return problem
    return None


class Counting(NodeTransformer):
    """Puts a counter at every place that can cost something and that the sandbox would not see otherwise.

    The counters are filters of `environment`, whose names no template can write.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802 - as jinja2 names them
        """A text of the template itself: in a loop it is written many times."""
        return nodes.Const(node.data, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        """Turns."""
        self.generic_visit(node)
        node.iter = self._through(".counted", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """`~`."""
        self.generic_visit(node)
        return self._through(".concatenated", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        """What stands in front of `==`, `<`, `in` and so on."""
        self.generic_visit(node)
        node.expr = self._through(".weighed", node.expr)
        return node

    def visit_Operand(self, node: nodes.Operand) -> nodes.Node:  # noqa: N802
        """What stands behind it."""
        self.generic_visit(node)
        node.expr = self._through(".weighed", node.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """A slice is a copy."""
        self.generic_visit(node)
        return self._through(".built", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        """A list."""
        self.generic_visit(node)
        return self._through(".built", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        """A list in round brackets, where it is not what a loop unpacks into."""
        self.generic_visit(node)
        return self._through(".built", node) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        """An object."""
        self.generic_visit(node)
        return self._through(".built", node)

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        """A key is hashed as soon as the object is built."""
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = self._through(".key", node.key)
        return node

    def _through(self, name: str, node: nodes.Node) -> nodes.Filter:
        return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno, environment=self._environment)


def _problem(node: nodes.Node) -> str | None:
    if isinstance(node, _ELSEWHERE):
        return "a card's template stands alone; write out what it includes"
    if type(node) not in _ALLOWED:
        word = _WRITTEN.get(type(node).__name__, type(node).__name__.lower())
        return f"`{word}` is not available in a card's template; write it without"
    if isinstance(node, nodes.For) and node.recursive:
        return "a loop may not call itself in a card's template; leave `recursive` out"
    if isinstance(node, nodes.Getattr) and node.attr.startswith("__"):
        return f"the attribute {node.attr} is not available in a card's template"
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) and node.node.attr not in METHODS:
        return f"the method {node.node.attr} is not available in a card's template; use a filter, or {', '.join(METHODS)}"
    operator = _FOR_NUMBERS.get(type(node))
    if operator and isinstance(node, nodes.BinExpr) and (_is_no_number(node.left) or _is_no_number(node.right)):
        return f"`{operator}` is for numbers only in a card's template; write texts and lists without it"
    return None


def _name_problem(node: nodes.Node, filters: Mapping[str, Callable[..., Any]], tests: Collection[str]) -> str | None:
    if isinstance(node, nodes.Test):
        return _unavailable("test", node.name, tests)
    if not isinstance(node, nodes.Filter):
        return None
    named = _named(node, _NAMES_FILTER), _named(node, _NAMES_TEST)
    problem = _unavailable("filter", node.name, filters) or _unavailable("filter", named[0], filters)
    return problem or _unavailable("test", named[1], tests) or _arguments_problem(node, filters[node.name])


def _unavailable(kind: str, name: str | None, known: Collection[str]) -> str | None:
    if name is None or name in known:
        return None
    words = sorted(one for one in known if one.isalpha())
    return f"the {kind} {name} is not available in a card's template; use one of {', '.join(words)}"


def _named(node: nodes.Filter, places: Mapping[str, int]) -> str | None:
    place = places.get(node.name)
    argument = node.args[place] if place is not None and place < len(node.args) else None
    return argument.value if isinstance(argument, nodes.Const) and isinstance(argument.value, str) else None


def _arguments_problem(node: nodes.Filter, function: Callable[..., Any]) -> str | None:
    if node.dyn_args is not None or node.dyn_kwargs is not None or hasattr(function, "jinja_pass_arg"):
        return None
    try:
        inspect.signature(function).bind(None, *node.args, **{str(keyword.key): None for keyword in node.kwargs})
    except TypeError as error:
        return f"the filter {node.name}: {error}"
    return None


def _is_no_number(node: nodes.Node) -> bool:
    return isinstance(node, (nodes.List, nodes.Tuple, nodes.Concat)) or (
        isinstance(node, nodes.Const) and isinstance(node.value, str)
    )
