"""The demo's verdict: it ends with 0 only if no act found a difference."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from demo.__main__ import play
from demo.report import Report


def _sound(_: Path) -> Report:
    return Report("sound", rows=[("orders", "1")])


def _damaged(_: Path) -> Report:
    return Report("damaged", differences=["units of product 1: 5, not 6"])


def test_acts_without_differences_end_with_0() -> None:
    output = StringIO()

    assert play([_sound, _sound], Console(file=output)) == 0
    assert "everything adds up" in output.getvalue()


def test_one_difference_in_one_act_ends_with_1_and_is_printed() -> None:
    output = StringIO()

    assert play([_sound, _damaged, _sound], Console(file=output)) == 1
    assert "units of product 1: 5, not 6" in output.getvalue()
    assert "everything adds up" not in output.getvalue()


def test_each_act_has_a_new_folder_which_is_removed() -> None:
    folders: list[Path] = []

    def act(folder: Path) -> Report:
        assert list(folder.iterdir()) == []
        folders.append(folder)
        (folder / "left-behind").touch()
        return Report("leaves something behind")

    play([act, act], Console(file=StringIO()))

    assert len(set(folders)) == 2
    assert not any(folder.exists() for folder in folders)
