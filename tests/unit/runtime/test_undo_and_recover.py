"""Undo by hand, and taking up runs whose process died."""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest

from calandria import (
    CalandriaError,
    Failure,
    Halt,
    Reactor,
    RunBusy,
    RunStateError,
    RunStatus,
    Runtime,
    Settings,
    Step,
    Success,
    UnknownRun,
    compose,
    element,
    halt,
    map_each,
    step,
)
from tests.unit.runtime.crashing import die_in
from tests.unit.runtime.saga import Outage, logged, only_run, raising


@pytest.fixture
def url(tmp_path: Any) -> Any:
    address = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(address, settings=Settings(undo_wait=0)):
        yield address


def made(name: str, **members: Any) -> type[Reactor]:
    """Return a reactor stored under `name`, whatever other version of it there is."""
    body = {"__module__": __name__, "__qualname__": name, **members}
    reactor: type[Reactor] = types.new_class(name, (Reactor,), {}, lambda space: space.update(body))
    return reactor


def chain(diary: list[str]) -> type[Reactor]:
    class Saga(Reactor):
        first = step(logged(diary, "first"))
        second = step(logged(diary, "second")).after(first)

    return Saga


@pytest.mark.usefixtures("runtime")
class TestUndo:
    def test_a_completed_run_is_undone_and_ends_cancelled(self, diary: list[str]) -> None:
        Saga = chain(diary)
        run_id = Saga.run().run_id
        assert run_id is not None

        result = Saga.undo(run_id)

        assert diary == ["+first", "+second", "-second", "-first"]
        assert isinstance(result, Failure)
        assert result.error == "Undo triggered"
        run = only_run()
        assert (run.status, run.rollback) == ("cancelled", "complete")
        stored = run.result
        assert isinstance(stored, Failure)
        assert (stored.error, stored.run_id) == ("Undo triggered", run_id)

    def test_a_second_undo_does_nothing_and_gives_the_same(self, diary: list[str]) -> None:
        chain(diary).run()
        first = only_run().undo()

        assert only_run().undo() == first
        assert diary == ["+first", "+second", "-second", "-first"]

    def test_a_rolled_back_run_has_nothing_to_undo(self, diary: list[str]) -> None:
        class Saga(Reactor):
            work = step(logged(diary, "work", raising(Outage("why"))))

        failed = Saga.run()
        assert only_run().undo() == failed
        assert diary == ["+work", "!work"]
        assert only_run().status is RunStatus.FAILED

    def test_the_result_and_steps_of_an_undone_run_stay_readable(self, diary: list[str]) -> None:
        chain(diary).run()
        only_run().undo()

        assert [view.rollback.value for view in only_run().steps()] == ["undone", "undone"]

    def test_a_running_run_is_busy(self, diary: list[str]) -> None:
        refused: list[BaseException] = []

        def body() -> None:
            for verb in ("undo", "recover"):
                try:
                    getattr(only_run(), verb)()
                except RunBusy as error:
                    refused.append(error)

        class Saga(Reactor):
            work = step(logged(diary, "work", body))

        assert Saga.run().ok
        assert len(refused) == 2
        assert all(only_run().id in str(error) for error in refused)

    def test_two_threads_that_undo_one_run_undo_it_once(self, diary: list[str]) -> None:
        ready = threading.Barrier(2, timeout=10)
        inside, release = threading.Event(), threading.Event()

        def slow() -> None:
            inside.set()
            release.wait(10)

        class Saga(Reactor):
            work = step(logged(diary, "work", undo=slow))

        Saga.run()
        run = only_run()
        outcomes: list[object] = []

        def undo() -> None:
            ready.wait()
            try:
                outcomes.append(run.undo())
            except RunBusy as error:
                outcomes.append(error)
            finally:
                release.set()

        threads = [threading.Thread(target=undo) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

        assert diary == ["+work", "-work"]
        assert sorted(type(o).__name__ for o in outcomes) == ["Failure", "RunBusy"]

    def test_unknown_runs_and_other_reactors(self, diary: list[str]) -> None:
        Saga = chain(diary)

        class Other(Reactor):
            work = step(logged(diary, "work"))

        run_id = Saga.run().run_id
        assert run_id is not None
        for reactor, unknown in ((Saga, "nothing"), (Other, run_id)):
            for verb in (reactor.undo, reactor.recover, reactor.find):
                with pytest.raises(UnknownRun) as caught:
                    verb(unknown)
                assert unknown in str(caught.value)
                assert reactor.definition().name in str(caught.value)

    def test_recover_leaves_finished_runs_as_they_are(self, diary: list[str]) -> None:
        class Halting(Reactor):
            work = step(logged(diary, "work", lambda: halt("enough")))

        result = Halting.run()

        assert only_run().recover() == result == Halt("enough")
        assert diary == ["+work"]


class TestChangedDefinitions:
    """What was recorded by one version of a reactor is undone by another."""

    def versions(self, diary: list[str], **steps: Any) -> type[Reactor]:
        return made("Versioned", **steps)

    @pytest.mark.parametrize("names", [["one", "renamed"], ["one"]], ids=["renamed", "removed"])
    def test_a_step_that_is_gone_is_a_clear_error_and_nothing_is_lost(
        self, url: str, diary: list[str], names: list[str]
    ) -> None:
        def member(name: str) -> Any:
            return step(logged(diary, name))

        old = self.versions(diary, one=member("one"), two=member("two"))
        run_id = old.run().run_id
        assert run_id is not None
        new = self.versions(diary, **{name: member(name) for name in names})

        with pytest.raises(RunStateError) as caught:
            new.undo(run_id)

        message = str(caught.value)
        assert "'two'" in message
        assert "Versioned" in message
        assert run_id in message
        assert diary == ["+one", "+two"]
        # nothing was lost: the version that has the step can still undo it
        assert only_run().status is RunStatus.COMPLETED
        assert only_run().lease_owner is None
        old.undo(run_id)
        assert diary == ["+one", "+two", "-two", "-one"]

    def test_a_step_that_was_added_does_not_matter(self, url: str, diary: list[str]) -> None:
        old = self.versions(diary, one=step(logged(diary, "one")))
        run_id = old.run().run_id
        assert run_id is not None
        new = self.versions(diary, zero=step(logged(diary, "zero")), one=step(logged(diary, "one")))

        new.undo(run_id)

        assert diary == ["+one", "-one"]

    def test_a_nested_step_that_is_gone_is_left_and_the_rest_undone(
        self, url: str, diary: list[str]
    ) -> None:
        def outer(*names: str) -> type[Reactor]:
            inner = made("Inner", **{name: step(logged(diary, name)) for name in names})
            return self.versions(diary, first=step(logged(diary, "first")), inner=compose(inner))

        run_id = outer("a", "b").run().run_id
        assert run_id is not None

        with pytest.raises(CalandriaError) as caught:
            outer("a").undo(run_id)

        assert "inner/b" in str(caught.value)
        assert only_run().rollback == "incomplete"
        assert diary == ["+first", "+a", "+b", "-first"]
        outer("a", "b").undo(run_id)
        assert diary == ["+first", "+a", "+b", "-first", "-b", "-a"]
        assert only_run().rollback == "complete"


class TestRecover:
    """The process dies in a body; another runtime takes the run up."""

    def dying(self, diary: list[str], **options: Any) -> tuple[type[Step], list[Any]]:
        """Return a step that dies in its first `run`, and the box for what kills it."""
        kill: list[Any] = []
        reconciles: Any = options.get("reconcile")

        class Dying(Step):
            def run(self) -> str:
                diary.append(f"+dying {self.context.attempt} {self.context.idempotency_key[-5:]}")
                if kill:
                    kill.pop()()
                if options.get("broken"):
                    raise Outage("after all")
                return "dying"

            def compensate(self, reason: object) -> None:
                diary.append("!dying")

            def undo(self, result: str) -> None:
                diary.append(f"-{result}")

        if reconciles is not None:

            class Reconciling(Dying):
                def reconcile(self) -> Any:
                    diary.append("?dying")
                    return reconciles()

            return Reconciling, kill
        return Dying, kill

    def saga(self, diary: list[str], target: type[Step]) -> type[Reactor]:
        class Saga(Reactor):
            first = step(logged(diary, "first"))
            dying = step(target).after(first)
            last = step(logged(diary, "last")).after(dying)

        return Saga

    def test_the_step_runs_again_under_its_number_and_key(self, url: str, diary: list[str]) -> None:
        target, kill = self.dying(diary)
        saga = self.saga(diary, target)
        run_id = die_in(url, saga, kill.append)

        result = saga.recover(run_id)

        assert result == Success("last")
        assert diary == ["+first", "+dying 1 dying", "+dying 1 dying", "+last"]
        run = saga.find(run_id)
        assert run.epoch == 2
        (view,) = [v for v in run.steps() if v.path == "dying"]
        assert (view.attempts, view.recoveries) == (1, 1)
        assert saga.recover(run_id) == result

    def test_reconcile_that_finds_it_landed_is_adopted_and_undone_later(
        self, url: str, diary: list[str]
    ) -> None:
        target, kill = self.dying(diary, reconcile=lambda: Success("landed"))
        saga = self.saga(diary, target)
        run_id = die_in(url, saga, kill.append)

        assert saga.recover(run_id) == Success("last")
        assert diary[2:] == ["?dying", "+last"]
        saga.undo(run_id)
        assert diary[4:] == ["-last", "-landed", "-first"]

    def test_reconcile_that_finds_nothing_runs_it_again(self, url: str, diary: list[str]) -> None:
        target, kill = self.dying(diary, reconcile=lambda: None)
        saga = self.saga(diary, target)
        run_id = die_in(url, saga, kill.append)

        saga.recover(run_id)

        assert diary[1:] == ["+dying 1 dying", "?dying", "+dying 1 dying", "+last"]

    def test_reconcile_that_finds_a_failure_rolls_back(self, url: str, diary: list[str]) -> None:
        target, kill = self.dying(diary, reconcile=lambda: Failure("it was refused"))
        saga = self.saga(diary, target)
        run_id = die_in(url, saga, kill.append)

        result = saga.recover(run_id)

        assert isinstance(result, Failure)
        assert result.error == "it was refused"
        assert diary[2:] == ["?dying", "!dying", "-first"]

    def test_a_run_that_dies_while_rolling_back_goes_on_backward(
        self, url: str, diary: list[str]
    ) -> None:
        kill: list[Any] = []

        def undo() -> None:
            if kill:
                kill.pop()()

        class Saga(Reactor):
            first = step(logged(diary, "first"))
            second = step(logged(diary, "second", undo=undo)).after(first)
            third = step(logged(diary, "third", raising(Outage("why")))).after(second)

        run_id = die_in(url, Saga, kill.append)
        run = Saga.find(run_id)
        assert run.status is RunStatus.ROLLING_BACK
        with pytest.raises(RunStateError):
            run.cancel("no")

        result = Saga.recover(run_id)

        assert isinstance(result, Failure)
        assert (result.error, result.step, result.exception_class) == ("why", "third", "Outage")
        assert diary == ["+first", "+second", "+third", "!third", "-second", "-second", "-first"]

    def test_a_cancel_asked_for_before_the_failure_does_not_stop_the_rollback(
        self, url: str, diary: list[str]
    ) -> None:
        kill: list[Any] = []

        def broken() -> None:
            only_run().cancel("asked before")
            raise Outage("why")

        class Saga(Reactor):
            first = step(logged(diary, "first"))
            second = step(
                logged(diary, "second", broken, compensate=lambda: kill and kill.pop()())
            ).after(first)

        run_id = die_in(url, Saga, kill.append)

        result = Saga.recover(run_id)

        assert isinstance(result, Failure)
        assert result.error == "why"
        assert diary == ["+first", "+second", "!second", "!second", "-first"]
        assert Saga.find(run_id).status is RunStatus.FAILED

    def test_a_dead_run_is_cancelled_here_and_undone_by_hand(
        self, url: str, diary: list[str]
    ) -> None:
        target, kill = self.dying(diary)
        saga = self.saga(diary, target)
        run_id = die_in(url, saga, kill.append)
        run = saga.find(run_id)

        run.cancel("it is dead")

        assert run.status is RunStatus.CANCELLED
        assert run.pending_compensation == "dying"
        run.undo()
        assert diary[2:] == ["!dying", "-first"]

    def test_undo_of_a_dead_run_asks_to_recover_it_first(self, url: str, diary: list[str]) -> None:
        target, kill = self.dying(diary)
        saga = self.saga(diary, target)
        run_id = die_in(url, saga, kill.append)

        with pytest.raises(RunStateError, match="recover"):
            saga.undo(run_id)
        assert saga.find(run_id).lease_owner is None
        assert saga.recover(run_id).ok

    def test_dying_too_often_in_one_step_fails_it(self, url: str, diary: list[str]) -> None:
        class Deadly(Step):
            def run(self) -> None:
                diary.append("+deadly")

            def compensate(self, reason: object) -> None:
                diary.append(f"!deadly {type(reason).__name__}")

        kills: list[Any] = []

        class Killing(Deadly):
            def run(self) -> None:
                diary.append("+deadly")
                if kills:
                    kills[-1]()

        class Saga(Reactor):
            first = step(logged(diary, "first"))
            deadly = step(Killing).after(first)

        run_id = die_in(url, Saga, kills.append)
        with Runtime(url, settings=Settings(max_recoveries=0)) as strict:
            result = strict.find(run_id).recover()

        assert isinstance(result, Failure)
        assert (result.step, result.exception_class) == ("deadly", "Crashed")
        assert diary[:2] == ["+first", "+deadly"]
        assert diary[2].startswith("!deadly")
        assert diary[3:] == ["-first"]

    def test_elements_done_are_not_done_again(self, url: str, diary: list[str]) -> None:
        kill: list[Any] = []

        class Work(Step):
            number: int

            def run(self) -> int:
                diary.append(f"+{self.number}")
                if self.number == 2 and kill:
                    kill.pop()()
                return self.number

        class Saga(Reactor):
            each = map_each(Work, over=range(4), number=element)

        run_id = die_in(url, Saga, kill.append)

        assert Saga.recover(run_id) == Success([0, 1, 2, 3])
        assert diary == ["+0", "+1", "+2", "+2", "+3"]

    def test_nested_work_done_is_adopted(self, url: str, diary: list[str]) -> None:
        kill: list[Any] = []
        nested = logged(diary, "nested")

        class Caller(Step):
            def run(self) -> object:
                found = self.context.call(nested)
                if kill:
                    kill.pop()()
                return found

        class Saga(Reactor):
            work = step(Caller)

        run_id = die_in(url, Saga, kill.append)

        assert Saga.recover(run_id) == Success("nested")
        assert diary == ["+nested"]
        Saga.undo(run_id)
        assert diary == ["+nested", "-nested"]

    def test_a_run_whose_nested_definition_changed_is_let_go(
        self, url: str, diary: list[str]
    ) -> None:
        kill: list[Any] = []

        def outer(*names: str) -> type[Reactor]:
            def body(name: str) -> Any:
                return logged(diary, name, lambda: kill.pop()() if kill and name == "b" else name)

            inner = made("Inner", **{name: step(body(name)) for name in names})
            return made("Changing", inner=compose(inner))

        old = outer("a", "b")
        run_id = die_in(url, old, kill.append)
        with pytest.raises(CalandriaError, match="inner/b"):
            outer("a").recover(run_id)

        run = old.find(run_id)
        assert run.lease_owner is None
        assert old.recover(run_id) == Success("b")
