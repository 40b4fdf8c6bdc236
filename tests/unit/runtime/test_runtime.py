"""Runtimes: configured, explicit, closed; their settings, from code and from the environment."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

import calandria
from calandria import (
    CalandriaError,
    Reactor,
    Runtime,
    Settings,
    Step,
    StorageError,
    Success,
    WaitTimeout,
    configure,
    runs,
    step,
)
from calandria.runtime.runtime import default_runtime
from tests.unit.runtime.saga import logged


class Saga(Reactor):
    @step
    def work() -> str:
        return "done"


def test_a_runtime_as_context_manager_is_the_default_inside_in_every_thread() -> None:
    with Runtime("memory://") as outer:
        with Runtime("memory://") as inner:
            thread = threading.Thread(target=Saga.run)
            thread.start()
            thread.join(10)
            assert len(list(runs())) == 1
            assert default_runtime() is inner
        assert default_runtime() is outer
        assert list(runs()) == []


def test_an_explicit_runtime_needs_no_default() -> None:
    one, two = Runtime("memory://"), Runtime("memory://")
    try:
        assert Saga.options(runtime=one).run() == Success("done")
        assert len(list(runs(runtime=one))) == 1
        assert list(runs(runtime=two)) == []
    finally:
        one.close()
        two.close()


def test_what_is_no_runtime_is_refused() -> None:
    with pytest.raises(TypeError, match=r"calandria\.Runtime"):
        Saga.options(runtime="memory://").run()  # type: ignore[arg-type]


def test_a_closed_runtime_says_so_and_closing_is_idempotent() -> None:
    runtime = Runtime("memory://")
    Saga.options(runtime=runtime).run()
    runtime.close()
    runtime.close()

    for use in (lambda: Saga.options(runtime=runtime).run(), lambda: list(runs(runtime=runtime))):
        with pytest.raises(CalandriaError, match="closed"):
            use()


def test_configure_replaces_and_closes_the_one_before() -> None:
    first = configure(storage="memory://")
    Saga.run()
    second = configure(storage="memory://")
    try:
        assert default_runtime() is second
        assert list(runs()) == []
        with pytest.raises(CalandriaError, match="closed"):
            list(runs(runtime=first))
    finally:
        second.close()


def test_configure_and_close_are_refused_while_runs_execute() -> None:
    refused: list[str] = []
    runtime = configure(storage="memory://")

    class Busy(Step):
        def run(self) -> str:
            for attempt in (lambda: configure(storage="memory://"), runtime.close):
                with pytest.raises(CalandriaError) as caught:
                    attempt()
                refused.append(str(caught.value))
            return "went on"

    class Executing(Reactor):
        busy = step(Busy)

    try:
        assert Executing.run() == Success("went on")
        assert all("executes runs" in message for message in refused)
        assert default_runtime() is runtime
    finally:
        runtime.close()


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "", "sqlite://", "memory://x"])
def test_a_storage_url_that_is_not_understood_is_an_error_at_once(url: str) -> None:
    with pytest.raises(StorageError):
        Runtime(url).store  # noqa: B018


def test_the_default_storage_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("CALANDRIA_STORAGE", f"sqlite:///{tmp_path}/from-environment.db")
    with Runtime() as runtime:
        Saga.run()
        assert "from-environment" in runtime.storage_url
    assert (tmp_path / "from-environment.db").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_ttl": 0},
        {"lease_ttl": float("nan")},
        {"lease_ttl": "60"},
        {"max_recoveries": -1},
        {"max_recoveries": 1.5},
        {"max_recoveries": True},
        {"undo_wait": -1},
        {"max_value_bytes": 0},
        {"max_value_bytes": 2.5},
        {"retention": -1},
        {"retention": timedelta(seconds=-1)},
        {"sqlite_synchronous": "LAZY"},
    ],
    ids=str,
)
def test_settings_out_of_range_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(CalandriaError) as caught:
        Settings(**wrong)
    assert next(iter(wrong)) in str(caught.value)


def test_settings_take_seconds_or_timedelta() -> None:
    settings = Settings(lease_ttl=timedelta(minutes=2), retention=timedelta(days=1))

    assert (settings.lease_ttl, settings.retention) == (120.0, 86400.0)


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "CALANDRIA_LEASE_TTL": "12.5",
        "CALANDRIA_MAX_RECOVERIES": "2",
        "CALANDRIA_UNDO_WAIT": "0",
        "CALANDRIA_MAX_VALUE_BYTES": "1000",
        "CALANDRIA_RETENTION": "none",
        "CALANDRIA_SQLITE_SYNCHRONOUS": "normal",
    }
    for name, text in values.items():
        monkeypatch.setenv(name, text)

    settings = Settings.from_environment()

    assert settings == Settings(
        lease_ttl=12.5,
        max_recoveries=2,
        undo_wait=0,
        max_value_bytes=1000,
        sqlite_synchronous="NORMAL",
    )
    with Runtime("memory://") as runtime:
        assert runtime.settings == settings


@pytest.mark.parametrize(
    ("name", "text"),
    [("LEASE_TTL", "soon"), ("MAX_RECOVERIES", "1.5"), ("RETENTION", "-1"), ("UNDO_WAIT", "")],
)
def test_wrong_settings_in_the_environment_are_named(name: str, text: str) -> None:
    with pytest.raises(CalandriaError) as caught:
        Settings.from_environment({f"CALANDRIA_{name}": text})
    assert name.lower() in str(caught.value).lower()


def test_pruning_needs_an_age_and_keeps_what_needs_attention(diary: list[str]) -> None:
    class Cut(Reactor):
        work = step(logged(diary, "cut", lambda: exit_now()))

    def exit_now() -> None:
        raise SystemExit

    with Runtime("memory://") as runtime:
        Saga.run()
        with pytest.raises(SystemExit):
            Cut.run()
        with pytest.raises(CalandriaError, match="older_than"):
            runtime.prune()
        assert runtime.prune(older_than=timedelta(days=1)) == 0
        assert runtime.prune(older_than=-1) == 1
        assert [run.status.value for run in runs()] == ["aborted"]

    with Runtime("memory://", settings=Settings(retention=0)) as runtime:
        Saga.run()
        assert runtime.prune() in (0, 1)


def test_waiting_for_a_run_takes_seconds_or_timedelta_and_times_out() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(Step):
        def run(self) -> str:
            entered.set()
            leave.wait(10)
            return "slow"

    class Waited(Reactor):
        slow = step(Slow)

    with Runtime("memory://"):
        thread = threading.Thread(target=Waited.run)
        thread.start()
        assert entered.wait(10)
        (run,) = runs()
        for timeout in (0, 0.01, timedelta(milliseconds=10)):
            with pytest.raises(WaitTimeout) as caught:
                run.wait(timeout)
            assert run.id in str(caught.value)
        leave.set()
        assert run.wait(10) == Success("slow")
        assert run.wait() == Success("slow")
        thread.join(10)


def test_the_public_names_are_there() -> None:
    assert all(hasattr(calandria, name) for name in calandria.__all__)
