"""The ``[[faults]]`` of scenario files."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration import load_scenario
from netstack import (
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    InputError,
    KillSubtask,
    KillTaskManager,
    OnAcknowledgement,
    OnChannel,
    Outage,
    SubtaskName,
)

JOB = """\
duration = "60 s"
checkpoints_at = ["3 s", "5.5 s"]

[[vertices]]
name = "source"
parallelism = 2
source = { record_bytes = 1000 }

[[vertices]]
name = "stage1"
parallelism = 2

[[edges]]
from = "source"
to = "stage1"

[[faults]]
"""
STAGE = SubtaskName("stage1", 1)
CHANNEL = 'from = "source"\nfrom_subtask = 0\nto = "stage1"\nto_subtask = 1'
KILL = 'kind = "kill_subtask"\nvertex = "stage1"\nsubtask = 1\n'
LINK = 'kind = "cut_link"\nfrom_task_manager = "source"\nto_task_manager = "stage1"\n'


def load(folder: Path, fault: str) -> tuple[Fault, ...]:
    file = folder / "job.toml"
    file.write_text(JOB + fault)
    return load_scenario(file).faults


ROWS: list[tuple[str, Fault]] = [
    (KILL + 'at = "12 s"', KillSubtask(when=AtTime(12.0), subtask=STAGE)),
    (
        KILL + 'on = "acknowledgement"\nnumber = 2',
        KillSubtask(when=OnAcknowledgement(number=2, subtask=STAGE), subtask=STAGE),
    ),
    (
        KILL + 'on = "acknowledgement"\nnumber = 2\nfrom = "source"\nfrom_subtask = 0',
        KillSubtask(when=OnAcknowledgement(number=2, subtask=SubtaskName("source", 0)), subtask=STAGE),
    ),
    (
        f'kind = "kill_task_manager"\ntask_manager = "stage1"\non = "buffer"\nnumber = 3\n{CHANNEL}',
        KillTaskManager(
            when=OnChannel(item=ChannelItem.BUFFER, number=3, source=SubtaskName("source", 0), target=STAGE),
            task_manager="stage1",
        ),
    ),
    (
        LINK + f'on = "barrier"\nnumber = 1\n{CHANNEL}',
        CutLink(
            when=OnChannel(item=ChannelItem.BARRIER, number=1, source=SubtaskName("source", 0), target=STAGE),
            from_task_manager="source",
            to_task_manager="stage1",
        ),
    ),
    (
        LINK + 'at = "1 s"\nfor = "500 ms"',
        CutLink(when=AtTime(1.0), from_task_manager="source", to_task_manager="stage1", for_s=0.5),
    ),
    (
        'kind = "delay_messages"\nat = "1 s"\nmessages = "trigger"\ndelay = "2 s"\nfor = "500 ms"',
        DelayMessages(when=AtTime(1.0), messages="trigger", delay_s=2.0, for_s=0.5),
    ),
    (
        'kind = "drop_messages"\nat = "1 s"\nmessages = "acknowledge"\nfor = "1 s"\nvertex = "stage1"',
        DropMessages(when=AtTime(1.0), messages="acknowledge", for_s=1.0, vertex="stage1"),
    ),
    ('kind = "fail_upload"\nat = "1 s"\nfor = "1 s"', FailUpload(when=AtTime(1.0), for_s=1.0)),
    ('kind = "fill_storage"\nat = "1 s"', FillStorage(when=AtTime(1.0))),
    ('kind = "fill_storage"\nat = "1 s"\nfor = "1 s"', FillStorage(when=AtTime(1.0), for_s=1.0)),
    ('kind = "outage"\nat = "1 s"\nfor = "10 min"', Outage(when=AtTime(1.0), for_s=600.0)),
    (
        'kind = "outage"\nfor = "3 s"\non = "acknowledgement"\nnumber = 2\nfrom = "source"\nfrom_subtask = 0',
        Outage(when=OnAcknowledgement(number=2, subtask=SubtaskName("source", 0)), for_s=3.0),
    ),
]


@pytest.mark.parametrize(("text", "fault"), ROWS)
def test_a_fault_is_read(tmp_path: Path, text: str, fault: Fault) -> None:
    assert load(tmp_path, text) == (fault,)


def test_several_faults_stand_in_their_order(tmp_path: Path) -> None:
    text = f'{KILL}at = "12 s"\n[[faults]]\nkind = "fill_storage"\nat = "1 s"'
    assert [fault.kind for fault in load(tmp_path, text)] == ["kill_subtask", "fill_storage"]


def test_the_times_of_manual_checkpoints_are_read(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(JOB + KILL + 'at = "1 s"')
    assert load_scenario(file).manual_checkpoints_s == (3.0, 5.5)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('at = "1 s"', ['kind: is missing; give a value such as "kill_subtask"']),
        ('kind = "kill"\nat = "1 s"', ["kind: 'kill' is not a kind of fault; it must be 'kill_subtask' or"]),
        (KILL, ['at: is missing; give a time such as "12 s", or give on']),
        (KILL + 'at = "1 s"\non = "buffer"', ["at: is given together with on; remove one of the two"]),
        (KILL + "at = 1", ["at: 1 has no unit"]),
        (KILL + 'at = "60 s"', ["at: is 60 s; it must be from 0 s to before the end"]),
        (KILL + 'at = "1 s"\nnumber = 3', ["number: is not a key of this table; use one of at, kind"]),
        (KILL + 'at = "1 s"\nfor = "1 s"', ["for: is not a key of this table"]),
        (KILL + 'on = "record"', ["on: 'record' cannot be counted; it must be 'buffer' or"]),
        (KILL + f'on = "barrier"\n{CHANNEL}', ["number: is missing; give a value such as 3"]),
        (KILL + f'on = "barrier"\nnumber = "3"\n{CHANNEL}', ["number: is '3', text; it must be a whole"]),
        (
            KILL + 'on = "buffer"\nnumber = 1\nfrom = "source"\nfrom_subtask = 0',
            ["to: is missing", "to_subtask: is missing"],
        ),
        (
            'kind = "kill_subtask"\nvertex = "stage1"\non = "acknowledgement"\nnumber = 1',
            ["subtask: is missing; give a value such as 0"],
        ),
        (
            'kind = "kill_task_manager"\ntask_manager = "stage1"\non = "acknowledgement"\nnumber = 1',
            ["from: is missing", "from_subtask: is missing"],
        ),
        ('kind = "kill_task_manager"\nat = "1 s"', ["task_manager: is missing"]),
        ('kind = "outage"\nat = "1 s"', ['for: is missing; give a value such as "10 min"']),
        ('kind = "outage"\nat = "1 s"\nfor = 600', ["for: 600 has no unit"]),
        ('kind = "fail_upload"\nat = "1 s"', ['for: is missing; give a value such as "500 ms"']),
        (
            'kind = "delay_messages"\nat = "1 s"\nfor = "1 s"',
            [
                'messages: is missing; give a value such as "acknowledge"',
                'delay: is missing; give a value such as "2',
            ],
        ),
        (
            'kind = "drop_messages"\nat = "1 s"\nfor = "1 s"\nmessages = "acknowlege"',
            ["messages: 'acknowlege' is unknown; did you mean 'acknowledge'?"],
        ),
        (LINK + 'at = "1 s"\nform = "2 s"', ["form: is not a key of this table; did you mean 'for'?"]),
    ],
)
def test_a_mistake_gets_one_line_that_says_where_and_what(
    tmp_path: Path, text: str, problems: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    found = caught.value.problems
    assert len(found) == len(problems)
    for line, problem in zip(found, problems, strict=True):
        assert line.startswith(f"{tmp_path / 'job.toml'}: faults.0.{problem}")


def test_faults_are_a_list_of_tables(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(JOB.replace("[[faults]]", "[faults]") + 'kind = "fill_storage"')
    with pytest.raises(InputError, match=r"faults: is .*, a table; it must be a list"):
        load_scenario(file)
