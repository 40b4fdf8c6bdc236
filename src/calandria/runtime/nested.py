"""Nested work: steps and reactors that a step's body runs inside its own execution.

It is journalled below the step and belongs to it. When the step is tried again, or taken up after
a crash, nested work with the same target and the same inputs that was completed is not done again:
its recorded result is given. What an attempt left behind that a later, successful one did not ask
for is undone at once; what the step has at its end is undone with it, newest first.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calandria.definition.node_definition import ReactorDefinition, Redaction
from calandria.definition.references import Reference, StepRoot
from calandria.engine.commands import Ending
from calandria.engine.events import Began, MapEvent, TakenUp
from calandria.engine.node_state import NodeState
from calandria.engine.rollback import GIVEN_UP
from calandria.engine.state import new_level, restore_level
from calandria.errors import CalandriaError, EncodingError, ValidationError
from calandria.plan.model import Plan
from calandria.ports.run_store import StepRecord
from calandria.results import Failure, Halt, Result, RollbackFailure, Skipped, Success
from calandria.runtime.endings import LevelOutcome
from calandria.runtime.environment import undo_asked
from calandria.runtime.levels import Level, ReactorLevel
from calandria.runtime.outcomes import WorkStopped
from calandria.runtime.restoring import records_in
from calandria.runtime.slots import Slot, node_state_of
from calandria.runtime.targets import MARK, Target
from calandria.runtime.threads import in_thread
from calandria.runtime.values import record_inputs
from calandria.statuses import StepRollback, StepStatus

if TYPE_CHECKING:
    from calandria.definition.reactors import Reactor
    from calandria.definition.steps import Step
    from calandria.runtime.environment import Environment


class NestedRollbackIncomplete(CalandriaError):
    """Nested work could not be rolled back completely; `rollback_failures` says what is left."""

    def __init__(self, step: str, failures: Sequence[RollbackFailure]) -> None:
        super().__init__(
            f"{step}: nested work could not be rolled back: "
            + "; ".join(f"{failure.step}: {failure.message}" for failure in failures)
        )
        self.rollback_failures = list(failures)


class NestedLevel(ReactorLevel):
    """A level whose steps are the nested work of one body."""

    def __init__(
        self,
        around: Level,
        path: str,
        targets: dict[str, Target],
        nodes: dict[str, NodeState] | None = None,
        arguments: dict[str, object] | None = None,
    ) -> None:
        owner = around.reactor_name
        plan = Plan(owner, tuple(t.node(k) for k, t in targets.items()), next(iter(targets)))
        definitions = {key: target.definition(owner, key) for key, target in targets.items()}
        redacted = {key: definition.redacted for key, definition in definitions.items()}
        definition = ReactorDefinition(
            reactor=None,
            name=owner,
            contract=next(iter(definitions.values())).contract,
            nodes=definitions,
            plan=plan,
            returns=Reference(StepRoot(plan.returns)),
            concurrency=1,
            coordination=(),
            middleware=(),
            shape="",
            result_annotation=object,
            redaction=lambda _: Redaction(redacted, frozenset(), {}, False),
        )
        state = new_level(plan) if nodes is None else restore_level(plan, nodes)
        super().__init__(definition, state, around.reactor_inputs(), scope=path)
        self._arguments = arguments or {}
        self.announce: tuple[Level, str, NodeState, Slot] | None = None
        """The step whose record has to say, in the first commit, that it has nested work."""

    def arguments(self, name: str) -> dict[str, object]:
        """Return the inputs that the body gave."""
        return self._arguments


class NestedWork:
    """The nested work of one attempt at a step."""

    def __init__(
        self,
        environment: Environment,
        level: Level,
        name: str,
        state: NodeState,
        slot: Slot,
        *,
        backward: bool = False,
    ) -> None:
        """`backward`: the body around it compensates or undoes the step."""
        # a body cannot step aside, so what it waits for is waited for where it is
        stays = not environment.parks
        self._environment = environment if stays else dataclasses.replace(environment, parks=False)
        self._backward = backward
        self._level = level
        self._name = name
        self._state = state
        self._slot = slot
        self._lock = threading.Lock()
        self._earlier: list[StepRecord] | None = None
        self._count = 0
        self._asked_for: set[str] = set()
        self._closed = False
        self.used = False

    def close(self) -> None:
        """Take no more work: the body has ended, though threads it started may go on."""
        with self._lock:
            self._closed = True

    def call(self, step: type[Step], inputs: dict[str, Any]) -> Result[Any]:
        """Run a step as nested work, from a synchronous body."""
        return self._perform(Target.step(step), inputs)

    def run(self, reactor: type[Reactor], inputs: dict[str, Any]) -> Result[Any]:
        """Run a reactor as nested work, from a synchronous body."""
        return self._perform(Target.of_reactor(reactor), inputs)

    async def acall(self, step: type[Step], inputs: dict[str, Any]) -> Result[Any]:
        """Run a step as nested work, from an async body."""
        return await self._aperform(Target.step(step), inputs)

    async def arun(self, reactor: type[Reactor], inputs: dict[str, Any]) -> Result[Any]:
        """Run a reactor as nested work, from an async body."""
        return await self._aperform(Target.of_reactor(reactor), inputs)

    def roll_back(self) -> None:
        """Undo all nested work of the step that is outstanding, newest first.

        Raises `NestedRollbackIncomplete` if something is left.
        """
        level = self._outstanding(frozenset())
        if level is not None:
            self._check(self._drive(level, undo_asked(self._environment)))

    async def aroll_back(self) -> None:
        """Like `roll_back`, from an async body."""
        level = await self._in_thread(self._outstanding, frozenset())
        if level is not None:
            self._check(await self._adrive(level, undo_asked(self._environment)))

    def drop_leftovers(self) -> None:
        """Undo what earlier attempts left that this one, which succeeded, did not ask for."""
        if self._has_earlier():
            level = self._outstanding(frozenset(self._asked_for))
            if level is not None:
                self._check(self._drive(level, undo_asked(self._environment)))

    async def adrop_leftovers(self) -> None:
        """Like `drop_leftovers`, from an async body."""
        if self._has_earlier():
            level = await self._in_thread(self._outstanding, frozenset(self._asked_for))
            if level is not None:
                self._check(await self._adrive(level, undo_asked(self._environment)))

    def _has_earlier(self) -> bool:
        return self._state.nested and (self._state.attempts > 1 or self._state.recoveries > 0)

    def _perform(self, target: Target, inputs: dict[str, Any]) -> Result[Any]:
        opened = self._open(target, inputs)
        if not isinstance(opened, tuple):
            return opened
        return self._result(opened[0], self._drive(*opened))

    async def _aperform(self, target: Target, inputs: dict[str, Any]) -> Result[Any]:
        opened = await self._in_thread(self._open, target, inputs)
        if not isinstance(opened, tuple):
            return opened  # type: ignore[no-any-return]
        return self._result(opened[0], await self._adrive(*opened))

    async def _in_thread(self, call: Any, *arguments: Any) -> Any:
        return await in_thread(self._environment.pool, call, *arguments)

    def _open(
        self, target: Target, inputs: dict[str, Any]
    ) -> Result[Any] | tuple[NestedLevel, MapEvent]:
        """Return the recorded result of this very work, or the level that does it."""
        definition = target.definition(self._level.reactor_name, target.name)
        try:
            values = definition.contract.validate(inputs)
            text, _ = record_inputs(values, self._environment.codec)
        except (ValidationError, EncodingError) as error:
            return Failure(
                str(error),
                retryable=False,
                exception=error,
                exception_class=type(error).__qualname__,
                validation_errors=getattr(error, "errors", {}),
            )
        with self._lock:
            self._refuse_closed()
            record = self._match(target, text)
            if record is None:
                self._count += 1
                key = f"{MARK}{self._count}:{target.name}"
            else:
                key = _key_of(record)
            self._asked_for.add(key)
        if record is not None:
            return self._reopen(target, record, values)
        self._environment.nested_targets[f"{self._slot.path}/{key}"] = target
        level = NestedLevel(self._level, self._slot.path, {key: target}, arguments=values)
        self._announce(level)
        return level, Began()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise CalandriaError(
                f"{self._level.reactor_name}.{self._slot.path}: the step has ended, so no more "
                "work can be done in it. Have the step wait for the threads and tasks it starts."
            )

    def _match(self, target: Target, text: str) -> StepRecord | None:
        if self._earlier is None:
            again = self._state.attempts > 1 or self._state.recoveries > 0
            found = list(records_in(self._environment, self._slot.path)) if again else []
            self._earlier = [record for record in found if _is_nested(record)]
            self._count = max((_ordinal(record) for record in self._earlier), default=0)
        for record in self._earlier:
            key = _key_of(record)
            same = key.partition(":")[2] == target.name and record.inputs == text
            if same and key not in self._asked_for and _adoptable(record):
                return record
        return None

    def _reopen(
        self, target: Target, record: StepRecord, values: dict[str, object]
    ) -> Result[Any] | tuple[NestedLevel, MapEvent]:
        codec = self._environment.codec
        result = record.progress.result
        value = None if result is None else codec.decode(result)
        if record.progress.status is StepStatus.COMPLETED:
            return Success(value)
        if record.progress.status is StepStatus.SKIPPED:
            return Skipped(value)
        if record.progress.status is StepStatus.HALTED:
            return Halt(value if isinstance(value, str) else None)
        key = _key_of(record)
        level = NestedLevel(
            self._level, self._slot.path, {key: target}, {key: node_state_of(record)}, values
        )
        level.slots[key] = Slot.of_record(record, codec)
        return level, TakenUp(self._environment.max_recoveries)

    def _announce(self, level: NestedLevel) -> None:
        with self._lock:
            self.used = True
            if not self._state.nested:
                self._state.nested = True
                level.announce = (self._level, self._name, self._state, self._slot)

    def _outstanding(self, kept: frozenset[str]) -> NestedLevel | None:
        """Return the level of all nested work on record but `kept`, if anything of it is left."""
        targets: dict[str, Target] = {}
        nodes: dict[str, NodeState] = {}
        slots: dict[str, Slot] = {}
        for record in records_in(self._environment, self._slot.path):
            key = _key_of(record)
            if not _is_nested(record) or key in kept or _settled_back(record):
                continue
            name = key.partition(":")[2]
            target = self._environment.nested_targets.get(record.path) or Target.loaded(name)
            if target is None:
                raise NestedRollbackIncomplete(
                    self._slot.path,
                    [
                        RollbackFailure(
                            record.path,
                            "undo",
                            "state_unavailable",
                            message=f"{name} is not loaded: import its module, then undo again.",
                        )
                    ],
                )
            targets[key], nodes[key] = target, node_state_of(record)
            slots[key] = Slot.of_record(record, self._environment.codec)
        if not targets:
            return None
        level = NestedLevel(self._level, self._slot.path, targets, nodes)
        level.slots = slots
        if not self._environment.by_hand:
            # tried before and not tried again now: they are left all the same
            level.rollback_failures = [
                failure
                for key, state in nodes.items()
                if state.rollback in GIVEN_UP
                for failure in slots[key].rollback_failures
            ]
        return level

    def _drive(self, level: NestedLevel, event: MapEvent) -> LevelOutcome:
        environment = self._environment
        steps = environment.execute(environment, level, event)
        outcome = environment.drive(steps, parallel=runs_in_parallel(level))
        assert isinstance(outcome, LevelOutcome)
        return outcome

    async def _adrive(self, level: NestedLevel, event: MapEvent) -> LevelOutcome:
        environment = self._environment
        steps = environment.execute(environment, level, event)
        outcome = await environment.adrive(steps, nested=True, backward=self._backward)
        assert isinstance(outcome, LevelOutcome)
        return outcome

    def _result(self, level: NestedLevel, outcome: LevelOutcome) -> Result[Any]:
        match outcome.ending:
            case Ending.COMPLETED:
                assert outcome.value is not None
                value = outcome.value.fresh()
                skipped = level.node_state(level.plan.returns).status is StepStatus.SKIPPED
                return Skipped(value) if skipped else Success(value)
            case Ending.HALTED:
                return Halt(outcome.halt_reason)
            case Ending.FAILED | Ending.UNDONE:
                assert outcome.failure is not None
                return dataclasses.replace(
                    outcome.failure, rollback_failures=list(outcome.rollback_failures)
                )
            case Ending.CANCELLED | Ending.ABORTED:
                raise WorkStopped(outcome.interruption)

    def _check(self, outcome: LevelOutcome) -> None:
        if outcome.ending in (Ending.CANCELLED, Ending.ABORTED):
            raise WorkStopped(outcome.interruption)
        if outcome.incomplete:
            raise NestedRollbackIncomplete(self._slot.path, outcome.rollback_failures)


def runs_in_parallel(level: ReactorLevel) -> bool:
    """Tell whether a level, or any below it, runs several steps at a time."""
    return any(
        definition.reactor is not None and plan_is_parallel(definition.reactor.definition().plan)
        for definition in level.definition.nodes.values()
    ) or plan_is_parallel(level.plan)


def plan_is_parallel(plan: Plan) -> bool:
    """Tell whether a plan, or one nested in it, runs several steps at a time."""
    if plan.concurrency > 1:
        return True
    return any(node.inner is not None and plan_is_parallel(node.inner) for node in plan.nodes)


def _key_of(record: StepRecord) -> str:
    return record.path[len(record.scope) + 1 :]


def _is_nested(record: StepRecord) -> bool:
    return _key_of(record).startswith(MARK)


def _ordinal(record: StepRecord) -> int:
    return int(_key_of(record)[1:].partition(":")[0])


def _settled_back(record: StepRecord) -> bool:
    return record.progress.rollback in (StepRollback.UNDONE, StepRollback.COMPENSATED)


def _adoptable(record: StepRecord) -> bool:
    if record.progress.rollback is not StepRollback.NONE:
        return False
    return record.progress.status in (
        StepStatus.COMPLETED,
        StepStatus.SKIPPED,
        StepStatus.HALTED,
        StepStatus.STARTED,
    )
