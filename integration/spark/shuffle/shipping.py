"""The function that Spark sends to its Python workers, whatever they are to do.

It travels by value and refers to nothing of ours, so a worker whose Python lacks our packages, or has others,
gets as far as saying so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from .version import code_version

MapFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_REMEDY = (
    "let PYSPARK_PYTHON name a Python that has netstack, on each machine, or send our packages with"
    " --py-files (the command `netstack package netstack.zip` writes that file)"
)


def shipped(module: str, function: str, *arguments: object, on_one_machine: bool) -> MapFunction:
    """Return what calls `function` of `module` in a worker, with the batches and then the `arguments`.

    An argument that is made of our classes has to be pickled by the caller, and unpickled by `function`.
    """
    version, remedy = code_version(on_one_machine), _REMEDY

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import sys

        here = f"the Python of this worker, {sys.executable},"
        try:
            work = getattr(importlib.import_module(module), function)
            found = importlib.import_module("integration.spark.shuffle.version").code_version(on_one_machine)
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{here} has no module {error.name!r}; {remedy}") from None
        if found != version:
            raise RuntimeError(f"{here} has another netstack than the driver; {remedy}")
        output: Iterator[pa.RecordBatch] = work(batches, *arguments)
        return output

    return run
