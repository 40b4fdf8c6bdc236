"""Whether a stored run fits its reactor as it is now: before anything of it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calandria.definition.node_definition import NodeDefinition, ReactorDefinition
from calandria.definition.reactors import Reactor
from calandria.errors import DefinitionError
from calandria.plan.model import AWAITED, NodeKind
from calandria.ports.run_store import RunFilter, RunStore, StepRecord, StoredRun
from calandria.runtime.lookup import stored_name
from calandria.runtime.outline import read_outline
from calandria.runtime.paging import steps_in
from calandria.runtime.targets import MARK
from calandria.runtime.units import stored_definition
from calandria.statuses import RunStatus, StepRollback, StepStatus

if TYPE_CHECKING:
    from calandria.runtime.runtime import Runtime

UNFINISHED = frozenset(
    {RunStatus.PENDING, RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.ROLLING_BACK}
)


@dataclass(frozen=True)
class Fit:
    """How a run and its reactor's present definition go together.

    `lost` are the paths of steps the run has done or begun that the reactor does not have, or has
    as another kind of step: the run cannot go on. `rewired` are recorded steps whose target,
    wiring or contract is another now: what they did stays, and what follows is as it is now.
    """

    lost: tuple[str, ...] = ()
    rewired: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnfinishableRun:
    """A run that has not ended and that the reactors, as they are now, could not finish.

    `steps` are the paths of what is missing; empty if the reactor itself is.
    """

    run_id: str
    reactor: str
    status: RunStatus
    steps: tuple[str, ...]
    reason: str


def fit_of(store: RunStore, stored: StoredRun, definition: ReactorDefinition) -> Fit:
    """Compare what a run has on record with a definition, at the top and in open levels below."""
    if stored.run.shape == definition.shape:
        return Fit()
    before = read_outline(stored.run.outline).steps
    lost, rewired = list[str](), list[str]()
    for record in steps_in(store, stored.run.id, ""):
        name = record.path
        if name.endswith(AWAITED):
            # it only waits; whether anything still reads the unit is for the new version to say
            continue
        now, then = definition.fingerprints.get(name), before.get(name)
        if now is None or (then is not None and _kind(now) != _kind(then)):
            lost.append(name)
            continue
        if then is not None and now != then:
            rewired.append(name)
        if _is_open(record):
            lost.extend(_lost_below(store, stored.run.id, name, definition.nodes[name]))
    return Fit(tuple(lost), tuple(rewired))


def _kind(fingerprint: str) -> str:
    return fingerprint.partition(" ")[0]


def _lost_below(store: RunStore, run_id: str, path: str, node: NodeDefinition) -> Iterator[str]:
    """Yield the paths below an open step that its reactor does not have any more."""
    if node.reactor is None:
        return
    if node.kind is NodeKind.MAP:
        for element in store.read_steps(run_id, path, descending=True, limit=1):
            if _is_open(element):
                yield from _lost_in(store, run_id, element.path, node.reactor)
    elif node.kind is NodeKind.COMPOSE:
        yield from _lost_in(store, run_id, path, node.reactor)


def _lost_in(store: RunStore, run_id: str, scope: str, reactor: type[Reactor]) -> Iterator[str]:
    nodes = reactor.definition().nodes
    for record in steps_in(store, run_id, scope):
        name = record.path[len(scope) + 1 :]
        if name.endswith(AWAITED) or name.startswith(MARK):
            continue
        if name not in nodes:
            yield record.path
        elif _is_open(record):
            yield from _lost_below(store, run_id, record.path, nodes[name])


def _is_open(record: StepRecord) -> bool:
    progress = record.progress
    return progress.status is StepStatus.STARTED or progress.rollback is StepRollback.UNDOING


def unfinishable_runs(
    runtime: Runtime, reactors: Iterable[type[Reactor]]
) -> Iterator[UnfinishableRun]:
    """Yield the runs under way that these reactors, as they are now, could not finish.

    Runs of other modules than theirs are passed over. Of theirs, a run whose reactor is gone is
    one, and a run that has a step on record which its reactor lost.
    """
    given = {stored_name(reactor): reactor for reactor in reactors}
    modules = {reactor.__module__ for reactor in given.values()}
    for run in runtime.list_runs(RunFilter(statuses=UNFINISHED, every_level=True)):
        stored = runtime.store.load_run(run.id)
        if stored is None or stored.run.reactor.partition(":")[0] not in modules:
            continue
        found = _unfinishable(runtime.store, stored, given.keys())
        if found is not None:
            yield found


def _unfinishable(
    store: RunStore, stored: StoredRun, given: Collection[str]
) -> UnfinishableRun | None:
    run_id, name, status = stored.run.id, stored.run.reactor, stored.header.status
    try:
        definition = stored_definition(name) if name.partition("/")[0] in given else None
    except DefinitionError as error:
        return UnfinishableRun(run_id, name, status, (), str(error))
    if definition is None:
        return UnfinishableRun(run_id, name, status, (), f"{name} is not there any more")
    lost = fit_of(store, stored, definition).lost
    if not lost:
        return None
    reason = f"{definition.name} does not have {', '.join(lost)} any more, which the run has begun"
    return UnfinishableRun(run_id, name, status, lost, reason)
