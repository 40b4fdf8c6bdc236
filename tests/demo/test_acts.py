"""The three acts, at a size that fits a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.at_once import place_at_once
from demo.in_turn import place_in_turn
from demo.killed import kill_and_recover


def test_act_one_ends_as_the_arithmetic_says(tmp_path: Path) -> None:
    picture = tmp_path / "pictures" / "order.svg"

    report = place_in_turn(tmp_path, picture, limit=60)

    assert report.differences == []
    figures = dict(report.rows)
    assert int(figures["orders fulfilled"]) + int(figures["orders rolled back"]) == 60
    assert "reserve" in report.pictured
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_act_two_keeps_every_order_whole(tmp_path: Path) -> None:
    report = place_at_once(tmp_path, limit=60, processes=3)

    assert report.differences == []


@pytest.mark.parametrize("seed", [1, 2])
def test_act_three_loses_nothing(tmp_path: Path, seed: int) -> None:
    report = kill_and_recover(tmp_path, rounds=2, seed=seed)

    assert report.differences == []
    assert report.rows[-1] == ("then 1 orders undone by hand", "3,119 of 3,119 units in stock")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_act_three_loses_nothing_wherever_it_kills(tmp_path: Path) -> None:
    report = kill_and_recover(tmp_path, rounds=60)

    assert report.differences == [], report.title
