"""The rules of the house, held by machine: who may know whom, and what no module may do."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from aitest_lib.properties.catalog import SPECS

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "aitest_lib": ROOT / "aitest_lib",
    "aitest_tasks": ROOT / "tasks" / "aitest_tasks",
    "aitest_flows": ROOT / "flows" / "aitest_flows",
}
MOST_LINES = 400
# Only these may know MLflow: the writer of runs, the registry and its webhooks, and the program that serves `mlflow` cards.
KNOW_MLFLOW = {f"aitest_tasks.{name}" for name in ("tracking", "model_registry", "webhooks", "mlflow_child")}
# What a user without that kind of model must neither have nor wait for.
HEAVY = (
    "torch",
    "kornia",
    "botorch",
    "gpytorch",
    "torchaudio",
    "onnxruntime",
    "soundfile",
    "jiwer",
    "sklearn",
    "mlflow",
    "prefect",
)
# Modules that are made of such a library's classes: functions alone import them.
MADE_OF = {"aitest_lib.searches.image.botorch_model": {"torch", "botorch", "gpytorch"}}
EXECUTES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
EXECUTING_CALLS = {"eval", "exec", "compile"}


def name_of(file: Path) -> str:
    for package, folder in PACKAGES.items():
        if file.is_relative_to(folder):
            parts = file.relative_to(folder).with_suffix("").parts
            return ".".join([package, *parts]).removesuffix(".__init__")
    raise ValueError(f"{file} is in no package")


MODULES = {name_of(file): file for folder in PACKAGES.values() for file in sorted(folder.rglob("*.py"))}
every_module = pytest.mark.parametrize("name", MODULES)


def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def imports(node: ast.AST) -> set[str]:
    """The top-level packages that are imported anywhere below a node."""
    found = set()
    for item in ast.walk(node):
        if isinstance(item, ast.Import):
            found |= {alias.name for alias in item.names}
        elif isinstance(item, ast.ImportFrom) and item.level == 0:
            found.add(item.module or "")
    return {name.partition(".")[0] for name in found}


def at_import(node: ast.AST) -> set[str]:
    """The packages that are imported as soon as the module is, rather than by a function when it is called."""
    found = imports(node) if isinstance(node, ast.Import | ast.ImportFrom) else set()
    for child in ast.iter_child_nodes(node):
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not typing_only:
            found |= at_import(child)
    return found


def top_lines(name: str) -> list[str]:
    """The lines of a module that are not indented."""
    return [line for line in MODULES[name].read_text().splitlines() if not line.startswith(" ")]


def test_imports_point_down():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_of_the_library_has_its_room():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [rooms] = [contract["layers"] for contract in contracts if contract["id"] == "rooms"]
    names = [name.strip() for line in rooms for name in line.replace("|", ":").split(":")]
    assert all(name in MODULES for name in names)
    bare = {"aitest_lib", "aitest_lib.config", "aitest_lib.reports"}  # packages whose modules stand in several rooms
    homeless = {
        name
        for name in MODULES
        if name.startswith("aitest_lib") and name not in bare and not any(f"{name}.".startswith(f"{room}.") for room in names)
    }
    assert homeless == set()
    assert all(MODULES[name].read_text().count("import") == 0 for name in bare - {"aitest_lib"})


@every_module
def test_a_module_is_short(name):
    assert len(MODULES[name].read_text().splitlines()) <= MOST_LINES


def test_most_modules_are_much_shorter():
    sizes = sorted(len(file.read_text().splitlines()) for file in MODULES.values())
    assert sizes[len(sizes) // 2] <= 150


@every_module
def test_a_module_says_what_it_is(name):
    empty = MODULES[name].name == "__init__.py" and not MODULES[name].read_text().strip()
    assert empty or ast.get_docstring(tree(name))


@every_module
def test_input_is_not_checked_by_assert(name):
    assert [node.lineno for node in ast.walk(tree(name)) if isinstance(node, ast.Assert)] == []


@every_module
def test_nothing_read_is_run(name):
    module = tree(name)
    calls = {node.func.id for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not imports(module) & EXECUTES
    assert not calls & EXECUTING_CALLS


@every_module
def test_mlflow_has_its_places(name):
    assert "mlflow" not in imports(tree(name)) or name in KNOW_MLFLOW


@every_module
def test_heavy_libraries_are_imported_where_they_are_used(name):
    # Tasks and flows are made of Prefect's decorators; the commands that need them import them late.
    allowed = {"prefect"} if name.partition(".")[0] in ("aitest_tasks", "aitest_flows") else set()
    assert at_import(tree(name)) & set(HEAVY) <= allowed | MADE_OF.get(name, set())
    assert not any(f"import {module}" in text or f"from {module} " in text for module in MADE_OF for text in top_lines(name))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_property_has_its_flow(spec):
    from prefect import Flow

    module, _, name = spec.flow.rpartition(".")
    found = getattr(import_module(module), name)
    assert isinstance(found, Flow)
    assert found.name == name.replace("_", "-")
    assert (found.fn.__module__, found.fn.__qualname__) == (module, name)
    assert found.fn.__doc__
    assert len(MODULES[module].read_text().splitlines()) <= 35


def test_every_flow_of_a_property_has_its_spec():
    modalities = ("tabular_", "timeseries_", "text_", "conversation_", "image_", "speech_")
    flows = {name for name in MODULES if name.startswith(tuple(f"aitest_flows.{start}" for start in modalities))}
    assert flows == {spec.flow.rpartition(".")[0] for spec in SPECS.values()}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("aitest_lib", {*HEAVY, "pandas", "numpy", "pyarrow", "scipy", "pydantic", "httpx"}),
        ("aitest_flows.cli", {*HEAVY, "pandas", "pyarrow", "scipy"}),
    ],
)
def test_an_import_stays_light(module, unwanted):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & unwanted == set()


class TestTheseRulesThemselves:
    """A rule that finds nothing wherever it looks would hold nothing."""

    CODE = ast.parse(
        "import a.b\nfrom c.d import e\ntry:\n    import f\nexcept ImportError:\n    pass\n"
        "if TYPE_CHECKING:\n    import g\ndef late():\n    import h\n"
        "class C:\n    import i\n    def m(self):\n        from j import k\n"
    )

    def test_all_imports(self):
        assert imports(self.CODE) == set("abcfghij") - {"b"}

    def test_imports_at_import(self):
        assert at_import(self.CODE) == {"a", "c", "f", "i"}

    def test_all_modules_are_looked_at(self):
        assert {name.partition(".")[0] for name in MODULES} == set(PACKAGES)
        assert {"aitest_lib.canonical", "aitest_tasks.generation", "aitest_flows.cli"} <= set(MODULES)
