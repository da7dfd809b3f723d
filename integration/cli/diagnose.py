"""The command ``netstack diagnose``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from netstack import Result, from_json, parse_duration

from ..diagnosis.observation import observations
from ..diagnosis.rule_table import Diagnosis
from ..diagnosis.rule_table import diagnose as diagnosed
from ..diagnosis.trial import trials
from ..errors import UsageError
from ..files.reading import LARGEST_RESULT, NO_RESULT, load_result, one_line
from ..present.documents import present
from ..present.findings import print_diagnosis
from .arguments import Flag, naming_options, read_quantity
from .cluster_access import ANYBODY, AccessOptions
from .reading_options import watching

_STDIN = "-"


def diagnose(
    result: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    from_flink: str | None = None,
    job: str | None = None,
    latency: str | None = None,
    access: AccessOptions = ANYBODY,
    json: Flag = False,
) -> int:
    """Say what limits a job and why: the rules that fire, their evidence, and what to do next.

    Args:
        result: Result of a run, as `netstack run --json` prints it; "-": it comes on standard input.
        from_flink: Address of a Flink cluster's REST API, such as http://localhost:8081, or a recording.
        job: Id of that job, where several are running.
        latency: Of the way between two task managers of that cluster, such as "1 ms".
        json: Print what was found as one JSON document.
    """
    if result is not None and str(result).startswith("-") and str(result) != _STDIN:
        raise UsageError([f"netstack: Unknown option: {result}."])
    if result is not None and result.parts[:1] in (("http:",), ("https:",)):
        raise UsageError(
            ["netstack diagnose: the address of a cluster is for --from-flink; write that before it"]
        )
    if (result is None) == (from_flink is None):
        raise UsageError(["netstack diagnose: name a result, or a cluster by --from-flink; one of them"])
    for option, value in (("--job", job), ("--latency", latency)):
        if value is not None and from_flink is None:
            raise UsageError([f"netstack diagnose: {option} is for --from-flink; give that too, or neither"])
    if from_flink is None:
        access.refuse_without_address("no cluster is asked")
    diagnosis = _of_file(result) if from_flink is None else _of_flink(from_flink, job, latency, access)
    present(diagnosis, print_diagnosis, json=json)
    return 0


def _of_file(file: Path | None) -> Diagnosis:
    assert file is not None
    given = str(file) == _STDIN
    name = "standard input" if given else str(file)
    result = _from_stdin() if given else load_result(file)
    views = observations(result)
    if not views:
        raise UsageError([f"{name}: has no window that was measured; the run was shorter than its warmup"])
    seen = [replace(view, tried=tried) for view, tried in zip(views, trials(result), strict=True)]
    windows = [diagnosed(view) for view in seen]
    return Diagnosis(name=views[0].name, of=_obtained(result), windows=windows)


def _from_stdin() -> Result:
    document = sys.stdin.buffer.read(LARGEST_RESULT + 1)
    if len(document) > LARGEST_RESULT:
        raise UsageError([f"standard input: has more than {LARGEST_RESULT >> 20} MiB; a result has less"])
    try:
        return from_json(document)
    except (ValueError, RecursionError) as error:
        raise UsageError([f"standard input: {NO_RESULT}: {one_line(error)}"]) from None


def _of_flink(place: str, job: str | None, latency: str | None, access: AccessOptions) -> Diagnosis:
    # Here, since few diagnoses need it.
    from ..flink.diagnose_job import diagnose_job

    latency_s = None
    if latency is not None:
        latency_s = read_quantity("diagnose", "--latency", latency, parse_duration)
    cluster = access.cluster(place)
    with watching(cluster, f"{cluster.name}: reading the job", always=True) as report:
        return diagnose_job(cluster, job, latency_s, watching=report, wording=naming_options)


def _obtained(result: Result) -> str:
    version = result.versions.get("netstack", "unknown version")
    return f"{result.preset}, seed {result.seed}, {result.clock} clock, netstack {version}"
