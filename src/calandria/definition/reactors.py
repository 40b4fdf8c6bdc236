"""`Reactor`: a workflow as a class."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, ParamSpec

from typing_extensions import dataclass_transform

from calandria.coordination.primitives import Primitive
from calandria.definition.building import build_definition
from calandria.definition.contract import FieldDeclaration, UnresolvedAnnotation
from calandria.definition.declarations import collect_inputs, refuse_init
from calandria.definition.execution import RunOptions, executor
from calandria.definition.functions import readable_name
from calandria.definition.hand_off import HandOffPoint
from calandria.definition.members import collect_nodes, mentioned_annotations
from calandria.definition.names import REACTOR_RESERVED
from calandria.definition.namespaces import AnnotationScope, enclosing_scope
from calandria.definition.node_definition import ReactorDefinition
from calandria.definition.nodes import DeclaredNode
from calandria.definition.references import Reference
from calandria.ports.middleware import MiddlewareFactory
from calandria.results import Result

if TYPE_CHECKING:
    from pydantic import Field

    from calandria.plan.drawing import Format
    from calandria.runtime.run import Run
    from calandria.runtime.runtime import Runtime
else:
    # only type checkers need it here, and importing pydantic takes its time
    def Field() -> None: ...  # noqa: D103


P = ParamSpec("P")
_building = threading.RLock()


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class Reactor:
    """A workflow: annotated inputs, named steps, and what it returns.

    The body declares steps with `step`, `compose` and `map_each`; their order follows from what
    they use of each other. A reactor is never constructed: `run` runs it. Wrong definitions raise
    `DefinitionError` when the class is created, or, where an annotation refers to something
    defined later, at `check()` and before the first run.

    Example:
        class Checkout(Reactor):
            order_id: str

            validate = step(ValidateOrder)
            charge = step(ChargeCard, amount=validate["total"])
    """

    returns: ClassVar[Reference | DeclaredNode | None] = None
    """The step, or a path into its result, that is the reactor's value; default: the last step."""
    concurrency: ClassVar[int] = 1
    """How many independent steps may run at the same time."""
    coordination: ClassVar[Sequence[Primitive]] = ()
    """What is held or awaited around the whole run."""
    background: ClassVar[bool | HandOffPoint] = False
    """Where a worker takes over: `True` (at once), `after(step)` or `before(step)`."""
    middleware: ClassVar[Sequence[MiddlewareFactory]] = ()
    """Hooks for this reactor, besides those of the runtime."""

    __calandria_scope__: ClassVar[AnnotationScope]
    __calandria_inputs__: ClassVar[Mapping[str, FieldDeclaration]]
    __calandria_nodes__: ClassVar[Mapping[str, DeclaredNode]]
    __calandria_definition__: ClassVar[ReactorDefinition | None]

    if not TYPE_CHECKING:

        def __new__(cls, *_: object, **__: object) -> NoReturn:  # noqa: D102
            raise TypeError(
                f"{readable_name(cls)} is a reactor and is never constructed: use "
                f"{readable_name(cls)}.run(...)."
            )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        refuse_init(cls)
        cls.__calandria_scope__ = enclosing_scope(sys._getframe(1), mentioned_annotations(cls))
        cls.__calandria_inputs__ = collect_inputs(
            cls, cls.__calandria_scope__, REACTOR_RESERVED, base=Reactor
        )
        cls.__calandria_nodes__ = collect_nodes(cls)
        cls.__calandria_definition__ = None
        if any(base.__dict__.get("__calandria_nodes__") for base in cls.__mro__):
            try:
                cls.definition()
            except UnresolvedAnnotation:
                # what it refers to may be defined below it: checked again before any use
                return

    @classmethod
    def definition(cls) -> ReactorDefinition:
        """Return the complete, checked definition; raises `DefinitionError` if it is wrong."""
        found: ReactorDefinition | None = cls.__dict__.get("__calandria_definition__")
        if found is None:
            with _building:
                found = cls.__dict__.get("__calandria_definition__")
                if found is None:
                    found = cls.__calandria_definition__ = build_definition(cls)
        return found

    @classmethod
    def check(cls) -> None:
        """Check the whole definition; raises `DefinitionError` if anything is wrong with it."""
        cls.definition()

    @classmethod
    def draw(cls, format: Format = "svg") -> Picture:
        """Return a picture of the reactor; a notebook shows an SVG one as such.

        Args:
            format: `text` for a terminal, `mermaid` for a page that renders it, `svg` for a
                browser or a notebook.

        Raises `DefinitionError` if the reactor is declared wrongly, `ValueError` for another
        format.
        """
        from calandria.plan.drawing import draw

        return Picture(draw(cls.definition().plan, format))

    @classmethod
    def _repr_svg_(cls) -> str:
        return cls.draw("svg")

    @classmethod
    def run(cls: Callable[P, Any], /, *args: P.args, **inputs: P.kwargs) -> Result[Any]:
        """Run the reactor in this process and return what it came to.

        Invalid inputs give a `Failure` without a run. Raises `DefinitionError` if the reactor is
        declared wrongly, `StorageError` if the run cannot be recorded, `ContentionError` if what it
        declares in `coordination` is not to be had in time (nothing ran).
        """
        reactor, values = _request(cls, args, inputs)
        return executor().run(reactor, values, RunOptions())

    @classmethod
    async def arun(cls: Callable[P, Any], /, *args: P.args, **inputs: P.kwargs) -> Result[Any]:
        """Run the reactor like `run`, on the caller's event loop."""
        reactor, values = _request(cls, args, inputs)
        return await executor().arun(reactor, values, RunOptions())

    @classmethod
    def options(
        cls: Callable[P, Any],
        /,
        *,
        idempotency_key: str | None = None,
        runtime: Runtime | None = None,
        correlation_id: str | None = None,
    ) -> BoundReactor[P]:
        """Return the reactor with options for its next run.

        Args:
            idempotency_key: the first run under a key wins; later calls get its result, and raise
                `IdempotencyConflict` if they have other inputs.
            runtime: the runtime to use instead of the process's default.
            correlation_id: an id of your own by which the run can be found again.
        """
        return BoundReactor(cls, RunOptions(idempotency_key, runtime, correlation_id))

    @classmethod
    def find(cls, run_id: str) -> Run:
        """Return a run of this reactor; raises `UnknownRun` if there is none with this id."""
        return executor().find(cls, run_id)

    @classmethod
    def undo(cls, run_id: str) -> Result[Any]:
        """Undo a run that has ended or stopped, newest step first.

        Raises `UndoIncomplete` if something is left, `UnknownRun`, `RunBusy` or `RunStateError`.
        """
        return executor().undo(cls, run_id)

    @classmethod
    def cancel(cls, run_id: str, reason: str = "") -> Run:
        """Stop a run and keep what it did; raises `UnknownRun` or `RunStateError`."""
        return executor().cancel(cls, run_id, reason)

    @classmethod
    def recover(cls, run_id: str) -> Result[Any]:
        """Take up, here and now, a run whose process died; raises `UnknownRun` or `RunBusy`."""
        return executor().recover(cls, run_id)


class Picture(str):
    """A drawing, as text."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        return str(self) if self.startswith("<svg") else None


class BoundReactor(Generic[P]):
    """A reactor together with options for one run."""

    def __init__(self, reactor: Callable[P, Any], options: RunOptions) -> None:
        self._reactor = reactor
        self._options = options

    def run(self, /, *args: P.args, **inputs: P.kwargs) -> Result[Any]:
        """Run the reactor in this process with these options; see `Reactor.run`."""
        reactor, values = _request(self._reactor, args, inputs)
        return executor().run(reactor, values, self._options)

    async def arun(self, /, *args: P.args, **inputs: P.kwargs) -> Result[Any]:
        """Run the reactor on the caller's event loop with these options; see `Reactor.arun`."""
        reactor, values = _request(self._reactor, args, inputs)
        return await executor().arun(reactor, values, self._options)


def _request(
    reactor: object, positional: Sequence[object], inputs: Mapping[str, object]
) -> tuple[type[Reactor], dict[str, object]]:
    assert isinstance(reactor, type) and issubclass(reactor, Reactor)
    if positional:
        raise TypeError(f"{readable_name(reactor)}.run takes its inputs by name.")
    reactor.definition()
    return reactor, dict(inputs)
