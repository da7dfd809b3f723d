"""Comparison of a job after a change with what a change package promises.

The verdict has three values. "Not judged" means that the figures say nothing about the change:

1. An option of the package is not in force.
2. Fewer than `SETTLED_CHECKPOINTS` checkpoints ended since the job's last start.
3. The job has another load: its throughput differs by more than `SAME_LOAD` from that before and from the
   promised one. But if a source is back-pressured, the job reads as much as it can, so that a lower
   throughput is an effect of the change.

Otherwise the promise is kept if checkpoints take no longer than promised, within the band of the promise or
the tolerances of a comparison with Flink, the throughput is not lower, the limit for checkpoint times holds,
and not more checkpoints fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from statistics import fmean

import msgspec

from ...base.errors import UsageError
from ...base.number_text import counted
from ...base.optional_figures import complete
from ...flink import Imported
from ...runs.quantities import END_TO_END, THROUGHPUT
from ...runs.reference_comparison import Spread, tolerance
from ..diagnose.conditions import BACK_PRESSURED
from ..sweeps.end_of_run import SETTLED_CHECKPOINTS
from .change_package import (
    CHECKPOINT,
    CHECKPOINT_P95,
    FAILED,
    RATE,
    TEXTS,
    ChangePackage,
    Promise,
    figures_in_flink,
    in_force,
    promise_text,
)
from .choice import MOST_EXPIRED
from .option_changes import OptionChange

_CHECKPOINTING = "execution.checkpointing."
"""Prefix of the options that a job itself reports."""

SAME_LOAD = 0.10
"""Largest difference of two throughputs of one load, as a share."""


class Verdict(StrEnum):
    """Whether a promise was kept."""

    KEPT = "kept"
    NOT_KEPT = "not kept"
    NOT_JUDGED = "not judged"


class VerifiedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure before a change, as promised, and after the change; None: unknown."""

    figure: str
    """Name of the figure in a package, such as "checkpoint_ms"."""
    promise: Promise
    after: float | None
    """The figure that Flink shows now."""
    ok: bool | None
    """Whether the promise is kept; None: this figure is not judged, or nothing is."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """A change package, compared with the job after the change."""

    schema: str = "netstack.verification/1"
    url: str
    job: str
    job_name: str
    flink: str
    """Flink's version."""
    verdict: Verdict
    sentence: str
    """The verdict with its reason, in one line."""
    measured: bool
    """Whether the figures before were measured in Flink; otherwise they are emulated."""
    checkpoints: int
    """Number of the completed checkpoints that are compared."""
    not_in_force: list[str]
    """Options of the package that do not have their new values."""
    figures: list[VerifiedFigure]


def verify_change(package: ChangePackage, imported: Imported) -> Verification:
    """Compare a job with the promise of a package.

    Raises:
        UsageError: the package is for a job of another name.
    """
    shown, job = imported.measured, imported.job
    if package.job is not None and package.job != job.name:
        raise UsageError(
            [
                f"{shown.url}: job {job.id} is {job.name!r}, but the package is for {package.job!r}; "
                "give that job"
            ]
        )
    after = figures_in_flink(imported)
    unknown = [each for each in package.changes if not _is_reported(each, imported)]
    missing = [
        each
        for each in package.changes
        if each not in unknown and not in_force(each, imported.scenario.config)
    ]
    at_limit = _is_at_limit(imported)
    figures = list(_verified(package, after, at_limit=at_limit))
    reason = _about_options(unknown, missing) or _obstacle(package, imported, after, at_limit=at_limit)
    if reason:
        figures = [msgspec.structs.replace(each, ok=None) for each in figures]
    ok = all(each.ok is not False for each in figures)
    verdict = Verdict.NOT_JUDGED if reason else Verdict.KEPT if ok else Verdict.NOT_KEPT
    return Verification(
        url=shown.url,
        job=job.id,
        job_name=job.name,
        flink=job.version,
        verdict=verdict,
        sentence=f"The promise cannot be judged: {reason}." if reason else _sentence(package, figures, ok=ok),
        measured=package.measured,
        checkpoints=len(shown.checkpoints),
        not_in_force=[each.option for each in missing],
        figures=figures,
    )


def _is_at_limit(imported: Imported) -> bool:
    """Whether a source waits for buffers, so that the job reads as much as it can."""
    job, steady = imported.job, imported.measured.steady
    shares = [
        complete(figures.backpressured_ms_per_s)
        for vertex, figures in zip(job.vertices, steady.vertices, strict=True)
        if not job.inputs(vertex)
    ]
    return any(share is not None and fmean(share) >= 1e3 * BACK_PRESSURED for share in shares)


def _verified(
    package: ChangePackage, after: Mapping[str, float | None], *, at_limit: bool
) -> Iterator[VerifiedFigure]:
    judged: dict[str, Callable[[Promise, float], bool | None]] = {
        CHECKPOINT: _is_fast,
        CHECKPOINT_P95: partial(_is_within, package.max_checkpoint_ms),
        RATE: _is_enough if at_limit else _any_rate,
        FAILED: _fails_no_more,
    }
    for name, judged_by in judged.items():
        promise, now = package.figures[name], after[name]
        ok = None if now is None or promise.promised is None else judged_by(promise, now)
        yield VerifiedFigure(figure=name, promise=promise, after=now, ok=ok)


def _promised(promise: Promise) -> Spread:
    assert promise.promised is not None
    assert promise.least is not None
    assert promise.greatest is not None
    return Spread(promise.promised, promise.least, promise.greatest)


def _is_fast(promise: Promise, after: float) -> bool | None:
    """Return whether a time is not longer than promised."""
    promised = _promised(promise)
    return after <= promised.most or after - promised.median <= tolerance(END_TO_END, after, 0.0)


def _is_within(limit_ms: float | None, promise: Promise, after: float) -> bool | None:
    """Return whether a time keeps to the user's limit; None: there is none."""
    return None if limit_ms is None else after <= limit_ms


def _any_rate(promise: Promise, after: float) -> bool | None:
    """Return None: the throughput of a job below its limit is that of its input."""
    return None


def _is_enough(promise: Promise, after: float) -> bool | None:
    """Return whether a throughput is not lower than promised."""
    promised = _promised(promise)
    allowed = tolerance(THROUGHPUT, after, 0.0)
    return after >= promised.least or promised.median - after <= allowed


def _fails_no_more(promise: Promise, after: float) -> bool | None:
    """Return whether not clearly more checkpoints fail than promised."""
    assert promise.promised is not None
    return after <= promise.promised + MOST_EXPIRED


def _is_reported(change: OptionChange, imported: Imported) -> bool:
    """Whether Flink reports the value of an option."""
    of_job = change.option.startswith(_CHECKPOINTING) and imported.job.checkpointing is not None
    return of_job or bool(imported.job.configuration)


def _about_options(unknown: list[OptionChange], missing: list[OptionChange]) -> str | None:
    """Return the reason if it is not known that every changed option is in force; None: all are."""
    if unknown:
        return f"Flink does not report its options, so it is unknown whether {unknown[0].option} is in force"
    if missing:
        first, *others = missing
        too = f", and {counted(len(others), 'more option')} not as in the package" if others else ""
        return f"{first.option} is not {first.after}, as far as Flink reports{too}"
    return None


def _obstacle(
    package: ChangePackage, imported: Imported, after: Mapping[str, float | None], *, at_limit: bool
) -> str | None:
    """Return the reason why the figures cannot be judged; None if they can be."""
    if package.figures[CHECKPOINT].promised is None:
        return "the package promises no checkpoint time"
    ended = imported.ended
    if ended.number < SETTLED_CHECKPOINTS:
        count = f"only {ended.number}" if ended.number else "no"
        return (
            f"{count} checkpoint{'s' * (ended.number != 1)} ended since the job's last start; "
            f"wait for {SETTLED_CHECKPOINTS}"
        )
    if after[CHECKPOINT] is None and ended.failed < ended.number:
        return "Flink no longer has the times of its checkpoints"
    return _other_load(package.figures[RATE], after[RATE], at_limit=at_limit)


def _other_load(rate: Promise, after: float | None, *, at_limit: bool) -> str | None:
    """Return a clause about the load, if it is not the one before the change or is unknown."""
    text = TEXTS[RATE]
    if after is None or rate.before is None:
        when = "now" if after is None else "before the change"
        return f"the throughput {when} is unknown, so the load may be another"
    references = [each for each in (rate.before, rate.promised) if each is not None]
    if any(abs(after - each) <= SAME_LOAD * each for each in references):
        return None
    if at_limit and after < min(references):
        return None
    return f"the job has another load: it reads {text(after)}, and read {text(rate.before)} before"


def _sentence(package: ChangePackage, figures: list[VerifiedFigure], *, ok: bool) -> str:
    told = [each for each in figures if (each.figure == CHECKPOINT if ok else each.ok is False)]
    clauses = "; ".join(_clause(package, each) for each in told)
    return f"The promise is {Verdict.KEPT if ok else Verdict.NOT_KEPT}: {clauses}."


def _clause(package: ChangePackage, verified: VerifiedFigure) -> str:
    name, promise, text = verified.figure, verified.promise, TEXTS[verified.figure]
    after = text(verified.after)
    before = "" if promise.before is None else f"; before {text(promise.before)}"
    promised = f"(promised {promise_text(name, promise)}{before})"
    if name == CHECKPOINT:
        return f"checkpoints take {after} {promised}"
    if name == CHECKPOINT_P95:
        limit = text(package.max_checkpoint_ms)
        return f"95 % of the checkpoints take up to {after}, and the limit is {limit}"
    if name == FAILED:
        return f"{after} of the checkpoints fail {promised}"
    return f"the throughput is {after} {promised}"
