"""Many storms that go on where they were stopped, by a log of what is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from integration.cli.exit_status import INTERRUPTED
from netstack import InputError
from tests.storms import __main__ as storm_command
from tests.storms.__main__ import main
from tests.storms.many import SEEDS_A_LINE, StormLog, meaning_of_seeds
from tests.storms.one_storm import Outcome, run_storm

PLAIN = run_storm(2)

OTHERS = "its seeds were other storms than those of this version; name another file"


def outcome(seed: int, *problems: str) -> Outcome:
    return replace(PLAIN, seed=seed, problems=problems)


def test_what_is_done_is_left_out_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "storms.log"
    log = StormLog(path)
    assert log.left(range(1000)) == [range(1000)]
    for seed in [*range(100, 100 + SEEDS_A_LINE), *range(600, 650)]:
        log.note(outcome(seed, *(["missing: 1 records"] if seed in (120, 640) else [])))
    log.close()
    again = StormLog(path)
    assert again.left(range(1000)) == [range(100), range(100 + SEEDS_A_LINE, 600), range(650, 1000)]
    assert again.left(range(600, 640)) == []
    assert again.wrong_among(range(500)) == {120: ("missing: 1 records",)}
    assert again.wrong_among(range(1000)).keys() == {120, 640}


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "storms.log"
    log = StormLog(path)
    for seed in range(2 * SEEDS_A_LINE):
        log.note(outcome(seed))
    log.close()
    path.write_bytes(path.read_bytes()[:-7])
    log = StormLog(path)
    assert log.left(range(2 * SEEDS_A_LINE)) == [range(SEEDS_A_LINE, 2 * SEEDS_A_LINE)]
    log.note(outcome(SEEDS_A_LINE))
    log.close()
    assert StormLog(path).left(range(SEEDS_A_LINE + 1)) == []


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("hello\n", "it is no log of storms; name another file"),
        ('{"storms":"0123"}\n', OTHERS),
        ('{"storms":"5548491bba170b9a"}\n', OTHERS),  # those without fractions
    ],
)
def test_a_file_that_is_no_log_of_these_storms_is_refused(tmp_path: Path, content: str, mistake: str) -> None:
    path = tmp_path / "other"
    path.write_text(content)
    with pytest.raises(InputError) as refused:
        StormLog(path)
    assert refused.value.problems == (f"{path}: {mistake}",)
    assert path.read_text() == content
    with pytest.raises(InputError, match="No such file or directory"):
        StormLog(tmp_path / "no" / "folder")


def test_the_meaning_of_seeds_is_the_same_each_time() -> None:
    assert meaning_of_seeds() == meaning_of_seeds()


def test_the_command_goes_on_where_it_was_stopped_and_names_every_seed_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, run = str(tmp_path / "storms.log"), list[int]()

    def stopped_at_the_third(seeds: range, paranoid: bool) -> Iterator[Outcome]:
        for seed in seeds:
            if len(run) == 3:
                raise KeyboardInterrupt
            run.append(seed)
            yield outcome(seed, *(["missing: 1 records"] if seed == 11 else []))

    monkeypatch.setattr(storm_command, "run_storms", stopped_at_the_third)
    assert main(["--seeds", "8", "--first-seed", "10", "--log", log]) == INTERRUPTED
    monkeypatch.undo()
    capsys.readouterr()
    assert main(["--seeds", "8", "--first-seed", "10", "--log", log]) == 1
    told = capsys.readouterr().out.splitlines()
    assert run == [10, 11, 12]
    assert told[:2] == ["seed 11: missing: 1 records", "  python -m tests.storms --seed 11"]
    assert told[2].startswith("5 storms: ")
    assert told[2].endswith("; 3 were done before")
    assert told[-1] == "wrong: 11"
    assert main(["--seeds", "8", "--first-seed", "10", "--log", log]) == 1
    assert "0 storms: none was left; 8 were done before" in capsys.readouterr().out
