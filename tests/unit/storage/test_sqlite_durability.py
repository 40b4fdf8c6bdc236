"""Which commits wait for the disk, and which share the wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from calandria.storage.sql.database import Session
from calandria.storage.sql.sqlite import SqliteDatabase
from calandria.storage.sql.statements import Statement

SYNCHRONOUS = Statement("PRAGMA synchronous")
NORMAL, FULL = 1, 2


def synchronous(session: Session) -> int:
    row = session.row(SYNCHRONOUS, {})
    assert row is not None
    found: int = row[0]
    return found


def test_a_commit_waits_for_the_disk_unless_it_need_not_last(tmp_path: Path) -> None:
    database = SqliteDatabase("sqlite:///test", str(tmp_path / "test.db"))
    found = []
    for lasting in (True, False, True):
        with database.write(lasting=lasting) as session:
            found.append(synchronous(session))
    database.close()
    assert found == [FULL, NORMAL, FULL]


def test_a_failure_of_what_need_not_last_leaves_the_next_commit_lasting(tmp_path: Path) -> None:
    database = SqliteDatabase("sqlite:///test", str(tmp_path / "test.db"))
    with pytest.raises(ValueError, match="on the way"), database.write(lasting=False):
        raise ValueError("on the way")
    with database.write() as session:
        assert synchronous(session) == FULL
    database.close()


@pytest.mark.parametrize(("setting", "expected"), [("NORMAL", 1), ("OFF", 0), ("EXTRA", 3)])
def test_the_setting_holds_for_lasting_commits(tmp_path: Path, setting: str, expected: int) -> None:
    database = SqliteDatabase("sqlite:///test", str(tmp_path / "test.db"), synchronous=setting)
    with database.write(lasting=False) as session:
        assert synchronous(session) <= expected
    with database.write() as session:
        assert synchronous(session) == expected
    database.close()
