"""The borders between the packages: who may import whom, and what each may not know.

Arrows point at what is imported: benches -> integration -> netstack -> buffers -> flowcontrol. Layers may be
skipped downwards, never climbed. Across packages only the package root is imported, except by benches, which
are no product code; inside a package imports are relative. The rules are read from the syntax trees, so
imports that do not run are held to them too.
"""

import ast
import importlib
import itertools
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("flowcontrol", "buffers", "netstack", "integration", "benches")
"""Every package, from the lowest to the highest."""

BELOW_INTEGRATION = LAYERS[: LAYERS.index("integration")]
SANS_IO = {"asyncio", "logging", "random", "selectors", "socket", "threading", "time", "trio"}
SPARK = {"py4j", "pyspark"}
FORBIDDEN = {
    "flowcontrol": SANS_IO | SPARK,
    "buffers": SANS_IO | SPARK,
    "netstack": SPARK,
    "integration": set[str](),
    "benches": set[str](),
}
"""Top-level modules that a package may not import anywhere, not even inside a function."""

PUBLIC = {"integration.spark", "integration.storage", "integration.tuning"}
"""Packages inside packages that users import from, and so may others."""

DISTRIBUTIONS = {"py4j": "pyspark", "vl_convert": "vl_convert_python", "yaml": "pyyaml"}
"""What brings a module whose name is not that of its distribution."""

ABSENT_BELOW = (
    "altair",
    "cyclopts",
    "pandas",
    "py4j",
    "pyarrow",
    "pyspark",
    "rich",
    "rocksdict",
    "vl_convert",
)
"""Modules that a user of the lower packages does not need."""


@dataclass(frozen=True)
class Import:
    """One imported module as an import statement names it."""

    name: str
    line: int
    relative: bool
    when: str  # "load", "call" (inside a function) or "types" (under TYPE_CHECKING)

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


def imports_of(tree: ast.AST, package: str, when: str = "load") -> Iterator[Import]:
    """Every import below a node, with relative ones spelled out from the package's name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, False, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield Import(absolute_name(node, package), node.lineno, node.level > 0, when)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports_of(node, package, "call")
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_of(ast.Module(node.body, []), package, "types")
            yield from imports_of(ast.Module(node.orelse, []), package, when)
        else:
            yield from imports_of(node, package, when)


def absolute_name(node: ast.ImportFrom, package: str) -> str:
    """The full name of the module of a `from` import; `package` holds the importing module."""
    if not node.level:
        return str(node.module)
    parents = package.split(".")
    assert node.level <= len(parents), f"line {node.lineno}: a relative import leaves its package"
    return ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])


def breaches(imports: Iterable[Import], layer: str) -> list[str]:
    """What a module's imports break, one line for each; no line means that it keeps the rules."""
    return [f"line {item.line}: {reason}" for item in imports if (reason := breach(item, layer))]


def breaches_in(source: str, layer: str) -> list[str]:
    return breaches(imports_of(ast.parse(source), layer), layer)


def breach(item: Import, layer: str) -> str:
    if item.top in FORBIDDEN[layer]:
        return f"{layer} may not import {item.top}"
    if item.top in SPARK and item.when == "load":
        return f"{item.top} may be imported inside functions only"
    if item.top == "tests":
        return "packages may not import tests"
    if item.top == layer:
        return "" if item.relative else f"{item.name}: imports inside a package are relative"
    if item.top not in LAYERS:
        return ""
    if LAYERS.index(item.top) > LAYERS.index(layer):
        return f"{layer} may not import {item.top}, which is above it"
    root = "." not in item.name or item.name in PUBLIC or layer == "benches"
    return "" if root else f"{item.name}: across packages import the package root"


@cache
def modules_of(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module, which no test changes."""
    return ast.parse(path.read_text("utf-8"))


@cache
def imports_in(path: Path) -> tuple[Import, ...]:
    """Every import of a module."""
    return tuple(imports_of(tree_of(path), package_of(path)))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_follow_the_arrows(layer: str) -> None:
    found = [
        f"{path.relative_to(ROOT)} {line}"
        for path in modules_of(layer)
        for line in breaches(imports_in(path), layer)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("flowcontrol", "from buffers import Buffer"),
        ("flowcontrol", "def f():\n    import time"),
        ("flowcontrol", "from random import random"),
        ("buffers", "import trio.lowlevel"),
        ("buffers", "from flowcontrol.frames import encode"),
        ("buffers", "import flowcontrol.frames"),
        ("netstack", "from netstack.engine.agenda import Agenda"),
        (
            "netstack",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from integration import load_scenario",
        ),
        ("netstack", "def f():\n    import pyspark"),
        ("integration", "import benches"),
        ("integration", "from pyspark.sql import SparkSession"),
        ("integration", "try:\n    import pyspark\nexcept ImportError:\n    pass"),
        ("integration", "class A:\n    import pyspark"),
        ("benches", "from tests.protocol_simulator import scenario"),
    ],
)
def test_a_breach_is_found(layer: str, source: str) -> None:
    assert len(breaches_in(source, layer)) == 1


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        (
            "buffers",
            "import numpy\nfrom flowcontrol import encode\nfrom .buffer import Buffer\nfrom . import segment",
        ),
        ("netstack", "import random\nimport time\nimport trio\nfrom flowcontrol import encode"),
        ("integration", "def f():\n    from pyspark.sql import SparkSession"),
        (
            "integration",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
        ),
        ("benches", "import integration\nfrom integration.spark.rows import RowCodec"),
    ],
)
def test_allowed_imports_pass(layer: str, source: str) -> None:
    assert breaches_in(source, layer) == []


def test_only_presentation_prints() -> None:
    printing = {
        str(path.relative_to(ROOT))
        for path in modules_of("integration")
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print")
        or (isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "rich")
    }
    shows_what_it_waits_for = "integration/cli/running_job_options.py"
    assert {name for name in printing if not name.startswith("integration/show/")} == {
        shows_what_it_waits_for
    }


def test_scenarios_import_nothing_of_what_is_built_on_them() -> None:
    climbing = [
        f"{path.relative_to(ROOT)} line {item.line}: {item.name}"
        for path in modules_of("netstack/scenarios")
        for item in imports_in(path)
        if item.top == "netstack"
        and not f"{item.name}.".startswith(("netstack.scenarios.", "netstack.errors."))
    ]
    assert climbing == []


def test_a_relative_import_out_of_its_package_is_found() -> None:
    with pytest.raises(AssertionError, match="leaves its package"):
        breaches_in("from ..flowcontrol import encode", "buffers")


def test_everything_below_integration_imports_without_spark() -> None:
    names = [module_name(path) for layer in BELOW_INTEGRATION for path in modules_of(layer)]
    program = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({ABSENT_BELOW!r}))\n"  # None makes the import of that name fail
        f"for name in {names!r}: importlib.import_module(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_pyproject_lists_exactly_these_packages() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    tools = settings["tool"]
    packages = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for layer in LAYERS
        for path in (ROOT / layer).rglob("__init__.py")
    }
    installed = {name for name in packages if name.partition(".")[0] != "benches"}  # these are for a checkout
    assert set(tools["setuptools"]["packages"]) == installed
    assert set(tools["mypy"]["packages"]) == set(LAYERS)
    assert "py.typed" in tools["setuptools"]["package-data"]["*"]


def test_pyproject_declares_every_library_that_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    declared = {re.split(r"[<>=!~ \[;]", line)[0].replace("-", "_") for line in requirements}
    imported = {item.top for layer in LAYERS for path in modules_of(layer) for item in imports_in(path)}
    libraries = {DISTRIBUTIONS.get(top, top) for top in imported - sys.stdlib_module_names - set(LAYERS)}
    assert libraries - declared == set()


def test_all_files_of_packages_are_installed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]
    left_out = [
        str(path.relative_to(ROOT))
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".so")  # the last is what 'make fast' makes
        if not any(path.relative_to(ROOT / layer).match(glob) for glob in data["*"] + data.get(layer, []))
    ]
    assert left_out == []


@pytest.mark.parametrize("layer", LAYERS)
def test_each_package_is_marked_as_typed(layer: str) -> None:
    assert (ROOT / layer / "py.typed").is_file()


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_each_package_says_what_it_exports(layer: str) -> None:
    package = importlib.import_module(layer)
    exported: list[str] = package.__all__
    assert [name for name in exported if not hasattr(package, name)] == []
    assert len(exported) == len(set(exported))


def test_help_of_netstack_lists_what_matters_and_says_where_the_rest_is() -> None:
    package = importlib.import_module("netstack")
    assert 25 <= len(package.__all__) <= 40
    words = set(re.findall(r"[\w.]+", str(package.__doc__)))
    unsaid = [
        name
        for name in exporting_modules("netstack")
        if not set(importlib.import_module(name).__all__) <= set(package.__all__)
        and not {name.rpartition(".")[0], name.rpartition(".")[2]} <= words
        and name not in words
    ]
    assert unsaid == []


@pytest.mark.parametrize("package", BELOW_INTEGRATION)
def test_no_two_modules_of_a_package_export_the_same_name(package: str) -> None:
    names = [
        name for module in exporting_modules(package) for name in importlib.import_module(module).__all__
    ]
    assert len(names) > 40
    assert [name for name, count in Counter(names).items() if count > 1] == []


@pytest.mark.parametrize("package", BELOW_INTEGRATION)
def test_a_package_exports_all_that_its_modules_export(package: str) -> None:
    """A module with ``__all__`` that the package does not import would export names to nobody."""
    with_names = {
        module_name(path)
        for path in modules_of(package)
        if path.name != "__init__.py" and "\n__all__ = [" in path.read_text("utf-8")
    }
    assert with_names == set(exporting_modules(package))


def exporting_modules(package: str) -> list[str]:
    """The modules from which the package imports all names."""
    return [
        f"{package}.{node.module}"
        for node in tree_of(ROOT / package / "__init__.py").body
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    ]


@pytest.mark.parametrize("package", ["integration", *sorted(PUBLIC - {"integration.tuning"})])
def test_no_module_hides_a_name_that_is_imported_when_it_is_used(package: str) -> None:
    """Python sets each module that it imports as an attribute of the package around it."""
    (folder,) = importlib.import_module(package).__path__
    modules = {path.stem for path in Path(folder).iterdir()}
    assert modules & set(importlib.import_module(package).__all__) == set()


def test_every_module_has_a_docstring() -> None:
    bare = [
        str(path.relative_to(ROOT))
        for layer in LAYERS
        for path in modules_of(layer)
        if not ast.get_docstring(tree_of(path))
    ]
    assert bare == []


def test_only_known_folders_lie_at_the_top() -> None:
    top = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert top == set(LAYERS)


def test_a_build_has_all_that_compiling_has_to_see() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    brought = {re.split(r"[<>=\[]", requirement)[0] for requirement in project["build-system"]["requires"]}
    needed = {
        item.top
        for layer in BELOW_INTEGRATION
        for path in modules_of(layer)
        for item in imports_in(path)
        if item.top not in LAYERS and item.top not in sys.stdlib_module_names
    }
    assert needed - brought == set()
