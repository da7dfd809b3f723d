"""What debloating cannot do, and what else there is, printed as Markdown.

Run it with ``python -m benches.debloating_limits``; ``--write docs/LIMITS_OF_DEBLOATING.md`` puts the tables
there, between the marks of each section; ``--only SECTION,...`` makes some of them. A quarter of an hour on
two cores. All runs are in virtual time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

from integration import write_whole

from .bounds import delays, floor, records, unaligned
from .limit_scenarios import LIMIT_CASES
from .mechanisms import buffer_numbers, compared, overtaking
from .references import flink

PROCESSES = 2
SEEDS = 3

SECTIONS: dict[str, Callable[[Executor], str]] = {
    "floor": floor,
    "records": records,
    "unaligned": unaligned,
    "delays": delays,
    "flink": flink,
    "buffers": buffer_numbers,
    "overtaking": overtaking,
    "compared": partial(compared, cases=LIMIT_CASES, seeds=range(1, SEEDS + 1)),
}


def marks(section: str) -> tuple[str, str]:
    """What stands before and behind a section's tables in a document."""
    return (
        f"<!-- made by benches.debloating_limits: {section} -->\n",
        f"<!-- end of what benches.debloating_limits made: {section} -->\n",
    )


def put(text: str, section: str, made: str) -> str:
    """A document with `made` between the marks of a section.

    Raises:
        ValueError: if the marks are not there, each once and in order.
    """
    begin, end = marks(section)
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end or begin in after or end in after:
        raise ValueError(f"it has to have these lines once, in this order: {begin.strip()} and {end.strip()}")
    return f"{before}{begin}\n{made}\n{end}{after}"


def main() -> int:
    """Make the sections and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", default=",".join(SECTIONS), help="names of sections, with commas between them"
    )
    parser.add_argument("--write", type=Path, help="a document with the marks")
    asked = parser.parse_args()
    chosen = asked.only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(
            f"--only: no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}"
        )
    if asked.write is not None:
        try:
            text = asked.write.read_text("utf-8")
            for section in chosen:
                put(text, section, "")
        except (OSError, ValueError) as error:
            parser.error(f"--write {asked.write}: {error}")
    print(f"netstack {version('netstack')}, virtual clock, preset flink-2.2.\n")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        for section in chosen:
            print(section, file=sys.stderr)
            made = SECTIONS[section](pool)
            print(f"{section}:\n\n{made}", flush=True)
            if asked.write is not None:  # at once, so that what took minutes is not lost
                text = put(asked.write.read_text("utf-8"), section, made)
                write_whole({asked.write: text.encode()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
