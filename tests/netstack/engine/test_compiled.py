"""What of the core is compiled, and how one sees that it is not what the sources say."""

from __future__ import annotations

import ast
import os
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from netstack import core_is_compiled, stale_modules

ROOT = Path(__file__).parents[3]
LIBRARY = f"queue{EXTENSION_SUFFIXES[0]}"


def compiled_modules() -> list[Path]:
    """The modules on the list in setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED":
            folders: dict[str, str] = ast.literal_eval(node.value)
            return [
                ROOT / folder / f"{name}.py" for folder, names in folders.items() for name in names.split()
            ]
    raise AssertionError("setup.py has no list of what is compiled")


def imports_trio(module: Path) -> bool:
    """Whether a module imports trio, which tells by Python's frames where Ctrl-C may strike."""
    return any(
        isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "trio" for alias in node.names)
        for node in ast.walk(ast.parse(module.read_text()))
    )


@pytest.mark.parametrize("module", compiled_modules(), ids=lambda module: str(module.relative_to(ROOT)))
def test_what_is_compiled_is_there_and_does_not_wait_on_trio(module: Path) -> None:
    assert not imports_trio(module)


def test_all_that_is_on_the_list_runs_compiled_or_nothing_does() -> None:
    ways = {
        str(import_module(".".join(module.relative_to(ROOT).with_suffix("").parts)).__file__).endswith(
            EXTENSION_SUFFIXES[0]
        )
        for module in compiled_modules()
    }
    assert ways == {core_is_compiled()}


def checkout(root: Path, *, source_s: int, library_s: int) -> Path:
    """A checkout with one compiled module, written at these times."""
    (root / "buffers").mkdir()
    (root / "setup.py").touch()
    for name, time_s in (("queue.py", source_s), (LIBRARY, library_s), ("plain.py", 9)):
        file = root / "buffers" / name
        file.touch()
        os.utime(file, (time_s, time_s))
    return root


def test_a_source_that_has_changed_since_is_named(tmp_path: Path) -> None:
    assert stale_modules(checkout(tmp_path, source_s=2, library_s=1)) == [str(Path("buffers", "queue.py"))]


def test_what_was_compiled_since_is_as_its_source_says(tmp_path: Path) -> None:
    assert stale_modules(checkout(tmp_path, source_s=1, library_s=2)) == []


def test_an_installation_writes_sources_and_compiled_modules_in_any_order(tmp_path: Path) -> None:
    root = checkout(tmp_path, source_s=2, library_s=1)
    (root / "setup.py").unlink()
    assert stale_modules(root) == []
