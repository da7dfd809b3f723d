"""Flink's jars out of a PyPI package, and our Java compiled against them, in a folder of the user's.

The folder is ``netstack-flink`` in the user's cache, or what the environment variable `CACHE` names. A wheel
of the package that lies there already is taken, so that no network is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import TestbedError

RELEASES: Mapping[str, str] = {"flink-2.3": "2.3.0", "flink-2.2": "2.2.1"}
"""The releases of Flink that the testbed runs, by the preset with their defaults; the newest one first."""
NEWEST = next(iter(RELEASES.values()))
PACKAGE = "apache-flink-libraries"
CACHE = "NETSTACK_FLINK_CACHE"

JAVA = Path(__file__).parent / "java"
_LEAST_JAVA = 17
_TOOLS = ("java", "javac", "jar")
_JARS = ("flink-dist", "flink-table", "flink-cep", "log4j")
_ASM = "--add-exports=java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"
_AGENT_CLASS = "testbed.PolicyAgent"


@dataclass(frozen=True)
class Software:
    """Where everything lies that a Flink needs to run."""

    release: str
    """Release of Flink, such as "2.3.0"."""
    jars: tuple[Path, ...]
    """Flink's own, its logging included."""
    jobs: Path
    """Our jobs, and the factory that chooses numbers of buffers."""
    agent: Path
    """What gives Flink another debloating policy, and writes down its steps."""

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, (self.jobs, *self.jars)))

    def agent_options(self, policy: str, steps: Path | None = None) -> list[str]:
        """Options of a Java that is to run under a policy, and to write its steps of debloating to a file."""
        recording = [] if steps is None else [f"-Dtestbed.steps={steps}"]
        return [f"-javaagent:{self.agent}={policy}", _ASM, *recording]


def cache() -> Path:
    """The folder of what is downloaded, compiled and left behind."""
    if named := os.environ.get(CACHE):
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netstack-flink"


def check_java() -> None:
    """Refuse to go on without a Java that compiles.

    Raises:
        TestbedError: a tool is missing, or too old.
    """
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise TestbedError(
            f"there is no {' and no '.join(missing)}; install a JDK of version {_LEAST_JAVA} or newer"
        )
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+", said.stdout + said.stderr)
    if version is None or int(version.group()) < _LEAST_JAVA:
        shown = (said.stdout + said.stderr).strip() or "a javac that does not tell its version"
        raise TestbedError(f"there is {shown}; install a JDK of version {_LEAST_JAVA} or newer")


def prepare(release: str = NEWEST) -> Software:
    """Fetch and unpack a release of Flink, and compile our Java against it, as far as that is not done yet.

    Raises:
        TestbedError: there is no Java compiler, or something cannot be fetched, written or compiled.
    """
    check_java()
    folder = cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        jars = _flink(folder, release)
        jobs = _compiled("jobs", folder, release, jars, ())
        agent = _compiled("agent", folder, release, jars, (_ASM,))
    except OSError as error:
        raise TestbedError(f"{folder}: {error.strerror}; {CACHE} names another folder") from None
    return Software(release, jars, jobs, agent)


def _flink(folder: Path, release: str) -> tuple[Path, ...]:
    unpacked = folder / f"flink-{release}"
    if not unpacked.exists():
        fresh = folder / f"flink-{release}.unpacking"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        _unpack(_wheel(folder, release), fresh)
        fresh.rename(unpacked)
    return tuple(sorted(unpacked.glob("*.jar")))


def _wheel(folder: Path, release: str) -> Path:
    pattern = f"{PACKAGE.replace('-', '_')}-{release}-*.whl"
    if wheels := sorted(folder.glob(pattern)):
        return wheels[0]
    print(f"fetching {PACKAGE} {release}, 300 MB, to {folder}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{PACKAGE}=={release}"]
    done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode or not (wheels := sorted(folder.glob(pattern))):
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = (errors or [done.stderr.strip()])[0][:200]
        raise TestbedError(f"{PACKAGE} {release} cannot be fetched: {why}; put its wheel into {folder}")
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                base = name.rpartition("/")[2]
                if name.startswith("pyflink/lib/") and base.startswith(_JARS):
                    with archive.open(name) as source, (folder / base).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except zipfile.BadZipFile:
        raise TestbedError(f"{wheel}: is no whole wheel; delete it, so that it is fetched again") from None


def _compiled(name: str, folder: Path, release: str, jars: Iterable[Path], options: Iterable[str]) -> Path:
    """The jar of one folder of our Java, made anew when a source has changed."""
    sources = sorted((JAVA / name).rglob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    jar = folder / f"{name}-{release}-{digest}.jar"
    if jar.exists():
        return jar
    classes = folder / f"{name}.compiling"
    shutil.rmtree(classes, ignore_errors=True)
    path = os.pathsep.join(map(str, jars))
    _run("javac", "-nowarn", "-proc:none", *options, "-cp", path, "-d", str(classes), *map(str, sources))
    manifest = folder / f"{name}.manifest"
    manifest.write_text(f"Premain-Class: {_AGENT_CLASS}\n" if name == "agent" else "", "utf-8")
    _run("jar", "cfm", str(jar), str(manifest), "-C", str(classes), ".")
    shutil.rmtree(classes)
    manifest.unlink()
    return jar


def _run(tool: str, *arguments: str) -> None:
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines() or ["no word why"]
        raise TestbedError(f"{tool} has failed: {lines[0]}")
