"""Digests of everything the project computes, to show that a change of the code changes no result.

The cases run commands and storms in virtual time, and a digest stands for the numbers of one result::

    python -m tests.digests                  # compare all with tests/data/digests.json; about 15 minutes
    python -m tests.digests --only run       # the cases whose names begin so
    python -m tests.digests --write          # store the digests of this checkout
    python -m tests.digests --texts FOLDER   # also write what each digest was made of, for `diff -r`
    python -m tests.digests --exact FOLDER   # only write the short cases, with the times of their events

Texts for people (notes, messages, advice) take no part, nor do versions and wall-clock times. Numbers count
with nine digits. Math libraries differ in the last bit, and a run may turn on one: `machine_digest` tells
whether this machine draws the random numbers of the stored digests. On any machine plain Python and the
compiled core give the same bits, so ``.ci/test-compiled.sh`` compares what both write with ``--exact``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import trio

from integration import load_scenario
from integration.cli.app import main as netstack
from netstack import Agenda, Job, core_is_compiled
from tests.storms.one_storm import run_storm

ROOT = Path(__file__).parent.parent
STORED = ROOT / "tests/data/digests.json"
SEEDS = (1, 2, 3)
STORMS = 100
STORMS_OF_A_CASE = 10
NOT_COMPARED = frozenset(
    ["wall_seconds", "versions", "notes", "not_known", "of", "message", "advice", "says", "next", "url"]
)
"""Keys of JSON documents that hold texts, versions or wall-clock times."""

SCENARIOS = sorted(
    path
    for folder in ("tests/data/flink-reference", "docs/examples")
    for path in (ROOT / folder).rglob("*.toml")
    if "large" not in path.parts
)
RECORDINGS = sorted(
    path
    for folder in ("tests/data/flink-rest", "docs/examples")
    for path in (ROOT / folder).rglob("*.json.gz")
)
TUNED = ("tests/data/flink-reference/2x2_200KBs_off.toml", "docs/examples/jobs/etl_off.toml")
SHORT = (
    "run tests/data/flink-reference/1x1_5MBs_off.toml seed 1",
    "run tests/data/flink-reference/2x2_200KBs_unaligned.toml seed 1",
    "run docs/examples/clicks_and_orders.toml seed 1",
    "import docs/examples/wordcount_off.rest.json.gz",
    "diagnose tests/data/flink-reference/2x2_200KBs_on1s.toml",
    "size docs/examples/jobs/etl_off.toml",
    "lint docs/examples/config.yaml",
    "storms 0 to 9",
)
"""The cases that run with the tests."""


def cases() -> dict[str, Callable[[], str]]:
    """Return what is digested: for each name a function that returns the text behind the digest."""
    found: dict[str, Callable[[], str]] = {}
    for path in map(_relative, SCENARIOS):
        for seed in SEEDS:
            found[f"run {path} seed {seed}"] = _command("run", path, "--seed", seed, "--json")
    for path in map(_relative, SCENARIOS):
        found[f"diagnose {path}"] = _diagnose(path)
        found[f"size {path}"] = _command("size", path, "--json")
    for path in map(_relative, RECORDINGS):
        found[f"import {path}"] = _command("import-flink", path, "--json")
        found[f"diagnose {path}"] = _command("diagnose", "--from-flink", path, "--json")
    found["lint docs/examples/config.yaml"] = _command("lint", "docs/examples/config.yaml", "--json")
    for path in TUNED:
        found[f"tune {path}"] = _command("tune", path, "--target", "200ms,1s", "--seeds", 2, "--json")
    for first in range(0, STORMS, STORMS_OF_A_CASE):
        last = first + STORMS_OF_A_CASE - 1
        found[f"storms {first} to {last}"] = _storms(range(first, last + 1))
    return found


def digest(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine_digest() -> str:
    """Return a digest of random draws, which is equal on machines that compute equal results."""
    return digest(repr(np.random.default_rng(1).lognormal(0.0, 1.0, 10_000).tolist()))


def comparable(document: Any) -> Any:
    """Return a JSON document without what is not compared, its floats with nine digits."""
    match document:
        case {"evidence": list(texts), **rest}:
            numbers = [re.findall(r"\d[\d.,]*", text) for text in texts]
            return {"numbers": numbers, **comparable(rest)}
        case {"key": str(), "probe": str(), **rest}:  # a run of tune, whose key follows from the source
            return comparable({"probe": document["probe"], **rest})
        case {"headroom": str() | None, **rest}:  # of a diagnosis: a sentence
            return comparable(rest)
        case dict():
            return {key: comparable(value) for key, value in document.items() if key not in NOT_COMPARED}
        case list():
            return [comparable(value) for value in document]
        case float():
            return float(f"{document:.9g}")
        case _:
            return document


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _output_of(*arguments: object) -> str:
    """Run a command in this process and return what it prints on stdout."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(stdout), redirect_stderr(stderr):
        status = netstack([str(argument) for argument in arguments])
    if status not in (0, 1):
        command = " ".join(map(str, arguments))
        raise RuntimeError(f"netstack {command} exits with {status}: {_written(stderr)}")
    return _written(stdout)


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _text(printed: str) -> str:
    return json.dumps(comparable(json.loads(printed)), indent=1, sort_keys=True)


def _command(*arguments: object) -> Callable[[], str]:
    return lambda: _text(_output_of(*arguments))


def _diagnose(path: str) -> Callable[[], str]:
    def text() -> str:
        with TemporaryDirectory() as folder:
            result = Path(folder, "result.json")
            result.write_text(_output_of("run", path, "--seed", 1, "--json"))
            return _text(_output_of("diagnose", result, "--json"))

    return text


def _storms(seeds: Iterable[int]) -> Callable[[], str]:
    def text() -> str:
        lines = []
        for seed in seeds:
            outcome = run_storm(seed)
            lines.append(f"{seed}: {outcome}, {len(outcome.problems)} problems")
        return "\n".join(lines)

    return text


def text_of(name: str) -> str:
    """Return what the digest of a case is made of."""
    return cases()[name]()


def exact_text_of(name: str) -> str:
    """Return the text of a short case, with the times of all events if the case runs a scenario.

    Results are rounded, and the times are not. So the text differs if a single bit of a run does.
    """
    command, path, *_ = name.split()
    times = list[str]()
    if command in ("run", "diagnose"):
        agenda = Agenda()
        agenda.between = lambda: times.append(agenda.now.hex())
        trio.run(Job(load_scenario(path), agenda).run)
    return "\n".join([text_of(name), *times])


def write_exactly(folder: Path) -> None:
    """Write the exact texts of the short cases to `folder`, and print which core computed them."""
    with ProcessPoolExecutor() as pool:
        for name, text in zip(SHORT, pool.map(exact_text_of, SHORT), strict=True):
            _write_text(folder, name, text)
    print(f"{len(SHORT)} results of {'the compiled core' if core_is_compiled() else 'plain Python'}")


def _write_text(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name.replace('/', '_')}.txt").write_text(text)


def main() -> int:
    """Compare or store digests; the exit status is 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="beginning of the names of the cases")
    parser.add_argument("--write", action="store_true", help="store the digests")
    parser.add_argument("--texts", type=Path, help="folder for the texts whose digests are taken")
    parser.add_argument("--exact", type=Path, help="folder for the short cases; compare nothing")
    options = parser.parse_args()
    if options.exact is not None:
        write_exactly(options.exact)
        return 0
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"machine": "", "digests": {}}
    names = [name for name in cases() if name.startswith(options.only)]
    digests = dict[str, str]()
    with ProcessPoolExecutor() as pool:
        for name, text in zip(names, pool.map(text_of, names), strict=True):
            digests[name] = digest(text)
            if stored["digests"].get(name) != digests[name]:
                print(f"differs: {name}", flush=True)
            if options.texts is not None:
                _write_text(options.texts, name, text)
    different = sum(stored["digests"].get(name) != digest for name, digest in digests.items())
    if options.write:
        kept = {name: value for name, value in stored["digests"].items() if name in cases()}
        document = {"machine": machine_digest(), "digests": kept | digests}
        STORED.write_text(json.dumps(document, indent=1) + "\n")
    elif stored["machine"] != machine_digest():
        print("This machine draws other random numbers than the one that stored the digests.")
    print(f"{len(digests)} digests, {different} differ")
    return int(bool(different) and not options.write)


if __name__ == "__main__":
    sys.exit(main())
