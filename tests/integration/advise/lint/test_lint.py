import msgspec
import pytest

from integration.advise.lint.check import LintReport, lint
from integration.advise.lint.config_files import MOST_OPTIONS, Entry, read_config_file
from integration.advise.lint.flink_options import (
    CATALOGUE,
    RENAMED,
    SINCE,
    nearest,
    read_version,
)
from integration.advise.lint.rules import LintRemark, read_settings
from integration.cli.app import main
from netstack import NEWEST_FLINK, OPTIONS, PRESETS, FlinkVersion, InputError

DEBLOAT = "taskmanager.network.memory.buffer-debloat"
CHECKPOINTS = "execution.checkpointing"


@pytest.fixture
def check(tmp_path):
    """Checks a text as a configuration file; gives (line, rule, option) of what is found."""

    def check_text(text: str, version: str = "2.2", name: str = "config.yaml") -> list[LintRemark]:
        path = tmp_path / name
        path.write_text(text)
        return lint(path, version).findings

    return check_text


def places(findings: list[LintRemark]) -> list[tuple[int | None, str, str, str]]:
    return [(each.line, each.severity, each.rule, each.option) for each in findings]


def entries(tmp_path, text: str, name: str = "config.yaml") -> list[Entry]:
    (tmp_path / name).write_text(text)
    return [entry for part in read_config_file(tmp_path / name) for entry in part.entries]


def test_dots_and_nesting_mean_the_same_and_keep_their_lines(tmp_path) -> None:
    text = "# a comment\na.b: 1\na:\n  c.d: 'on'\n  e:\n    f: 1_000 # with a comment\n    g:\nh: [1, 2]\n"
    assert entries(tmp_path, text) == [
        Entry("a.b", "1", 2),
        Entry("a.c.d", "on", 4),
        Entry("a.e.f", "1_000", 6),
        Entry("a.e.g", None, 7),
        Entry("h", "[1, 2]", 8),
    ]


def test_the_older_format_is_read_line_by_line(tmp_path) -> None:
    path = tmp_path / "flink-conf.yaml"
    path.write_text("a.b: 1 # one\n\n  c: x: y\nd:e\nf:\n  g: 2\n")
    (file,) = read_config_file(path)
    assert file.entries == [Entry("a.b", "1", 1), Entry("c", "x: y", 3), Entry("g", "2", 6)]
    assert [(skipped.text, skipped.line) for skipped in file.skipped] == [("d:e", 4), ("f:", 5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "line 2: is not valid YAML"),
        ("- a\n", "line 1: is not an option; write options as `name: value`"),
        ("a: 1\n? [x]\n: 2\n", "line 2: the name of an option must be text"),
        ("a: &x\n  b: *x\n", "line 1: an alias refers to a mapping that contains it"),
        ("a: 1\n\tb: 2\n", "line 2: is not valid YAML"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_line(tmp_path, text, message) -> None:
    with pytest.raises(InputError, match=r"config\.yaml") as refused:
        entries(tmp_path, text)
    assert message in str(refused.value)


def test_aliases_cannot_make_a_file_endless(tmp_path) -> None:
    levels = ["a0: &a0 {x: 1, y: 2}"] + [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40)]
    with pytest.raises(InputError, match=f"more than {MOST_OPTIONS} options"):
        entries(tmp_path, "\n".join(levels))


def test_flink_2_ignores_the_buffer_counts_and_their_values_are_not_looked_at(check) -> None:
    text = (
        "taskmanager.network.memory:\n  buffers-per-channel: abc\n  floating-buffers-per-gate: 8\n"
        "  max-buffers-per-channel: 1\n  max-overdraft-buffers-per-gate: 0\n"
    )
    found = check(text)
    prefix = "taskmanager.network.memory"
    assert places(found) == [
        (2, "warning", "ignored-option", f"{prefix}.buffers-per-channel"),
        (3, "warning", "ignored-option", f"{prefix}.floating-buffers-per-gate"),
        (4, "warning", "ignored-option", f"{prefix}.max-buffers-per-channel"),
        (5, "warning", "ignored-option", f"{prefix}.max-overdraft-buffers-per-gate"),
    ]
    assert [each.message.partition("constant ")[2] for each in found] == [
        "2, not abc",
        "8",
        "10, not 1",
        "20, not 0",
    ]


def test_flink_2_has_lost_other_options_too(check) -> None:
    text = "taskmanager.network.netty.transport: epoll\ntaskmanager.network.sort-shuffle.min-parallelism: 1\n"
    assert [(each.line, each.rule) for each in check(text)] == [(1, "ignored-option"), (2, "ignored-option")]
    assert check(text, "1.20") == []


def test_flink_1_obeys_the_buffer_counts(check) -> None:
    prefix = "taskmanager.network.memory"
    text = f"{prefix}.buffers-per-channel: abc\n{prefix}.max-buffers-per-channel: 1\n"
    assert places(check(text, "1.20")) == [
        (1, "error", "bad-value", f"{prefix}.buffers-per-channel"),
        (2, "error", "no-buffers", f"{prefix}.max-buffers-per-channel"),
    ]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f"{DEBLOAT}.enable", f"{DEBLOAT}.enabled"),
        (f"{CHECKPOINTS}.min-pause-between-checkpoints", f"{CHECKPOINTS}.min-pause"),
        (f"{CHECKPOINTS}.externalized-checkpoint", f"{CHECKPOINTS}.externalized-checkpoint-retention"),
        ("taskmanger.memory.network.fraction", "taskmanager.memory.network.fraction"),
        ("buffer-debloat.target", f"{DEBLOAT}.target"),
        ("taskmanager.network.memory.buffer-debloat.treshold", f"{DEBLOAT}.threshold-percentages"),
    ],
)
def test_a_misspelt_name_leads_to_the_nearest(check, wrong, right) -> None:
    (found,) = check(f"{wrong}: 1\n")
    assert (found.line, found.rule) == (1, "unknown-option")
    assert found.advice == f"did you mean {right}?"


def test_options_of_other_parts_of_flink_are_left_alone(check) -> None:
    text = (
        "jobmanager.rpc.address: localhost\nrest.port: 8081\ntaskmanager.memory.process.size: 1728m\n"
        "taskmanager.memory.managed.fraction: 0.4\ntaskmanager.host: x\nstate.backend.type: rocksdb\n"
        "high-availability.type: zookeeper\nexecution.target: local\nenv.java.opts.all: -Xmx1g\n"
        "blob.server.port: 1\nclassloader.resolve-order: parent-first\ns3.endpoint: x\n"
        "taskmanager.memory.task.heap.size: 1g\nexecution.runtime-mode: STREAMING\n"
        "taskmanager.memory.jvm-overhead.max: 1g\nheartbeat.interval: 10 s\n"
    )
    assert check(text) == []


def test_every_known_name_is_accepted(check) -> None:
    later = {name for name, version in SINCE.items() if version > FlinkVersion(1, 20)}
    names = sorted(set(CATALOGUE) - {option.name for option in OPTIONS.values() if option.only_1x} - later)
    found = check("".join(f"{name}: x\n" for name in names), "1.20")
    assert {each.rule for each in found} <= {"bad-value", "old-name", "given-twice"}


def test_names_lead_to_names_of_today() -> None:
    assert [name for name in RENAMED.values() if name in RENAMED] == []
    assert [name for name in RENAMED if nearest(name) == [name]] == []
    assert {CATALOGUE[option.name].field for option in OPTIONS.values()} == set(OPTIONS)


def test_an_old_name_is_noted_and_yields_to_the_new_one(check) -> None:
    old, new = f"{CHECKPOINTS}.alignment-timeout", f"{CHECKPOINTS}.aligned-checkpoint-timeout"
    unaligned = f"{CHECKPOINTS}.unaligned.enabled: true\n{CHECKPOINTS}.interval: 10s\n"
    assert places(check(f"{unaligned}{old}: 20 min\n")) == [
        (3, "warning", "never-unaligned", old),
        (3, "note", "old-name", old),
    ]
    assert places(check(f"{unaligned}{new}: 1 s\n{old}: 20 min\n")) == [
        (4, "warning", "given-twice", old),
        (4, "note", "old-name", old),
    ]


def test_every_former_name_of_an_option_is_noted(check) -> None:
    former = [name for option in OPTIONS.values() for name in option.former]
    found = check("".join(f"{name}: x\n" for name in former))
    assert [each.option for each in found if each.rule == "old-name"] == former


@pytest.mark.parametrize(
    ("version", "new", "old", "field"),
    [
        ("1.20", "state.backend.type: hashmap", "state.backend: rocksdb", "state_backend"),
        (
            "1.19",
            "state.storage.fs.memory-threshold: 20kb",
            "state.backend.fs.memory-threshold: 3kb",
            "state_memory_threshold_bytes",
        ),
    ],
)
def test_the_name_of_the_version_wins_over_an_older_one_below_it(tmp_path, version, new, old, field) -> None:
    listed = entries(tmp_path, f"{new}\n{old}\n")
    preset = PRESETS["flink-1.20"]
    settings, _ = read_settings(listed, preset, read_version(version, ""))
    assert getattr(settings.config, field) == getattr(preset, field)


def test_a_name_given_twice(check) -> None:
    twice = f"{DEBLOAT}.enabled: true\n{DEBLOAT}.enabled: false\n"
    assert places(check(twice)) == [(2, "error", "given-twice", f"{DEBLOAT}.enabled")]
    assert places(check(twice, "1.20", "flink-conf.yaml")) == [
        (2, "warning", "given-twice", f"{DEBLOAT}.enabled")
    ]
    mapping = "taskmanager:\n  host: a\nrest.port: 1\ntaskmanager:\n  slots: 2\n"
    assert places(check(mapping)) == [(4, "error", "given-twice", "taskmanager")]
    forms = f"{CHECKPOINTS}.interval: 1 s\nexecution:\n  checkpointing.interval: 2 s\n"
    assert places(check(forms)) == [(3, "warning", "given-twice", f"{CHECKPOINTS}.interval")]


def test_flink_2_does_not_read_the_old_file(check) -> None:
    text = f"{CHECKPOINTS}.interval: 10 s\n"
    assert places(check(text, "2.2", "flink-conf.yaml")) == [(None, "error", "old-file", "flink-conf.yaml")]
    assert check(text, "1.20", "flink-conf.yaml") == []


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("taskmanager.memory.segment-size", "33kb", "out-of-range"),
        ("taskmanager.memory.segment-size", "32 kib", "bad-value"),
        ("taskmanager.memory.min-segment-size", "64kb", "out-of-range"),
        ("taskmanager.memory.network.fraction", "1.5", "bad-value"),
        (f"{DEBLOAT}.target", "0 ms", "out-of-range"),
        (f"{DEBLOAT}.target", "0.5 s", "bad-value"),
        (f"{DEBLOAT}.samples", "0", "bad-value"),
        (f"{DEBLOAT}.enabled", "", "bad-value"),
        (f"{CHECKPOINTS}.interval", "5 ms", "out-of-range"),
        (f"{CHECKPOINTS}.data-inline-threshold", "2mb", "out-of-range"),
        ("taskmanager.network.request-backoff.max", "1 s", "bad-value"),
    ],
)
def test_values_that_flink_refuses(check, option, value, rule) -> None:
    found = [each for each in check(f"{option}: {value}\n") if each.severity == "error"]
    assert places(found) == [(1, "error", rule, option)]


def on(text: str = "") -> str:
    return f"{DEBLOAT}.enabled: true\n{text}"


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        (f"{DEBLOAT}.target: 1 s\n", "2.2", [(1, "warning", "debloating-off")]),
        ("taskmanager.memory.min-segment-size: 1kb\n", "2.2", [(1, "note", "debloating-off")]),
        (on("taskmanager.memory.min-segment-size: 32kb\n"), "2.2", [(2, "warning", "debloating-defeated")]),
        (on(f"{DEBLOAT}.threshold-percentages: 100\n"), "2.2", [(2, "warning", "debloating-defeated")]),
        (on(f"{DEBLOAT}.threshold-percentages: 99\n"), "2.2", []),
        (on("execution.buffer-timeout.interval: 0 ms\n"), "2.2", [(2, "warning", "debloating-defeated")]),
        (on(f"{DEBLOAT}.target: 50 ms\n"), "2.2", [(2, "note", "timeout-above-target")]),
        (on(f"{DEBLOAT}.samples: 300\n"), "2.2", [(2, "warning", "slow-debloating")]),
        (on(f"{DEBLOAT}.period: 5 s\n"), "2.2", [(2, "warning", "slow-debloating")]),
        (on("parallelism.default: 201\n"), "2.2", [(2, "warning", "debloating-parallelism")]),
        (on("parallelism.default: 200\n"), "2.2", []),
        (
            on("parallelism.default: 300\ntaskmanager.network.memory.floating-buffers-per-gate: 300\n"),
            "1.20",
            [],
        ),
        (
            on("taskmanager.network.memory.max-overdraft-buffers-per-gate: 0\n"),
            "1.20",
            [(2, "warning", "no-overdraft")],
        ),
        (on(f"{CHECKPOINTS}.timeout: 1 s\n"), "2.2", [(2, "warning", "timeout-below-target")]),
        (f"{CHECKPOINTS}.aligned-checkpoint-timeout: 1 s\n", "2.2", [(1, "warning", "no-unaligned")]),
        (
            f"{CHECKPOINTS}:\n  interval: 1 s\n  mode: AT_LEAST_ONCE\n  unaligned.enabled: true\n",
            "2.2",
            [(4, "warning", "no-unaligned")],
        ),
        (
            f"{CHECKPOINTS}:\n  interval: 1 s\n  max-concurrent-checkpoints: 2\n  unaligned.enabled: true\n",
            "2.2",
            [(3, "error", "out-of-range")],
        ),
        (
            on(
                f"{CHECKPOINTS}:\n  interval: 1 s\n  unaligned.enabled: true\n"
                "  aligned-checkpoint-timeout: 500 ms\n"
            ),
            "2.2",
            [(5, "warning", "always-unaligned")],
        ),
        (f"{CHECKPOINTS}.unaligned.enabled: true\n", "2.2", [(1, "note", "no-interval")]),
        (
            f"{CHECKPOINTS}:\n  interval: 1 s\n  min-pause: 2 s\n",
            "2.2",
            [(3, "note", "pause-above-interval")],
        ),
        (
            f"{CHECKPOINTS}:\n  interval: 10 s\n  interval-during-backlog: 5 s\n",
            "2.2",
            [(3, "error", "out-of-range")],
        ),
        (f"{CHECKPOINTS}.storage: filesystem\n", "2.2", [(None, "error", "out-of-range")]),
        (f"{CHECKPOINTS}:\n  storage: jobmanager\n  dir: file:///x\n", "2.2", [(3, "note", "storage")]),
        ("taskmanager.memory.network.max: 32mb\n", "2.2", [(1, "error", "out-of-range")]),
        (
            "taskmanager.memory.network:\n  min: 1mb\n  max: 1mb\n  fraction: 0.2\n",
            "2.2",
            [(4, "note", "fraction")],
        ),
        (
            "taskmanager.memory.network:\n  min: 1mb\n  max: 1mb\nparallelism.default: 7\n",
            "2.2",
            [],
        ),
        (
            "taskmanager.memory.network:\n  min: 1mb\n  max: 1mb\nparallelism.default: 10\n",
            "2.2",
            [],
        ),
        (
            "taskmanager.memory.network:\n  min: 1mb\n  max: 1mb\nparallelism.default: 11\n",
            "2.2",
            [(3, "error", "too-little-memory")],
        ),
        (
            "taskmanager:\n  numberOfTaskSlots: 2\n  memory.network: {min: 1mb, max: 1mb}\n"
            "parallelism.default: 5\n",
            "2.2",
            [(3, "error", "too-little-memory")],
        ),
        (
            "parallelism.default: 8\ntaskmanager.network.memory.read-buffer.required-per-gate.max: 9\n",
            "2.2",
            [(2, "note", "fewer-exclusive")],
        ),
        (
            "execution.buffer-timeout:\n  enabled: false\n  interval: 10 ms\n",
            "2.2",
            [(3, "warning", "no-flushing")],
        ),
        (
            "taskmanager.network.request-backoff:\n  initial: 200\n  max: 100\n",
            "2.2",
            [(2, "error", "out-of-range")],
        ),
    ],
)
def test_combinations(check, text, version, expected) -> None:
    assert [(each.line, each.severity, each.rule) for each in check(text, version)] == expected


def test_the_smallest_memory_that_is_accepted_is_what_one_exchange_needs_to_start(check) -> None:
    """Two subtasks, 4 channels each: 2 x (4 x 2 + 1) of gates, 2 x (4 + 1) of partitions."""
    text = "taskmanager.numberOfTaskSlots: 2\nparallelism.default: 4\ntaskmanager.memory.network.min: 1b\n"
    enough, less = (f"taskmanager.memory.network.max: {buffers * 32}kb\n" for buffers in (28, 27))
    assert check(text + enough) == []
    (found,) = check(text + less)
    assert found.message.startswith("has room for 27 buffers")
    assert found.advice == "set it to at least 896 kb"


ADAPTIVE = "taskmanager.network.adaptive-partitioner"
DURING_RECOVERY = f"{CHECKPOINTS}.unaligned.during-recovery.enabled"
ON_DOWNSTREAM = f"{CHECKPOINTS}.unaligned.recover-output-on-downstream.enabled"


def test_options_of_flink_2_3(check) -> None:
    text = f"{ADAPTIVE}.enabled: true\n{ADAPTIVE}.max-traverse-size: 0\n"
    assert places(check(text, "2.3")) == [(2, "error", "bad-value", f"{ADAPTIVE}.max-traverse-size")]
    one = f"{ADAPTIVE}.max-traverse-size: 1\n"
    assert places(check(one, "2.3")) == [(1, "error", "out-of-range", f"{ADAPTIVE}.max-traverse-size")]
    assert [each.rule for each in check(one, "2.2")] == ["later-option"]
    assert [each.rule for each in check(text, "2.2")] == ["later-option"] * 2
    unaligned = f"{CHECKPOINTS}.unaligned.enabled: true\n{CHECKPOINTS}.interval: 10s\n"
    alone = f"{unaligned}{DURING_RECOVERY}: true\n"
    assert places(check(alone, "2.3")) == [(3, "warning", "no-unaligned", DURING_RECOVERY)]
    (found,) = check(f"{alone}{ON_DOWNSTREAM}: true\n", "2.3")
    assert (found.line, found.rule) == (3, "repeated-data")
    assert "FLINK-40016" in found.message
    assert check(f"{unaligned}{ON_DOWNSTREAM}: true\n", "2.3") == []


def test_the_defaults_written_out_are_fine(check) -> None:
    for preset, version in (("flink-2.3", "2.3"), ("flink-2.2", "2.2"), ("flink-1.20", "1.20")):
        config, lines = PRESETS[preset], []
        for field, option in OPTIONS.items():
            value = getattr(config, field)
            if value is not None and CATALOGUE[option.name].name_in(read_version(version, "")) is not None:
                name = CATALOGUE[option.name].name
                plain = "request-backoff" in name
                shown = round(value * 1000) if plain else option.kind.render(value)
                lines.append(f"{name}: {str(shown).lower() if isinstance(shown, bool) else shown}\n")
        found = check("".join(lines), version)
        assert {each.severity for each in found} <= {"note", "warning"}
        assert {each.rule for each in found} <= {"debloating-off", "no-unaligned", "no-interval"}


def test_the_command_prints_what_it_found_and_its_status_says_so(tmp_path, capsys) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("taskmanager.network.memory.buffers-per-channel: 4\n")
    assert main(["lint", str(path)]) == 1
    printed = capsys.readouterr()
    assert "line 1: warning [ignored-option]" in printed.out
    assert "1 warning." in " ".join(printed.out.split())
    assert max(map(len, printed.out.splitlines())) <= 80
    assert main(["lint", str(path), "--flink", "1.20"]) == 0
    assert "no findings" in " ".join(capsys.readouterr().out.split())


def test_the_command_writes_its_report(tmp_path, capsys) -> None:
    path, out = tmp_path / "config.yaml", tmp_path / "out"
    path.write_text(on(f"{DEBLOAT}.enable: true\n"))
    assert main(["lint", str(path), "--json", "--out", str(out)]) == 1
    printed = msgspec.json.decode(capsys.readouterr().out, type=LintReport)
    assert msgspec.json.decode((out / "lint.json").read_bytes(), type=LintReport) == printed
    assert (printed.schema, printed.flink, printed.options, printed.ok) == (
        "netstack.lint/1",
        "2.3",
        2,
        False,
    )
    assert places(printed.findings) == [(2, "warning", "unknown-option", f"{DEBLOAT}.enable")]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["missing.yaml"], "missing.yaml: there is no such file"),
        (
            ["missing.yaml", "--flink", "3"],
            "netstack lint: --flink is '3'; it must be from 1.12 to 1.20, or from 2.0 to 2.3",
        ),
    ],
)
def test_mistakes_are_one_line_on_stderr(tmp_path, capsys, arguments, line) -> None:
    assert main(["lint", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 3000 + "]" * 3000,
        "[" * 1_000_000,
        "- " * 500_000,
        "".join(" " * n + "a:\n" for n in range(1000)),
    ],
)
def test_a_file_that_is_nested_without_end_is_refused(tmp_path, text) -> None:
    with pytest.raises(InputError, match=r"config\.yaml: is nested too deeply"):
        entries(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("parallelism.default: ²", "'²' is not a whole number; it must be a whole number from 1"),
        (f"{CHECKPOINTS}.max-concurrent-checkpoints: 2147483648", "too large; it must be at most 2147483647"),
        (
            f"{CHECKPOINTS}.interval: {'9' * 400} s",
            " does not fit into 64 bits, so Flink does not accept it; it must be",
        ),
        ("taskmanager.memory.network.max: 8388608 tb", "too large; it must be less than 8388608 tb"),
        ("taskmanager.memory.segment-size: 2 gb", "is 2 gb; it must be a power of two from 4 kb to 1 gb"),
        (f"{CHECKPOINTS}.timeout: [1, 2]", "'[1, 2]' is not a whole number with a unit"),
    ],
)
def test_values_that_flink_s_types_do_not_hold_are_errors(check, line, message) -> None:
    found = [each for each in check(line) if each.severity == "error"]
    assert len(found) == 1
    assert message in found[0].message


def test_the_greatest_values_that_flink_s_types_hold_are_read(check) -> None:
    lines = (
        f"{CHECKPOINTS}.max-concurrent-checkpoints: 2147483647",
        f"{CHECKPOINTS}.interval: 9223372036854775000",
        "taskmanager.memory.network.max: 8388607 tb",
        f"{CHECKPOINTS}.local-backup.dirs: [/a, /b]",
    )
    assert "bad-value" not in {each.rule for each in check("\n".join(lines))}


def test_empty_files_and_other_versions(check) -> None:
    assert check("") == []
    assert check("# nothing\n", "2") == []
    assert check("", "1.19.1") == []


@pytest.mark.parametrize("version", ["1.18", "1.18.1"])
def test_a_name_that_came_later_is_not_advised_and_not_read(check, version) -> None:
    assert check("state.checkpoints.dir: file:///x\n", version, "flink-conf.yaml") == []
    (found,) = check(f"{CHECKPOINTS}.dir: file:///x\n", version, "flink-conf.yaml")
    assert (found.rule, found.severity, found.advice) == (
        "later-option",
        "warning",
        "write state.checkpoints.dir",
    )
    assert found.message == "was added in Flink 1.20; 1.18 ignores it silently"
    assert [each.rule for each in check("state.checkpoints.dir: file:///x\n", "1.20")] == ["old-name"]


def test_debloating_came_with_1_14(check) -> None:
    text = f"{DEBLOAT}.enabled: true\n{DEBLOAT}.target: abc\n"
    found = check(text, "1.12", "flink-conf.yaml")
    assert [(each.rule, each.advice) for each in found] == [("later-option", "drop it")] * 2
    assert [each.rule for each in check(text, "1.14", "flink-conf.yaml")] == ["bad-value"]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("1.16", f"{CHECKPOINTS}.unaligned"),
        ("1.17", f"{CHECKPOINTS}.unaligned.enabled"),
        ("1.20", f"{CHECKPOINTS}.data-inline-threshold"),
        ("1.16", "restart-strategy"),
        ("1.19", "state.savepoints.dir"),
        ("1.13", "restart-strategy.exponential-delay.initial-backoff"),
        ("1.19", "restart-strategy.exponential-delay.attempts-before-reset-backoff"),
    ],
)
def test_the_name_of_each_version_is_fine_in_it(check, version, name) -> None:
    known = CATALOGUE[name]
    assert known.name_in(read_version(version, "")) == name
    found = check(f"{name}: x\n", version, "flink-conf.yaml")
    assert {each.rule for each in found} <= {"bad-value", "no-unaligned"}


def test_options_of_restart_strategies_are_known_and_read(check) -> None:
    backoff = "restart-strategy.exponential-delay"
    fine = f"restart-strategy.type: exponential-delay\n{backoff}.jitter-factor: 0.2\n"
    assert check(fine, "2.2") == []
    (found,) = check(f"{backoff}.jitter-factor: lots\n", "2.2")
    assert found.rule == "bad-value"
    (found,) = check(f"{backoff}.attempts-before-reset-backoff: 3\n", "1.18", "flink-conf.yaml")
    assert found.rule == "later-option"
    (found,) = check(f"{backoff}.inital-backoff: 3 s\n", "2.2")
    assert found.advice == f"did you mean {backoff}.initial-backoff?"


def test_messages_name_options_as_the_version_does(check) -> None:
    (found,) = check(f"{CHECKPOINTS}.alignment-timeout: 1 s\n", "1.13", "flink-conf.yaml")
    assert found.message == f"has no effect unless {CHECKPOINTS}.unaligned is true"
    (found,) = check(f"{CHECKPOINTS}.unaligned.enable: true\n", "1.14", "flink-conf.yaml")
    assert found.advice == f"did you mean {CHECKPOINTS}.unaligned?"


def test_every_name_with_a_date_is_in_the_catalogue() -> None:
    assert set(SINCE) - set(CATALOGUE) == set()
    assert max(SINCE.values()) <= NEWEST_FLINK


@pytest.mark.parametrize("version", ["1.11", "1.21", "2.4", "3", "2.2.x", "", "2.2\n"])
def test_versions_whose_rules_are_not_known_are_refused(version) -> None:
    with pytest.raises(InputError, match=r"it must be from 1\.12 to 1\.20, or from 2\.0 to 2\.3"):
        read_version(version, "--flink")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2", (2, 3)),
        ("1.12", (1, 12)),
        ("1.20.3", (1, 20)),
    ],
)
def test_versions_that_are_known(text, version) -> None:
    assert read_version(text, "") == FlinkVersion(*version)


def test_flink_before_1_19_reads_no_config_yaml(check) -> None:
    text = f"{CHECKPOINTS}.interval: 10 s\n"
    assert places(check(text, "1.18")) == [(None, "note", "new-file", "config.yaml")]
    assert check(text, "1.19") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{DEBLOAT}.threshold-percentages: 150\n", (2, "warning", "unusual-value")),
        (f"{DEBLOAT}.target: 10\n", (2, "warning", "no-unit")),
        (f"{DEBLOAT}.target: 2 min\n", (2, "warning", "unusual-value")),
        (f"{CHECKPOINTS}.interval: 30\n", (2, "warning", "unusual-value")),
        (f"{CHECKPOINTS}.interval: 60\n", (2, "warning", "no-unit")),
        (f"{CHECKPOINTS}.interval: 60000\n", (2, "note", "no-unit")),
        (f"{CHECKPOINTS}.interval-during-backlog: 500\n", (2, "warning", "no-unit")),
        (f"{CHECKPOINTS}.max-concurrent-checkpoints: 2147483647\n", (2, "warning", "unusual-value")),
        ("taskmanager.memory.network.fraction: 0.9\n", (2, "warning", "unusual-value")),
        ("taskmanager.memory.network.min: 64\n", (2, "warning", "no-unit")),
    ],
)
def test_values_that_hardly_anybody_means(check, text, expected) -> None:
    found = [(each.line, each.severity, each.rule) for each in check(on(text))]
    assert expected in found
    assert len(found) == 1 or expected[2] == "no-unit"


def test_usual_values_are_not_remarked(check) -> None:
    text = f"{DEBLOAT}.target: 500 ms\n{CHECKPOINTS}.interval: 1 min\n{CHECKPOINTS}.min-pause: 0\n"
    assert check(on(text)) == []


def test_a_number_without_a_unit_is_said_as_flink_reads_it(check) -> None:
    assert [each.message for each in check(f"{CHECKPOINTS}.interval: 100\n")] == [
        '100 means 100 ms in Flink; write "100 ms"'
    ]
    (unusual,) = check(f"{CHECKPOINTS}.interval: 10\n")
    assert unusual.message == "is 10; usual values are seconds to hours"
    assert unusual.advice == '10 means 10 ms in Flink; write "10 ms"'


def test_what_follows_from_a_value_that_cannot_be_read_is_not_said(check) -> None:
    text = f'{DEBLOAT}.enabled: "yes"\n{DEBLOAT}.target: 500 ms\n{DEBLOAT}.period: 100 ms\n'
    assert places(check(text)) == [(1, "error", "bad-value", f"{DEBLOAT}.enabled")]
    unaligned = f"{CHECKPOINTS}.unaligned.enabled: yes please\n"
    text = f"{unaligned}{CHECKPOINTS}.aligned-checkpoint-timeout: 1 s\n"
    assert places(check(text)) == [(1, "error", "bad-value", f"{CHECKPOINTS}.unaligned.enabled")]
    text = f"{CHECKPOINTS}.interval: ten\n{CHECKPOINTS}.unaligned.enabled: true\n"
    assert places(check(text)) == [(1, "error", "bad-value", f"{CHECKPOINTS}.interval")]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_lists_of_aliases_are_shown_in_part(tmp_path) -> None:
    assert len(BOMB) < 500
    found = entries(tmp_path, BOMB)
    assert found[-1] == Entry("i", f"[{', '.join(['...'] * 9)}]", 9)
    (entry,) = entries(tmp_path, f"a: [{'x, ' * 100}]\n")
    assert entry.value == f"[{'x, ' * 20}...]"


def test_a_list_without_end_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="it contains more than 40,000 names and values"):
        entries(tmp_path, f"a: [{'x, ' * 100_000}]\n")


def test_names_do_not_grow_without_end(tmp_path) -> None:
    levels = [f"a0: &a0 {{{'x' * 600}: 1}}"] + [
        f"a{n}: &a{n} {{{'y' * 600}: *a{n - 1}}}" for n in range(1, 9)
    ]
    with pytest.raises(InputError, match=r"line 1: a name is longer than 1000 characters"):
        entries(tmp_path, "\n".join(levels))


DEPLOYMENT = """\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata:
  name: job
spec:
  flinkVersion: v1_18
  flinkConfiguration:
    taskmanager.network.memory.buffers-per-channel: "4"
    execution.checkpointing.dir: file:///x
---
# of another job
apiVersion: v1
kind: ConfigMap
data:
  other.txt: "a: 1"
  flink-conf.yaml: |
    # the old form
    taskmanager.network.memory.buffer-debloat.enabled: yes

    skipped
  config.yaml: |-
    taskmanager:
      network:
        memory:
          buffer-debloat:
            enabled: maybe
---
apiVersion: v1
kind: Service
spec: {ports: [1]}
"""


def test_what_kubernetes_is_given_is_read_part_by_part(tmp_path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(DEPLOYMENT)
    report = lint(path)
    assert [(each.line, each.rule) for each in report.findings] == [
        (9, "later-option"),
        (16, "old-file"),
        (18, "bad-value"),
        (20, "skipped-line"),
        (26, "bad-value"),
    ]
    assert (report.flink, report.options) == ("1.18, 2.3", 4)
    of_2 = lint(path, "2.2")
    assert (of_2.flink, of_2.findings[0].line, of_2.findings[0].rule) == ("2.2", 8, "ignored-option")


def test_a_list_of_kubernetes_and_lines_that_cannot_be_told(tmp_path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(
        "apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap\n  data:\n"
        f'    config.yaml: "{DEBLOAT}.target: x\\n{DEBLOAT}.samples: x"\n'
    )
    assert [(each.line, each.rule) for each in lint(path).findings if each.severity == "error"] == [
        (6, "bad-value"),
        (6, "bad-value"),
    ]


def test_a_mistake_within_a_text_has_the_line_of_the_file(tmp_path) -> None:
    path = tmp_path / "map.yaml"
    path.write_text("kind: ConfigMap\ndata:\n  config.yaml: |\n    a: 1\n    - b\n")
    with pytest.raises(InputError, match=r"map\.yaml: line 5: is not valid YAML"):
        lint(path)
    path.write_text("kind: FlinkDeployment\nspec: {flinkVersion: v3_0, flinkConfiguration: {a: 1}}\n")
    with pytest.raises(InputError, match=r"map\.yaml: flinkVersion is '3\.0'; it must be from 1\.12"):
        lint(path)


def test_documents_of_one_file_keep_their_lines(check) -> None:
    assert places(check(f"{DEBLOAT}.enabled: x\n---\na: 1\n---\n\n{DEBLOAT}.samples: 0\n")) == [
        (1, "error", "bad-value", f"{DEBLOAT}.enabled"),
        (6, "error", "bad-value", f"{DEBLOAT}.samples"),
    ]


@pytest.mark.parametrize("text", ["", "rest.port: 8081\n", "kind: Service\napiVersion: v1\n"])
def test_a_file_without_such_options_is_not_called_fine(tmp_path, capsys, text) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert main(["lint", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "contains no options of Flink's network layer or of checkpoints, so nothing was checked" in printed
    assert "no findings" not in printed


def test_several_files_are_checked_in_turn(tmp_path, capsys) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(f"{CHECKPOINTS}.interval: 10 s\n")
    bad.write_text(f"{DEBLOAT}.enabled: x\n")
    assert main(["lint", str(good), str(bad), "--json"]) == 1
    document = msgspec.json.decode(capsys.readouterr().out)
    assert (document["schema"], document["ok"]) == ("netstack.lint-reports/1", False)
    assert [(each["file"], each["ok"]) for each in document["reports"]] == [
        (str(good), True),
        (str(bad), False),
    ]
    assert main(["lint", str(bad), str(good)]) == 1
    printed = "".join(capsys.readouterr().out.split())  # a long path goes over the end of a line
    assert printed.index("error[bad-value]") < printed.index("good.yaml")
    assert main(["lint"]) == 2
    assert capsys.readouterr().err == "netstack lint: give a configuration file, such as config.yaml\n"


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path) -> None:
    for name in ("config.yaml", "flink-conf.yaml"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfa.b: 1\n")
        assert [entry.name for part in read_config_file(tmp_path / name) for entry in part.entries] == ["a.b"]


def test_the_help_says_what_the_exit_status_of_warnings_is(capsys) -> None:
    assert main(["lint", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "The exit status is 1 if there is an error or a warning, otherwise 0." in told


def test_a_buffer_timeout_of_minus_one_names_the_option_that_switches_it_off(check) -> None:
    (found,) = [each for each in check("execution.buffer-timeout.interval: -1\n") if each.rule == "bad-value"]
    assert "set execution.buffer-timeout.enabled to false" in found.message


def test_a_pause_is_no_time_without_a_checkpoint_if_several_may_run_at_once(check) -> None:
    options = f"{CHECKPOINTS}.interval: 10 s\n{CHECKPOINTS}.min-pause: 5 s\n"
    assert places(check(options)) == []
    assert places(check(f"{options}{CHECKPOINTS}.max-concurrent-checkpoints: 2\n")) == [
        (2, "warning", "pause-with-concurrent", f"{CHECKPOINTS}.min-pause")
    ]


SIZED_DEPLOYMENT = """apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
spec:
  flinkVersion: v1_20
  flinkConfiguration:
    taskmanager.numberOfTaskSlots: "4"
  taskManager:
    resource: {memory: MEMORY, cpu: 1}
  job:
    parallelism: 500
"""


@pytest.mark.parametrize(("memory", "starts"), [("2Gi", False), ("2048m", False), ("3Gi", True)])
def test_a_deployment_needs_buffers_for_its_slots_and_parallelism(tmp_path, memory, starts) -> None:
    """2 GiB less overhead and metaspace are 1.56 GiB, a tenth of them 159 MiB: 5,079 buffers, not 6,008."""
    path = tmp_path / "job.yaml"
    path.write_text(SIZED_DEPLOYMENT.replace("MEMORY", memory))
    found = [(each.line, each.rule, each.option) for each in lint(path).findings]
    assert found == ([] if starts else [(8, "too-little-memory", "taskmanager.memory.process.size")])
