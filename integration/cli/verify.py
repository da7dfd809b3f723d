"""The command ``netstack verify``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..show.terminal.documents import present
from ..show.terminal.verification import print_verification
from .arguments import Flag
from .cluster_access import ANYBODY, AccessOptions
from .exit_status import FAILED
from .past_options import NOW, PastOptions
from .running_job_options import watching


def verify(
    package: Path,
    /,
    *,
    from_flink: str,
    job: str | None = None,
    access: AccessOptions = ANYBODY,
    past: PastOptions = NOW,
    json: Flag = False,
) -> int:
    """Compare a job after a change with the figures that a change package promises.

    The exit status is 0 if the promise is kept, and 1 if it is not kept or cannot be judged.

    Args:
        package: Folder of a change package, which `netstack tune --out` writes, or its change.json.
        from_flink: Address of Flink's web interface, such as http://localhost:8081, or a recording.
        job: Id of the job; required if several jobs run.
        json: Print the figures before, promised and after as one JSON document.
    """
    from ..advise.diagnose.flink_job import NOT_JUDGED
    from ..advise.tune.change_package import read_package
    from ..advise.tune.verification import Verdict, verify_change
    from ..flink import import_scenario

    promised = read_package(package)
    cluster = past.of(partial(access.cluster, from_flink))
    with watching(cluster, f"{cluster.name}: reading the job", always=True) as report:
        imported = import_scenario(cluster, job, overrides=NOT_JUDGED, watching=report)
    verification = verify_change(promised, imported)
    present(verification, print_verification, json=json)
    return 0 if verification.verdict is Verdict.KEPT else FAILED
