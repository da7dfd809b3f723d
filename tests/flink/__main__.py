"""A real Flink on this machine: scenarios of ours run in it, and both results stand side by side.

`README.md` in this folder says what each command does and needs.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from integration.cli.app import app
from integration.cli.option_names import run_command
from integration.show.terminal.comparison import comparison_markdown, print_comparisons
from integration.show.terminal.console import to_stdout
from netstack import InputError, Scenario

from . import loads, ordinary_jobs, past, policy_runs, proved_advice, thread_costs
from .cluster import FOLDER, NEWEST, PORT, RELEASES, TestbedError, cache, end_left_behind, prepare
from .debloating_steps import Step, check_steps, emulated_steps, side_by_side
from .job_description import described
from .measuring import measure, outcome, repeated, say
from .references import SEEDS, compared, scenario_named, whole, write_reference

_RESULTS = Path("flink-results")
_PROOF = Path(__file__).parent / "scenarios/proof.toml"
_FAILED, _MISUSED, _STOPPED = 1, 2, 130

Command = Callable[[argparse.Namespace], int]


class Measured(NamedTuple):
    """A scenario as it ran in Flink, and its measurement."""

    scenario: Scenario
    """The scenario with its placement."""
    document: dict[str, Any]
    file: Path


def proof(asked: argparse.Namespace) -> int:
    """Fetch, compile, run the smallest scenario, compare."""
    asked.scenario, asked.policy, asked.repetitions, asked.seeds = str(_PROOF), None, 1, SEEDS
    asked.markdown = None
    return compare(asked)


def run(asked: argparse.Namespace) -> int:
    """Measure scenarios and write references."""
    scenarios = [scenario_named(name, asked.policy, asked.flink) for name in asked.scenarios]
    for scenario in scenarios:
        described(scenario)  # what cannot be made is refused before the first run
    for scenario in scenarios:
        print(_measured(scenario, asked).file)
    return 0


def compare(asked: argparse.Namespace) -> int:
    """Measure one scenario, emulate it, and show both."""
    scenario = scenario_named(asked.scenario, asked.policy, asked.flink)
    described(scenario)
    measured = _measured(scenario, asked)
    say(f"wrote {measured.file}; emulating {asked.seeds} seeds")
    comparison = compared(measured.scenario, measured.document, asked.seeds)
    print_comparisons([comparison], to_stdout())
    if asked.markdown:
        asked.markdown.write_text(comparison_markdown([comparison]), "utf-8")
    return 0 if comparison.ok else _FAILED


def steps(asked: argparse.Namespace) -> int:
    """Show the figures by which debloating decides, step by step, in Flink and here."""
    scenario = scenario_named(asked.scenario, asked.policy, asked.flink)
    described(scenario)
    check_steps(scenario)
    flinks: list[Step] = []
    software = prepare(RELEASES[scenario.preset])
    what = f"{scenario.name}, {scenario.config.debloat_policy}, Flink {software.release}"
    say(f"{what}: {scenario.duration_s:.0f} s and a start")
    ran, document = measure(scenario, software, asked.port, steps=flinks)
    say(f"  {outcome(document)}; others took {document['other_cores_used']} cores")
    ours = [emulated_steps(ran, seed) for seed in range(1, asked.seeds + 1)]
    print(side_by_side([flinks], ours, scenario.windows), end="")
    return 0


def _measured(scenario: Scenario, asked: argparse.Namespace) -> Measured:
    """Run a scenario as often as asked for."""
    software = prepare(RELEASES[scenario.preset])
    what = f"{scenario.name}, {scenario.config.debloat_policy}, Flink {software.release}"
    documents = []
    for number in range(1, asked.repetitions + 1):
        say(f"{what}, run {number} of {asked.repetitions}: {scenario.duration_s:.0f} s and a start")
        ran, document = measure(scenario, software, asked.port)
        say(f"  {outcome(document)}; others took {document['other_cores_used']} cores")
        documents.append(document)
    document = repeated(documents)
    return Measured(ran, document, write_reference(asked.out, ran, document))


def fetch(asked: argparse.Namespace) -> int:
    """Make ready what the other commands need."""
    prepare(asked.flink or NEWEST)
    print(cache())
    return 0


def stop(asked: argparse.Namespace) -> int:
    """End what an earlier run has left."""
    print(f"ended {end_left_behind(cache() / FOLDER)} processes")
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = argparse.ArgumentParser(
        prog="python -m tests.flink", description=(__doc__ or "").partition("\n")[0]
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, action: Command) -> argparse.ArgumentParser:
        about = (action.__doc__ or "").partition("\n")[0]
        made = commands.add_parser(name, help=about, description=about)
        made.set_defaults(action=action)
        return made

    def measuring(name: str, action: Command) -> argparse.ArgumentParser:
        made = command(name, action)
        made.add_argument("--port", type=_port, default=PORT, help="of Flink's REST API (%(default)s)")
        made.add_argument("--out", type=Path, default=_RESULTS, help="folder for results (%(default)s)")
        return made

    proving = measuring("proof", proof)
    fetching = command("fetch", fetch)
    command("stop", stop)
    running = measuring("run", run)
    running.add_argument("scenarios", nargs="+", metavar="NAME|FILE.toml")
    comparing = measuring("compare", compare)
    comparing.add_argument("scenario", metavar="NAME|FILE.toml")
    comparing.add_argument("--seeds", type=whole, default=SEEDS, help="of the emulator (%(default)s)")
    comparing.add_argument("--markdown", type=Path, help="a file for the table")
    looking = measuring("steps", steps)
    looking.add_argument("scenario", metavar="NAME|FILE.toml")
    looking.add_argument("--seeds", type=whole, default=SEEDS, help="of the emulator (%(default)s)")
    for made in (running, comparing, looking):
        made.add_argument("--policy", help="in place of the scenario's: see docs/studies/POLICIES.md")
    for made in (running, comparing, looking, proving):
        made.add_argument(
            "--flink", choices=RELEASES.values(), help="release; default: that of the scenario's preset"
        )
    fetching.add_argument("--flink", choices=RELEASES.values(), help=f"release; default: {NEWEST}")
    for made in (running, comparing):
        made.add_argument(
            "--repetitions", type=whole, default=1, help="each in a cluster of its own (%(default)s)"
        )
    policy_runs.add_options(measuring("policies", policy_runs.run))
    ordinary_jobs.add_options(measuring("jobs", ordinary_jobs.run))
    proved_advice.add_options(measuring("advice", proved_advice.run))
    loads.add_load_options(measuring("load", loads.load))
    loads.add_outage_options(measuring("outage", loads.outage))
    past.add_options(measuring("past", past.run))
    thread_costs.add_options(measuring("costs", thread_costs.run))
    return top


def _port(text: str) -> int:
    number = whole(text)
    if number >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{number} is no port; the last one is 65535")
    return number


def main() -> int:
    """Do what the arguments ask for; whatever happens, no process stays behind."""
    signal.signal(signal.SIGTERM, _interrupted)
    asked = parser().parse_args()
    run_command(None, app)  # notes about an imported job name options of `netstack import-flink`
    try:
        return int(asked.action(asked))
    except InputError as error:
        for problem in error.problems:
            say(f"tests.flink: {problem}")
        return _MISUSED
    except TestbedError as error:
        say(f"tests.flink: {error}")
        return _FAILED
    except KeyboardInterrupt:
        say("tests.flink: stopped")
        return _STOPPED


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
