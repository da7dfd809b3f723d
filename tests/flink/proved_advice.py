"""The advice of `netstack tune` for ordinary jobs, set in a real Flink.

::

    job without a change ---- recording ----> netstack tune ---- change package ----> the same job, changed
         before                                   promised                                    after
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import msgspec

from integration import write_whole
from integration.advise.tune.change_package import (
    CHECKPOINT,
    DOCUMENT,
    FOLDER,
    RATE,
    ChangePackage,
    Promise,
    figures_in_flink,
    read_package,
)

from . import ordinary_jobs
from .cluster import TestbedError
from .measuring import say
from .ordinary_jobs import Asked, asked_for, measured

_TIME_WITHIN, _RATE_WITHIN = 0.15, 0.015
"""What counts as right: the difference of a time and of a throughput, as a share."""


class Proof(msgspec.Struct, frozen=True):
    """What was promised for a job, and what came of it."""

    job: str
    action: str
    checkpoint: Promise
    checkpoint_after: float
    rate: Promise
    rate_after: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `advice` takes."""
    ordinary_jobs.add_options(parser)
    parser.add_argument(
        "--recorded", action="store_true", help="take the recordings that are in the folder for results"
    )


def run(options: argparse.Namespace) -> int:
    """Tune ordinary jobs from their recordings, apply the advice, and compare with the promise."""
    wanted = [asked_for(text, options.flink) for text in options.jobs]
    proofs: list[Proof] = []
    for asked in wanted:
        recording = options.out / f"{asked.name}.rest.json.gz"
        if not options.recorded or not recording.exists():
            say(f"{asked.name}: {options.seconds} s, then a recording")
            measured(asked, options)
    packages = [_tuned(asked, options.out) for asked in wanted]  # all first, so that Flink runs alone
    for asked, package in zip(wanted, packages, strict=True):
        if package is None:
            continue
        say(f"{asked.name}: {package.action}")
        changes = {each.option: each.after for each in package.changes}
        after = figures_in_flink(measured(asked._replace(changes=changes), options))
        rate, time_ms = after[RATE], after[CHECKPOINT]
        if rate is None or time_ms is None:
            raise TestbedError(f"{asked.name}: no checkpoint or no throughput is known after the change")
        proof = Proof(
            asked.name, package.action, package.figures[CHECKPOINT], time_ms, package.figures[RATE], rate
        )
        proofs.append(proof)
        say(f"  {_line(proof)}")
        document = msgspec.json.format(msgspec.json.encode(proofs))
        write_whole({options.out / "advice.json": document})
    print("\n".join(_line(proof) for proof in proofs))
    return 0


def _tuned(asked: Asked, folder: Path) -> ChangePackage | None:
    """Tune the recording of a job; None: there is nothing to change.

    Raises:
        TestbedError: it cannot be tuned.
    """
    out = folder / f"{asked.name}.tuned"
    recording = folder / f"{asked.name}.rest.json.gz"
    command = [sys.executable, "-m", "integration", "tune", str(recording), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (folder / f"{asked.name}.tuned.txt").write_text(done.stdout + done.stderr, "utf-8")
    say(f"{asked.name}: {done.stdout.partition(chr(10) * 2)[0]}")
    if not (out / FOLDER / DOCUMENT).exists():
        say(f"{asked.name}: no change; see {folder / asked.name}.tuned.txt")
        return None
    return read_package(out / FOLDER)


def _line(proof: Proof) -> str:
    time, rate = proof.checkpoint, proof.rate
    assert time.promised is not None
    assert rate.promised is not None
    assert rate.before is not None
    off = proof.checkpoint_after / time.promised - 1
    lost = (proof.rate_after - rate.promised) / rate.before
    marks = "".join(
        mark if right else "."
        for mark, right in (("T", abs(off) <= _TIME_WITHIN), ("R", abs(lost) <= _RATE_WITHIN))
    )
    return (
        f"{proof.job}: {proof.action}: {time.before:.0f} ms, promised {time.promised:.0f}, "
        f"after {proof.checkpoint_after:.0f} ({100 * off:+.0f} %); {rate.before:.1f}/s, promised "
        f"{rate.promised:.1f}, after {proof.rate_after:.1f} ({100 * lost:+.1f} points) {marks}"
    )
