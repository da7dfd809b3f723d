"""Where Spark keeps its own files, what lies between two stages above all, and what goes wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.local.dir"

_THROWN = re.compile(r"java\.(?:io|nio\.file)\.(\w+): ([^\n]+)((?:\n\s+at [^\n]+)+)")
_OWN_CODE = re.compile(r"\s+at org\.apache\.spark\.(?:storage|shuffle|io|broadcast|util\.collection)\.")
_SPARKS = "at org.apache.spark."
_HELPER = re.compile(r"\s+at org\.apache\.spark\.util\.(?!collection\.)")
"""Code that copies files for whoever asks: who has asked stands behind it."""
_REASONS = {"NoSuchFileException": "no such file or folder", "AccessDeniedException": "may not be written"}
"""Of exceptions of Java's whose message is a path."""

_NOT_MADE = re.compile(r"Failed to create directory (\S+)/blockmgr-\S+")
_NONE_MADE = "Failed to create any local dir"


def own_files_problem(error: BaseException, session: SparkSession) -> str | None:
    """Return in one line that Spark could not write or find its own files, and where; None if it is not that.

    Args:
        error: What an action of the session has raised.
        session: Still runs.
    """
    for kind, message, frames in _THROWN.findall(str(error)):
        sparks = [frame for frame in frames.splitlines() if _SPARKS in frame and not _HELPER.match(frame)]
        if sparks and _OWN_CODE.match(sparks[0]):
            reason = f"{message}: {_REASONS[kind]}" if kind in _REASONS else message.strip()
            return (
                f"Spark cannot keep what lies between two stages in {_folders(session)}: {reason};"
                f" {SETTING} has to name a folder with room for all rows"
            )
    return None


def own_folder_problem(log: str) -> str | None:
    """Return in one line that Spark could make no folder for its files, by what it has logged; or None."""
    if _NONE_MADE not in log:
        return None
    folders = ", ".join(dict.fromkeys(_NOT_MADE.findall(log)))  # Spark tries each several times
    return f"no folder can be made in {folders}; {SETTING} has to name one that can be written"


def _folders(session: SparkSession) -> str:
    """The folders of this machine; those of others are known to their executors only."""
    if not is_local(session):
        return f"{SETTING} of an executor"
    assert session._jvm is not None
    conf = session.sparkContext._jsc.sc().conf()
    return ", ".join(session._jvm.org.apache.spark.util.Utils.getConfiguredLocalDirs(conf))
