"""Spark's Java classes in an archive, with which a Java process starts in half the time.

A Java process of Spark's finds, reads and checks some twenty thousand classes before its first task is done.
Java can map them from a file instead (class data sharing) if they come from the same class path, string by
string. So all Java processes that use an archive have one home of Spark's, in a folder that lasts::

    home/{bin,jars,python}    links into the PySpark package; no folder `conf`, which no archive bears
    1f0c....jsa               named after what it depends on
    failure.txt               why it could not be made

Sessions on this machine have theirs in the user's folder for caches, one for each environment. A process of
its own (`archive_maker`) makes it when the first session that would have used it has ended. Until it is
there, and where it does not fit, Java starts as it always does, and says nothing.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ..files.caches import cache_folder

SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java process that lives for seconds gains nothing from the second compiler."""

SILENT = "-Xshare:auto -Xlog:disable"
"""Without an archive that fits, Java starts as ever and does not say so."""

CHOICES = ("SPARK_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_CONF_DIR")
"""Variables of Spark's; where a user has set one, Java starts as it says."""

_PARENT = Path(__file__).parents[2]
_MAKER = f"{__package__}.archive_maker"


class ClassArchive:
    """The archive below a folder that lasts, made or not.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        package = _pyspark()
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        for part in ("bin", "jars", "python"):
            _link(self.home / part, package / part)
        self.file = folder / f"{_fingerprint(package / 'jars')}.jsa"
        self.failure = folder / "failure.txt"

    @property
    def variables(self) -> dict[str, str]:
        """Variables that make a driver start from the archive, and be small as the process before it.

        Java's own variables do so too, but Java says on stderr that it has found them.
        """
        return self.variables_of(small=True)

    def variables_of(self, *, small: bool) -> dict[str, str]:
        """Return such variables for a driver that is small, or for one that is to do much itself."""
        options = f'{SMALL_JAVA if small else ""} {SILENT} "-XX:SharedArchiveFile={self.file}"'
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_SUBMIT_OPTS": options.strip(),
            "SPARK_LAUNCHER_OPTS": SMALL_JAVA,
        }


class Maker:
    """A process that makes an archive, unless it is there; ends with `stop`, or with this process."""

    def __init__(self, archive: ClassArchive) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if not archive.file.exists():
            self.process = _begin_to_make(archive, subprocess.PIPE)

    def stop(self) -> None:
        """End the process, and Java with it."""
        if self.process is not None:
            self.process.communicate()


def of_this_user() -> ClassArchive | None:
    """Return the archive of sessions on this machine; None where it cannot be, or a user has said how."""
    if any(name in os.environ for name in CHOICES) or (_pyspark() / "conf").exists():
        return None
    folder = cache_folder("spark", environment_name())
    with suppress(OSError):
        return None if folder is None else ClassArchive(folder)
    return None


def environment_name() -> str:
    """Return a name for where PySpark is installed."""
    return hashlib.sha256(str(_pyspark()).encode()).hexdigest()[:16]


def make_at_exit(archive: ClassArchive) -> None:
    """Have an archive made when this process has ended, unless it is there, or was tried in vain."""
    if not archive.file.exists() and not archive.failure.exists():
        _ = atexit.register(_begin_to_make, archive, None)


def _begin_to_make(archive: ClassArchive, keeps: int | None) -> subprocess.Popen[bytes]:
    """Start the process; with `keeps` it ends when its standard input does."""
    path = [str(_PARENT), os.environ.get("PYTHONPATH")]
    words = [str(archive.folder), *(["with-stdin"] if keeps is not None else [])]
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; from {_MAKER} import main; main(*sys.argv[1:])", *words],
        stdin=subprocess.DEVNULL if keeps is None else keeps,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        start_new_session=True,
    )


def _pyspark() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _link(link: Path, target: Path) -> None:
    """Make the link, which several processes may do at once, or turn one into another environment."""
    if not link.is_symlink() or link.readlink() != target:
        new = link.with_name(f"{link.name}.{os.getpid()}")
        new.symlink_to(target)
        new.replace(link)


def _fingerprint(jars: Path) -> str:
    """What becomes another when Java, PySpark, or the options that an archive depends on do."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    facts = [SMALL_JAVA, *(f"{path.resolve()} {_changed(path)}" for path in (java, jars))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
