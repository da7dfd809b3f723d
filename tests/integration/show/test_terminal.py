"""Names and peers' texts on a terminal: shown as they are, without effect on it."""

import io
import json
import tomllib

import pytest
from rich.table import Table
from rich.text import Text

from integration.cli.app import main
from integration.show.terminal.console import Terminal, say, shown, to_stdout
from integration.show.terminal.documents import shown_json
from netstack import Edge, GeneratorSpec, Scenario, Vertex, scenario_toml

NASTY = "a\x1b[31mb\x9b2J\u202ec\x00"
HARMLESS = r"a\x1b[31mb\x9b2J\u202ec\x00"

SCENARIO = """\
name = "%s"
duration = "1 s"
[[vertices]]
name = "%s"
source = { record_bytes = 1000, rate = 10 }
[[vertices]]
name = "b"
[[edges]]
from = "%s"
to = "b"
"""


def test_a_line_is_one_line_whatever_is_in_it(capsys):
    say(f"{NASTY}\r\n[bold]x[/]:smile:")
    assert capsys.readouterr().err == f"{HARMLESS}\\r\\n[bold]x[/]:smile:\n"


def test_what_is_laid_out_is_shown_within_its_layout(capsys):
    table = Table("name")
    table.add_row(NASTY)
    table.add_row(Text(NASTY, style="bold"))
    table.add_row("[red]x[/red]")
    console = to_stdout()
    console.print(table)
    console.print(NASTY, Text(NASTY))
    printed = capsys.readouterr().out
    assert printed.count(HARMLESS) == 2
    assert printed.count(HARMLESS[:12]) == 4  # a cell has the width of the name, and is cut to it
    assert "[red]x[/red]" in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert [letter for letter in printed if not letter.isprintable() and letter != "\n"] == []


def test_colours_of_our_own_still_pass():
    file = io.StringIO()
    Terminal(file=file, force_terminal=True, color_system="standard").print(Text("\x1b]0;x", style="red"))
    assert file.getvalue() == "\x1b[31m\\x1b]0;x\x1b[0m\n"


@pytest.mark.parametrize("text", ["Köln", "日本", "👩‍🔬", "a\\x1b", "\u0627\u200c\u0628"])
def test_letters_of_all_languages_are_left_alone(text):
    assert shown(text) == text


def test_a_half_of_a_pair_is_shown():
    assert shown("a\udcffb") == r"a\udcffb"


def test_a_json_document_keeps_its_content():
    text = "".join(map(chr, [*range(0x250), *range(0x2000, 0x2080)]))
    document = json.dumps({text: text}, ensure_ascii=False).encode()
    printed = shown_json(document)
    assert json.loads(printed) == {text: text}
    assert shown(printed.decode()) == printed.decode()
    assert printed != document


def test_a_scenario_file_keeps_its_names_without_a_raw_control():
    text = "".join(map(chr, [*range(0x250), *range(0x2000, 0x2080), 0xE0001]))
    scenario = Scenario(
        name=text,
        duration_s=1.0,
        vertices=(Vertex(name="a", source=GeneratorSpec(record_bytes=8)), Vertex(name="b")),
        edges=(Edge(source="a", target="b"),),
    )
    written = scenario_toml(scenario)
    assert tomllib.loads(written)["name"] == text
    assert shown(written.replace("\n", "")) == written.replace("\n", "")


@pytest.mark.parametrize("command", [["run"], ["size"], ["run", "--json"]])
def test_a_scenario_cannot_write_to_the_terminal(tmp_path, capsys, command):
    path = tmp_path / "x.toml"
    name = NASTY.replace("\x1b", r"\u001b").replace("\x9b", r"\u009b").replace("\x00", r"\u0000")
    path.write_text(SCENARIO % (name, name, name))
    assert main([*command, str(path)]) == 0
    printed = capsys.readouterr()
    assert [
        letter for letter in printed.out + printed.err if not letter.isprintable() and letter != "\n"
    ] == []
    assert r"a\x1b[31m" in printed.out or r"a\u001b[31m" in printed.out


def test_names_in_mistakes_are_shown_too(tmp_path, capsys):
    path = tmp_path / "x\x1b[2Jy.toml"
    path.write_text('"\\u001b[31mkey" = 1\n')
    assert main(["run", str(path)]) == 2
    printed = capsys.readouterr().err
    assert r"x\x1b[2Jy.toml: \x1b[31mkey: is not a key of this table" in printed
    assert "\x1b" not in printed
