"""The advice of `netstack tune` for ordinary jobs, set in a real Flink.

::

    job without a change ---- recording ----> netstack tune ---- change package ----> the same job, changed
         before                                   promised                                    after
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean, median

import msgspec

from integration import write_whole
from integration.advise.tune.change_package import (
    CHECKPOINT,
    DOCUMENT,
    FOLDER,
    RATE,
    ChangePackage,
    Promise,
    read_package,
)

from . import ordinary_jobs
from .cluster import TestbedError
from .measuring import say
from .ordinary_jobs import Asked, asked_for, check_warmup, measure

_TIME_WITHIN, _RATE_WITHIN = 0.15, 0.015
"""Greatest differences of a time and of a throughput that count as right, as a share."""


class Figures(msgspec.Struct, frozen=True):
    """Figures of a job in the measured time."""

    checkpoint_ms: float
    """Mean of the completed checkpoints."""
    median_ms: float
    """Their median, which rare long checkpoints do not change."""
    rate: float
    """Records per second that the last vertices read."""


class Proof(msgspec.Struct, frozen=True):
    """The promise for a job, and the figures that followed."""

    job: str
    action: str
    before: Figures
    checkpoint: Promise
    share: Promise
    """Throughput as a share of the one before."""
    after: Figures

    @property
    def line(self) -> str:
        """The proof in a line, with T for a right time and R for a right throughput."""
        promised = self.checkpoint.promised or 0.0
        off = self.after.median_ms / promised - 1
        kept = self.after.rate / self.before.rate
        low, share, high = (
            100 * (each or 0) for each in (self.share.low, self.share.promised, self.share.high)
        )
        marks = "".join(
            mark if right else "."
            for mark, right in (
                ("T", abs(off) <= _TIME_WITHIN),
                ("R", abs(kept - share / 100) <= _RATE_WITHIN),
            )
        )
        return (
            f"{self.job}: {self.action}: {self.before.median_ms:.0f} ms; promised {promised:.0f} "
            f"({self.checkpoint.low:.0f} to {self.checkpoint.high:.0f}), measured {self.after.median_ms:.0f} "
            f"({100 * off:+.0f} %; mean {self.after.checkpoint_ms:.0f}); throughput promised {share:.1f} "
            f"({low:.1f} to {high:.1f}), measured {100 * kept:.1f} % {marks}"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `advice` takes."""
    ordinary_jobs.add_options(parser)
    parser.add_argument(
        "--recorded", action="store_true", help="take the recordings that are in the folder for results"
    )


def run(options: argparse.Namespace) -> int:
    """Tune ordinary jobs from their recordings, apply the advice, and compare with the promise."""
    wanted = [asked_for(text, options.flink) for text in options.jobs]
    check_warmup(options)
    for asked in wanted:
        if not options.recorded or not (options.out / f"{asked.name}.rest.json.gz").exists():
            say(f"{asked.name}: {options.seconds} s, then a recording")
            measure(asked, options)
    packages = [_tuned(asked, options.out) for asked in wanted]  # all first, so that Flink runs alone
    proofs: list[Proof] = []
    for asked, package in zip(wanted, packages, strict=True):
        if package is None:
            continue
        say(f"{asked.name}: {package.action}")
        changed = asked._replace(changes={each.option: each.after for each in package.changes})
        if not options.recorded or not _has_run(changed, options.out):
            measure(changed, options)
        proofs.append(_proof(asked, package, options.out / f"{changed.name}.json"))
        say(f"  {proofs[-1].line}")
        write_whole({options.out / "advice.json": msgspec.json.format(msgspec.json.encode(proofs))})
    print("\n".join(proof.line for proof in proofs))
    return 0


def _has_run(changed: Asked, folder: Path) -> bool:
    """Whether the folder has a run with the same changes."""
    file = folder / f"{changed.name}.json"
    return file.exists() and json.loads(file.read_text("utf-8"))["flink_options"] == changed.options


def _proof(asked: Asked, package: ChangePackage, changed: Path) -> Proof:
    rate = package.figures[RATE]
    if not rate.before or package.figures[CHECKPOINT].promised is None or rate.promised is None:
        raise TestbedError(f"{asked.name}: a promised figure is unknown, so there is nothing to compare")
    low, promised, high = (
        None if each is None else each / rate.before for each in (rate.low, rate.promised, rate.high)
    )
    return Proof(
        job=asked.name,
        action=package.action,
        before=_figures(changed.with_name(f"{asked.name}.json")),
        checkpoint=package.figures[CHECKPOINT],
        share=Promise(before=1.0, promised=promised, low=low, high=high),
        after=_figures(changed),
    )


def _figures(file: Path) -> Figures:
    """Return the figures of a measured job.

    Raises:
        TestbedError: no checkpoint completed in the measured time.
    """
    document = json.loads(file.read_text("utf-8"))
    (steady,) = document["steady"]
    times = [
        each["duration_ms"]
        for each in document["checkpoints"]
        if steady["from_s"] <= each["t"] < steady["to_s"]
    ]
    if not times:
        raise TestbedError(f"{file}: no checkpoint completed in the measured time")
    rates = [
        vertex["records_in_per_s"] for vertex in steady["vertices"] if not any(vertex["records_out_per_s"])
    ]
    return Figures(fmean(times), median(times), sum(map(sum, rates)))


def _tuned(asked: Asked, folder: Path) -> ChangePackage | None:
    """Tune the recording of a job; None: there is nothing to change.

    Raises:
        TestbedError: it cannot be tuned.
    """
    out = folder / f"{asked.name}.tuned"
    shutil.rmtree(out / FOLDER, ignore_errors=True)  # that of an earlier advice
    recording = folder / f"{asked.name}.rest.json.gz"
    command = [sys.executable, "-m", "integration", "tune", str(recording), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (folder / f"{asked.name}.tuned.txt").write_text(done.stdout + done.stderr, "utf-8")
    if done.returncode not in (0, 1):
        raise TestbedError(f"{asked.name}: cannot be tuned: {done.stderr.strip()[-200:]}")
    say(f"{asked.name}: {done.stdout.partition(chr(10) * 2)[0]}")
    if not (out / FOLDER / DOCUMENT).exists():
        say(f"{asked.name}: no change; see {folder / asked.name}.tuned.txt")
        return None
    return read_package(out / FOLDER)
