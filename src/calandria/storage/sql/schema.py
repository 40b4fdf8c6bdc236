"""The schema's numbered migrations: applied in order, recorded, and checked before use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from calandria.errors import SchemaOutdated
from calandria.storage.sql.database import Database, Session
from calandria.storage.sql.statements import STATEMENTS

SCHEMA_TABLE = "calandria_schema"
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True)
class Migration:
    """One step of the schema; `text` is statements that each end in a semicolon at a line's end."""

    number: int
    name: str
    text: str

    @property
    def statements(self) -> list[str]:
        """The single statements, in order, without comments."""
        lines = [line for line in self.text.splitlines() if not line.lstrip().startswith("--")]
        parts = re.split(r";\s*$", "\n".join(lines), flags=re.MULTILINE)
        return [part.strip() for part in parts if part.strip()]


def load_migrations() -> tuple[Migration, ...]:
    """Return the migrations this version of the library knows, in order."""
    found = []
    for file in (files("calandria.storage.sql") / "migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], text))
    return tuple(sorted(found, key=lambda migration: migration.number))


def prepare(database: Database, migrations: Sequence[Migration]) -> None:
    """Make a new database ready, or check that an existing one has exactly these migrations.

    Raises `SchemaOutdated` when it has fewer or more.
    """
    with database.read() as session:
        applied = _applied(session)
    if not applied:
        with database.write() as session:
            # another process may have done it between the reading and this transaction
            applied = _applied(session) or _apply(session, migrations)
    _check(database.name, applied, migrations)


def migrate(database: Database, migrations: Sequence[Migration]) -> list[int]:
    """Apply the migrations the database lacks, all or none; return their numbers.

    Raises `SchemaOutdated` when the database has one that is not known here.
    """
    with database.write() as session:
        before = _applied(session)
        _refuse_newer(database.name, before, migrations)
        return _apply(session, [each for each in migrations if each.number not in before])


def _applied(session: Session) -> list[int]:
    if not session.has_table(SCHEMA_TABLE):
        return []
    return [number for (number,) in session.rows(STATEMENTS["schema_numbers"], {})]


def _apply(session: Session, migrations: Sequence[Migration]) -> list[int]:
    session.execute(STATEMENTS["create_schema_table"], {})
    for migration in migrations:
        for statement in migration.statements:
            session.define(statement)
        session.execute(
            STATEMENTS["record_migration"], {"number": migration.number, "name": migration.name}
        )
    return [migration.number for migration in migrations]


def _check(name: str, applied: Sequence[int], migrations: Sequence[Migration]) -> None:
    _refuse_newer(name, applied, migrations)
    missing = [each.number for each in migrations if each.number not in applied]
    if missing:
        raise SchemaOutdated(
            f"{name}: the schema lacks migration {', '.join(map(str, missing))} of this version of "
            "Calandria. Run `calandria migrate` while no older version is writing to it."
        )


def _refuse_newer(name: str, applied: Sequence[int], migrations: Sequence[Migration]) -> None:
    known = {migration.number for migration in migrations}
    unknown = [number for number in applied if number not in known]
    if unknown:
        raise SchemaOutdated(
            f"{name}: the schema has migration {', '.join(map(str, unknown))}, which this version "
            "of Calandria does not know. Upgrade Calandria."
        )
