"""The changes of the protocol that are compared: examples of the documentation, loaded once."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@cache
def example(name: str) -> ModuleType:
    """The program ``docs/examples/<name>.py`` as a module.

    Raises:
        FileNotFoundError: if there is none, as outside a checkout.
    """
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
