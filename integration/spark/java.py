"""The Java process of Spark's driver, started in a way that can be interrupted.

PySpark starts one too, but gives nobody a hold of it until it is ready: whoever waits for it and is
interrupted leaves a process behind that nobody ends. So it is started here, in the same way, and handed to
PySpark as ``spark-submit`` hands over its own::

    spark-submit ... pyspark-shell  -->  a file with port and secret  -->  PYSPARK_GATEWAY_PORT, ..._SECRET
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .interrupts import held_interrupts

if TYPE_CHECKING:
    from pyspark import SparkConf

_POLL_S = 0.05
_INTS = struct.Struct(">i")


class JavaError(Exception):
    """Java has ended before it could be used."""


class JavaProcess:
    """The process; not there before `start`.

    Args:
        conf: What Spark is set to.
        log: A file for its standard error.
    """

    def __init__(self, conf: SparkConf, log: IO[bytes]) -> None:
        self._conf = conf
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def started(self) -> bool:
        """Whether there has been a process."""
        return self._process is not None

    def start(self) -> bytes:
        """Start the process and return how to reach it, for `connect`; after an error, `end` it.

        Raises:
            JavaError: It ends at once.
        """
        with held_interrupts():
            self._folder = tempfile.TemporaryDirectory(prefix="netstack-java-", ignore_cleanup_errors=True)
            reached = Path(self._folder.name, "connection")
            # It ends when its standard input does. In a group of its own it gets no Ctrl-C from the terminal.
            process = self._process = subprocess.Popen(
                _command(self._conf),
                stdin=subprocess.PIPE,
                stderr=self._log,
                env={
                    **os.environ,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(reached),
                },
                process_group=0,
            )
        while (ended := process.poll()) is None and not reached.exists():
            time.sleep(_POLL_S)
        if not reached.exists():
            raise JavaError(f"Java has ended with exit status {ended}")
        content = reached.read_bytes()
        self._folder.cleanup()
        return content

    def connect(self, reached: bytes) -> None:
        """Have PySpark use the process, in place of one that it would start."""
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        (port,) = _INTS.unpack_from(reached)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = reached[2 * _INTS.size :].decode()
        try:
            gateway = launch_gateway(self._conf)  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self._process
        SparkContext._ensure_initialized(gateway=gateway)

    def end(self) -> None:
        """End the process, if there is one, without waiting for it; PySpark forgets it, and says nothing."""
        from pyspark import SparkContext

        process = self._process
        if self._folder is not None:
            self._folder.cleanup()
        if process is None:
            return
        _silence_py4j()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        threading.Thread(target=process.wait, name="netstack-java-end", daemon=True).start()
        if getattr(SparkContext._gateway, "proc", None) is process:
            SparkContext._gateway = SparkContext._jvm = None


def _command(conf: SparkConf) -> list[str]:
    from pyspark.find_spark_home import _find_spark_home

    program = str(Path(_find_spark_home(), "bin", "spark-submit"))
    options = [text for name, value in conf.getAll() for text in ("--conf", f"{name}={value}")]
    return [program, *options, *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))]


def _silence_py4j() -> None:
    """Keep Py4J from logging that its process is gone; some it logs as nobody in particular."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
