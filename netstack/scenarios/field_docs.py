"""What the fields of a class say of themselves, which only its source tells."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise


@cache
def field_docs(cls: type) -> Mapping[str, str]:
    """Return the texts below the fields of a class, on one line each; none where there is no source."""
    try:
        body = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(cls)}")).body[0]
    except OSError:
        return {}
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
