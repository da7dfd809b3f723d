"""The inside of the packages: which folder may import which.

`FLOORS` has what lies directly in a package, from the lowest floor to the highest; a module imports from its
own floor and from those below. Imports inside functions and for types count as well, but for types of modules
in the same folder.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import pytest

from tests.test_layers import LAYERS, ROOT, absolute_name, module_name, modules_of, package_of, tree_of

FLOORS = {
    "netstack": (
        "errors",
        "scenarios",
        "engine",
        "results",
        "tcp",
        "exchange",
        "state",
        "checkpoints",
        "tasks",
        "jobs",
        "shuffle",
        "cluster",
    ),
    "integration": (
        "base",
        "storage",
        "spark",
        "runs",
        "flink",
        "advise",
        "show",
        "lab",
        "cli",
        "__main__",
    ),
}

PUBLIC = {
    "flowcontrol",
    "buffers",
    "netstack",
    "integration",
    "integration.spark",
    "integration.storage",
    "integration.tuning",
}
"""Packages that users import from: they name what lies within, and nobody within imports from them."""

Graph = Mapping[str, set[str]]
"""Modules, and those that each imports."""


@cache
def graph_of(package: str) -> Graph:
    """Return the imports between the modules of a package.

    Left out: imports of and from public packages, the type of a result that an error carries, and imports
    under ``TYPE_CHECKING`` from the same folder.
    """
    paths = {module_name(path): path for path in modules_of(package)}
    graph: dict[str, set[str]] = {name: set() for name in paths if name not in PUBLIC}
    for name in graph:
        path = paths[name]
        if name == "netstack.errors":
            continue
        tree = tree_of(path)
        for_types = {
            id(node)
            for block in tree.body
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for node in block.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                target = absolute_name(node, package_of(path))
                if id(node) in for_types and node.level == 1:
                    continue
                named = {f"{target}.{alias.name}" for alias in node.names}
                graph[name] |= (named & graph.keys()) or ({target} & graph.keys())
        graph[name].discard(name)
    return graph


def floor_of(module: str) -> str:
    return module.split(".")[1]


def folder_of(module: str) -> str:
    path = ROOT.joinpath(*module.split("."))
    return module if path.is_dir() else module.rpartition(".")[0]


def climbing(graph: Graph, floors: tuple[str, ...]) -> list[str]:
    """The imports that go up."""
    return [
        f"{name} imports {target}"
        for name, targets in sorted(graph.items())
        for target in sorted(targets)
        if floors.index(floor_of(target)) > floors.index(floor_of(name))
    ]


def both_ways(graph: Graph) -> list[tuple[str, str]]:
    """The pairs of folders that import each other."""
    arrows = {
        (folder_of(name), folder_of(target))
        for name, targets in graph.items()
        for target in targets
        if folder_of(name) != folder_of(target)
    }
    return sorted((one, other) for one, other in arrows if one < other and (other, one) in arrows)


def circles(graph: Graph) -> list[frozenset[str]]:
    """The sets of modules each of which imports, over others, all of its set."""
    reach = {name: set(reached(graph, name)) for name in graph}
    sets = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return sorted(sets, key=sorted)


def reached(graph: Graph, start: str) -> Iterator[str]:
    waiting, seen = list(graph[start]), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += graph[name]


@pytest.mark.parametrize("package", FLOORS)
def test_every_floor_has_its_place(package: str) -> None:
    assert {floor_of(name) for name in graph_of(package)} == set(FLOORS[package])


@pytest.mark.parametrize("package", FLOORS)
def test_imports_go_down(package: str) -> None:
    assert climbing(graph_of(package), FLOORS[package]) == []


@pytest.mark.parametrize("package", FLOORS)
def test_no_two_folders_import_each_other(package: str) -> None:
    inner = {name: targets for name, targets in graph_of(package).items() if name.count(".") > 1}
    assert both_ways(inner) == []


@pytest.mark.parametrize("package", LAYERS)
def test_files_import_in_circles_only_for_types(package: str) -> None:
    assert circles(graph_of(package)) == []


def planted(*imports: tuple[str, str]) -> Graph:
    names: Iterable[str] = {name for pair in imports for name in pair}
    return {name: {target for source, target in imports if source == name} for name in names}


def test_an_import_that_climbs_is_found() -> None:
    graph = planted(("p.low.a", "p.high.b"), ("p.high.b", "p.low.c"))
    assert climbing(graph, ("low", "high")) == ["p.low.a imports p.high.b"]


def test_folders_that_import_each_other_are_found() -> None:
    graph = planted(("p.x.a", "p.y.b"), ("p.y.c", "p.x.d"), ("p.y.c", "p.z.e"))
    assert both_ways(graph) == [("p.x", "p.y")]


def test_a_circle_is_found() -> None:
    graph = planted(("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "f"), ("f", "e"))
    assert circles(graph) == [frozenset("abc"), frozenset("ef")]
