from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calandria.errors import StorageError
from calandria.storage import open_store


def test_a_relative_path_is_below_the_working_directory_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///runs.db")
    monkeypatch.chdir("/")
    store.prepare()
    store.close()
    assert (tmp_path / "runs.db").is_file()


def test_an_absolute_path_has_four_slashes(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    store.prepare()
    store.close()
    assert (tmp_path / "runs.db").is_file()


def test_characters_that_mean_something_in_a_uri_are_part_of_the_path(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/a b?mode=ro&x#y%20.db")
    store.prepare()
    store.close()
    assert (tmp_path / "a b?mode=ro&x#y%20.db").is_file()


def test_two_stores_in_memory_are_apart() -> None:
    one, two = open_store("memory://"), open_store("memory://")
    one.prepare()
    with pytest.raises(StorageError):
        two.load_run("run-1")
    one.close()
    two.close()


@pytest.mark.parametrize(
    "url",
    ["", "runs.db", "mongodb://user:secret@host/x", "sqlite://", "sqlite:///", "sqlite://a.db"],
)
def test_another_url_is_refused_with_the_ones_that_are_not(url: str) -> None:
    with pytest.raises(StorageError, match=r"sqlite:///.*memory://") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_an_unknown_synchronous_setting_is_refused() -> None:
    with pytest.raises(StorageError, match=r"sqlite_synchronous='fast'.*NORMAL"):
        open_store("memory://", sqlite_synchronous="fast")


@pytest.mark.parametrize("setting", ["OFF", "normal", "FULL", "EXTRA"])
def test_known_settings_are_taken_in_any_case(tmp_path: Path, setting: str) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db", sqlite_synchronous=setting)
    store.prepare()
    store.close()


def test_no_driver_is_imported_before_a_store_is_opened() -> None:
    code = "import calandria.storage, sys; sys.exit('sqlite3' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
