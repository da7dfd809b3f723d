from __future__ import annotations

from pathlib import Path

from .relevance import NEAR, Relevance

LINES = ["def announce(backlog): ...", *["..."] * (2 * NEAR), "def take(element): ..."]
LONG = "a matter that many other words describe in long sentences"


def test_tests_that_share_rare_words_with_the_module_come_first(tmp_path: Path) -> None:
    texts = {
        "test_announcing.py": "announce(backlog)",
        "test_announcing_at_length.py": f"announce(backlog), {LONG}",
        "test_gate.py": "",
        "test_taking.py": "take(element)",
        "test_taking_at_length.py": f"take(element), {LONG}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    relevance = Relevance([tmp_path / name for name in texts])

    def order(line: int) -> list[str]:
        return [path.stem.removeprefix("test_") for path in relevance.ranked("gate", "\n".join(LINES), line)]

    announcing, taking = ["announcing", "announcing_at_length"], ["taking", "taking_at_length"]
    assert order(1) == ["gate", announcing[0], taking[0], announcing[1], taking[1]]
    assert order(len(LINES)) == ["gate", taking[0], announcing[0], taking[1], announcing[1]]
