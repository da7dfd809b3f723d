from __future__ import annotations

from pathlib import Path

from .relevance import Relevance

SOURCE = """
class Gate:
    def announce(self, backlog): ...
    def take(self, buffer): ...
"""


def test_tests_that_share_rare_words_with_the_function_come_first(tmp_path: Path) -> None:
    texts = {
        "test_job.py": "run(buffer)",
        "test_gate.py": "Gate().take(buffer)",
        "test_announcing.py": "gate.announce(backlog, buffer)",
        "test_other.py": "something_else",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    relevance = Relevance([tmp_path / name for name in texts])
    in_announce = [path.name for path in relevance.ranked(SOURCE, "announce")]
    in_take = [path.name for path in relevance.ranked(SOURCE, "take")]
    assert in_announce == ["test_announcing.py", "test_gate.py", "test_job.py", "test_other.py"]
    assert in_take == ["test_gate.py", "test_announcing.py", "test_job.py", "test_other.py"]
