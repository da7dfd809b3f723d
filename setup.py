"""Compiles the core with mypyc: for wheels, and in place for ``make fast``. All else is in pyproject.toml.

The Python sources are the truth and the fallback: a compiled module is the same module, made from the same
file, and lies beside it. Compiled is what runs once a buffer or oftener. Left out are classes that users
inherit from (an interpreted class cannot inherit from a compiled one), messages (msgspec makes their
classes), exceptions, and what waits on trio.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from setuptools import setup

COMPILED = {
    "flowcontrol": "alternating_aligner barrier_aligner barrier_handler barrier_tracker channel_barrier "
    "credit receiver sender throughput watermark_valve wire_size",
    "buffers": "buffer channel_buffers channel_queue local_pool network_pool payload "
    "pool_sizes record_decoder records segment subpartition",
    "netstack/engine": "agenda event_clock randomness",
    "netstack/exchange": "channel connection emulated_link gate java_hash key_groups link local_channel "
    "partition remote_channel",
    "netstack/tasks": "course input_barriers key_hash multiple_input_subtask operator_subtask record_service "
    "service_time snapshot_upload source_log source_subtask subtask synthetic_output task_checkpoints "
    "time_account watermarks",
}


def what_is_missing() -> str | None:
    """Return what must be installed before anything can be compiled, and how; None: nothing."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(command) is None:
        return "a C compiler; 'apt install gcc' or 'xcode-select --install' brings one"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "the headers of Python; 'apt install python3-dev' brings them"
    if find_spec("mypyc") is None:
        return "mypy; 'pip install mypy' brings it"
    return None


def extensions() -> list[Any]:
    """Return the extensions to compile: none, unless the command makes a wheel or compiles in place."""
    in_place = "build_ext" in sys.argv
    if not in_place and "bdist_wheel" not in sys.argv:
        return []
    missing = what_is_missing()
    if missing is not None:
        text = f"netstack: to be compiled it needs {missing}. As plain Python it runs without."
        if in_place:
            raise SystemExit(text)
        print(text, file=sys.stderr)
        return []
    from mypyc.build import mypycify  # only here: who does not compile needs no mypy

    paths = [f"{folder}/{name}.py" for folder, names in COMPILED.items() for name in names.split()]
    # In a package, where an editable installation finds it too; its header is in that folder then.
    made = mypycify(paths, multi_file=True, opt_level="2", debug_level="0", group_name="flowcontrol.core")
    for extension in made:
        extension.include_dirs.append("build/flowcontrol")
    return list(made)


setup(ext_modules=extensions())
