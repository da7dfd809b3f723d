"""What is kept in a user's folder for caches: made once, and made again where it is not what was kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.base.cache_files import cache_folder, cache_path, cached_text


class Maker:
    """Makes texts, and counts them."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        return f"text {self.made}\r\n"


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


def test_a_text_is_made_once_for_each_key(caches: Path) -> None:
    make = Maker()
    assert [cached_text(key, make) for key in ("a", "a", "b", "a")] == ["text 1\r\n"] * 2 + [
        "text 2\r\n",
        "text 1\r\n",
    ]
    assert len(list((caches / "netstack" / "texts").iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"text 1\r\n", b"0" * 64 + b"\ntext 1\r\n", b"\xff"])
def test_what_is_not_what_was_kept_is_made_again(caches: Path, content: bytes) -> None:
    make = Maker()
    cached_text("a", make)
    (path,) = (caches / "netstack" / "texts").iterdir()
    path.write_bytes(content)
    assert [cached_text("a", make) for _ in range(2)] == ["text 2\r\n"] * 2


def test_without_a_folder_a_text_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    make = Maker()
    assert [cached_text("a", make) for _ in range(2)] == ["text 1\r\n", "text 2\r\n"]


def test_no_home_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert cache_folder("a") is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("a", "b") == tmp_path / ".cache" / "netstack" / "a" / "b"


def test_the_cache_follows_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_path() == tmp_path / ".cache" / "netstack"
