"""The open levels of a run: a reactor's steps, or a map's elements, with their data.

The engine decides over a level's state; an execution performs what it decides; a level joins the
two with the definition and with the values that flow between its steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from calandria.definition.node_definition import MapOptions, NodeDefinition, ReactorDefinition
from calandria.definition.references import Scope, resolve
from calandria.engine.advance import advance
from calandria.engine.commands import Command
from calandria.engine.events import MapEvent
from calandria.engine.maps import MapPlan, MapState, advance_map
from calandria.engine.node_state import NodeState
from calandria.engine.state import LevelState
from calandria.plan.model import AWAITED, Node, NodeKind, Plan
from calandria.ports.run_store import StepRecord
from calandria.results import Failure, RollbackFailure
from calandria.runtime.slots import Slot
from calandria.runtime.values import Value
from calandria.statuses import StepStatus

NOTHING_REDACTED: frozenset[str] = frozenset()


class Level:
    """What every open level has.

    `key` is its name in its parent. `failure` is why it goes backward; `rollback_failures` is what
    could not be rolled back at it and below.
    """

    def __init__(self, scope: str, parent: Level | None, key: str) -> None:
        self.scope = scope
        self.parent = parent
        self.key = key
        self.failure: Failure | None = None
        self.rollback_failures: list[RollbackFailure] = []
        self.halt_reason: str | None = None
        self.pending_compensation: str | None = None
        self.undoing = False
        """Whether it was opened to be undone."""

    @property
    def alone(self) -> bool:
        """Whether no two steps of the run can be under way while one of this level is."""
        return self.parent is None or self.parent.alone

    @property
    def reactor_name(self) -> str:
        """The name of the reactor around it."""
        raise NotImplementedError

    def advance(self, event: MapEvent) -> list[Command]:
        """Let the engine decide what follows from `event`."""
        raise NotImplementedError

    def node(self, name: str) -> Node:
        """Return the plan's node for a step of this level."""
        raise NotImplementedError

    def node_state(self, name: str) -> NodeState:
        """Return where a step of this level stands."""
        raise NotImplementedError

    def slot(self, name: str) -> Slot:
        """Return the data of a step of this level."""
        raise NotImplementedError

    def position(self, name: str) -> int:
        """Return a step's place at this level."""
        raise NotImplementedError

    def definition_of(self, name: str) -> NodeDefinition:
        """Return a step's definition."""
        raise NotImplementedError

    def kind_of(self, name: str) -> NodeKind:
        """Tell whether a step of this level runs a unit, a reactor or a map."""
        raise NotImplementedError

    def arguments(self, name: str) -> dict[str, object]:
        """Resolve a step's wired inputs; raises `UnresolvedReference`."""
        raise NotImplementedError

    def redacted(self, name: str) -> frozenset[str]:
        """Return which of a step's inputs must not be shown."""
        raise NotImplementedError

    def results_view(self) -> Mapping[str, Any]:
        """Return the results that a step's context may read, by name."""
        raise NotImplementedError

    def reactor_inputs(self) -> dict[str, Any]:
        """Return the inputs of the reactor around it, for reading only."""
        raise NotImplementedError


class ReactorLevel(Level):
    """The steps of one reactor: the run itself, a compose, an element, or nested work."""

    def __init__(
        self,
        definition: ReactorDefinition,
        state: LevelState,
        inputs: dict[str, Any],
        *,
        scope: str = "",
        parent: Level | None = None,
        key: str = "",
        redacted_inputs: frozenset[str] = NOTHING_REDACTED,
    ) -> None:
        super().__init__(scope, parent, key)
        self.definition = definition
        self.plan: Plan = definition.plan
        self.state = state
        self.inputs = inputs
        self.redacted_inputs = redacted_inputs
        self.redaction = definition.redaction(redacted_inputs)
        self.slots: dict[str, Slot] = {}

    @property
    def alone(self) -> bool:
        """Whether no two steps of the run can be under way while one of this level is."""
        return self.plan.concurrency == 1 and super().alone

    @property
    def reactor_name(self) -> str:
        """The reactor's name."""
        return self.definition.name

    def advance(self, event: MapEvent) -> list[Command]:
        """Let the engine decide what follows from `event`."""
        return advance(self.plan, self.state, event)[1]  # type: ignore[arg-type]

    def node(self, name: str) -> Node:
        """Return the plan's node for a step."""
        return self.plan.node(name)

    def node_state(self, name: str) -> NodeState:
        """Return where a step stands."""
        return self.state.nodes[name]

    def path(self, name: str) -> str:
        """Return the path of a step in the run."""
        return f"{self.scope}/{name}" if self.scope else name

    def slot(self, name: str) -> Slot:
        """Return the data of a step."""
        found = self.slots.get(name)
        if found is None:
            found = self.slots[name] = Slot(self.path(name))
        return found

    def position(self, name: str) -> int:
        """Return a step's place in its reactor."""
        return self.plan.positions[name]

    def definition_of(self, name: str) -> NodeDefinition:
        """Return a step's definition."""
        return self.definition.nodes[name]

    def kind_of(self, name: str) -> NodeKind:
        """Tell what a step is."""
        return self.definition.nodes[name].kind

    def arguments(self, name: str) -> dict[str, object]:
        """Resolve a step's wired inputs; raises `UnresolvedReference`."""
        return self.definition.nodes[name].arguments(self)

    def redacted(self, name: str) -> frozenset[str]:
        """Return which of a step's inputs must not be shown."""
        return self.redaction.inputs.get(name, NOTHING_REDACTED)

    def input(self, name: str) -> object:
        """Return one of the reactor's inputs."""
        return self.inputs[name]

    def result(self, step: str) -> object:
        """Return the result of a step that is done."""
        awaited = self.slots.get(step + AWAITED)
        value = self.slots[step].result if awaited is None else awaited.result
        return None if value is None else value.peek()

    def element(self) -> object:
        """Refuse: no map is at an element here."""
        raise LookupError("element is known only in the arguments of a map")

    def index(self) -> int:
        """Refuse: no map is at an element here."""
        raise LookupError("index is known only in the arguments of a map")

    def results_view(self) -> Mapping[str, Any]:
        """Return the results of the steps that are done, by name."""
        return ResultsView(self.slots)

    def reactor_inputs(self) -> dict[str, Any]:
        """Return the reactor's inputs, for reading only."""
        return self.inputs


class ResultsView(Mapping[str, Any]):
    """The results of the steps that are done, decoded when read."""

    def __init__(self, slots: Mapping[str, Slot]) -> None:
        self._slots = slots

    def __getitem__(self, name: str) -> Any:
        value = self._slots[name].result
        if value is None:
            raise KeyError(name)
        return value.fresh()

    def __iter__(self) -> Iterator[str]:
        return (name for name, slot in self._slots.items() if slot.result is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class MapLevel(Level):
    """The elements of one map, of which only the one in hand is held."""

    def __init__(
        self,
        around: ReactorLevel,
        key: str,
        state: MapState,
        node: Node,
        definition: NodeDefinition,
    ) -> None:
        super().__init__(around.path(key), around, key)
        assert definition.map is not None
        self.around = around
        self.options: MapOptions = definition.map
        self.definition = definition
        self.element_node = element_node(node, definition)
        self.map_plan = MapPlan(
            self.element_node,
            keep_going=self.options.keep_going,
            undo_all=self.options.undo_all is not None,
        )
        self.state = state
        self.source: Iterator[object] | None = None
        self.skip = 0
        """How many elements of the source were taken before this process read it."""
        self.current: Any = None
        self.taken: str | None = None
        """The name of the element last taken from the source."""
        self.in_hand: Slot | None = None
        self.read_ahead: deque[StepRecord] = deque()
        """Records of elements that a rollback has still to look at, highest index first."""
        self.value: Value | None = None
        """What the map returns, once its source is exhausted."""

    @property
    def retrying(self) -> bool:
        """Whether the element in hand waits for its next attempt."""
        step = self.state.step
        return step is not None and step.status is StepStatus.RETRYING

    @property
    def reactor_name(self) -> str:
        """The name of the reactor that declares the map."""
        return self.around.reactor_name

    def advance(self, event: MapEvent) -> list[Command]:
        """Let the engine decide what follows from `event`."""
        return advance_map(self.map_plan, self.state, event)[1]

    def node(self, name: str) -> Node:
        """Return the node that every element is an instance of."""
        return self.element_node

    def node_state(self, name: str) -> NodeState:
        """Return where the element in hand stands."""
        assert self.state.step is not None
        return self.state.step

    def slot(self, name: str) -> Slot:
        """Return the data of the element in hand, which `name` becomes if it was another."""
        path = f"{self.scope}[{name}]"
        if self.in_hand is None or self.in_hand.path != path:
            self.in_hand = Slot(path)
        return self.in_hand

    def position(self, name: str) -> int:
        """Return the element's index."""
        return int(name)

    def definition_of(self, name: str) -> NodeDefinition:
        """Return the map's definition, which is that of its elements."""
        return self.definition

    def kind_of(self, name: str) -> NodeKind:
        """Tell whether the elements run a unit or a reactor."""
        return self.element_node.kind

    def arguments(self, name: str) -> dict[str, object]:
        """Resolve the inputs of the element in hand; raises `UnresolvedReference`."""
        return self.definition.arguments(ElementScope(self.around, self.current, int(name)))

    def redacted(self, name: str) -> frozenset[str]:
        """Return which of an element's inputs must not be shown."""
        return self.around.redacted(self.key)

    def open_source(self) -> Iterator[object]:
        """Start to read the collection, past the elements taken before.

        Raises whatever reading it raises.
        """
        where = f"{self.reactor_name}.{self.key}, over"
        collection = resolve(self.options.over, self.around, where)
        try:
            source = iter(collection)  # type: ignore[call-overload]
        except TypeError:
            raise TypeError(
                f"{where}: {type(collection).__name__} is not a collection; give `over` "
                "something that can be iterated over."
            ) from None
        for _ in range(self.skip):
            next(source, None)
        return source  # type: ignore[no-any-return]

    def results_view(self) -> Mapping[str, Any]:
        """Return the results of the steps around the map, by name."""
        return self.around.results_view()

    def reactor_inputs(self) -> dict[str, Any]:
        """Return the inputs of the reactor that declares the map, for reading only."""
        return self.around.inputs


class ElementScope(Scope):
    """Where the arguments of one element are looked up."""

    def __init__(self, around: ReactorLevel, current: object, position: int) -> None:
        self._around = around
        self._current = current
        self._position = position

    def input(self, name: str) -> object:
        """Return one of the reactor's inputs."""
        return self._around.input(name)

    def result(self, step: str) -> object:
        """Return the result of a step that is done."""
        return self._around.result(step)

    def element(self) -> object:
        """Return the element in hand."""
        return self._current

    def index(self) -> int:
        """Return its index."""
        return self._position


def element_node(node: Node, definition: NodeDefinition) -> Node:
    """Return the node that a map's elements are instances of."""
    unit = definition.unit
    if unit is None:
        return Node(name="", kind=NodeKind.COMPOSE, target=node.target, inner=node.inner)
    return Node(
        name="",
        kind=NodeKind.STEP,
        retry=definition.retry,
        rollback_retry=unit.rollback_retry,
        compensates=unit.has("compensate"),
        undoes=unit.has("undo"),
        reconciles=unit.has("reconcile"),
        target=node.target,
    )
