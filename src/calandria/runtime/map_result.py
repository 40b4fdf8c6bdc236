"""What a map returns: a sequence that reads its elements from the journal, page by page."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from calandria.codec import TypeRegistry
from calandria.errors import CalandriaError
from calandria.ports.codec import Codec
from calandria.ports.run_store import RunStore, StepRecord
from calandria.results import Failure
from calandria.runtime.paging import steps_in
from calandria.statuses import StepRollback, StepStatus

T = TypeVar("T")

_DONE = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.HALTED, StepStatus.FAILED})


class MapResult(Sequence[T], Generic[T]):
    """The results of a map's elements, in index order, read from the journal when asked for.

    An element that failed under `.keep_going()` stands in it as its `Failure`; a skipped or halted
    one as the value it was skipped with, or `None`. At most 1,000 elements are held at a time.
    """

    def __init__(self, store: RunStore, codec: Codec, run_id: str, path: str, length: int) -> None:
        self._store = store
        self._codec = codec
        self.run_id = run_id
        self.path = path
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"{self!r} has no element {index}")
        record = self._store.read_step(self.run_id, f"{self.path}[{position}]")
        if record is None:
            raise self._gone(position)
        return self._value(record)

    def __iter__(self) -> Iterator[T]:
        for record in self._records(_DONE):
            yield self._value(record)

    @property
    def successes(self) -> LazyView[T]:
        """The values of the elements that completed, lazily, in index order."""
        return LazyView(lambda: self._completed())

    @property
    def failures(self) -> LazyView[Failure]:
        """The failures of the elements that failed, lazily, in index order."""
        return LazyView(lambda: self._failed())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MapResult):
            if (other.run_id, other.path) == (self.run_id, self.path):
                return True
            return len(self) == len(other) and all(
                mine == theirs for mine, theirs in zip(self, other, strict=False)
            )
        if isinstance(other, (list, tuple)):
            return len(self) == len(other) and all(
                mine == theirs for mine, theirs in zip(self, other, strict=False)
            )
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: object) -> MapResult[T]:
        return self  # nothing of it can be changed

    def __repr__(self) -> str:
        return f"<MapResult {self.path} of {self._length} elements>"

    def _completed(self) -> Iterator[T]:
        for record in self._records(frozenset({StepStatus.COMPLETED})):
            if record.progress.rollback is StepRollback.NONE:
                yield self._value(record)

    def _failed(self) -> Iterator[Failure]:
        for record in self._records(frozenset({StepStatus.FAILED})):
            value: Any = self._value(record)
            yield value

    def _records(self, statuses: frozenset[StepStatus]) -> Iterator[StepRecord]:
        return steps_in(self._store, self.run_id, self.path, statuses)

    def _value(self, record: StepRecord) -> T:
        progress = record.progress
        text = progress.error if progress.status is StepStatus.FAILED else progress.result
        value: Any = None if text is None else self._codec.decode(text)
        return value  # type: ignore[no-any-return]

    def _gone(self, position: int) -> CalandriaError:
        return CalandriaError(
            f"{self.path}[{position}] of run {self.run_id} is not in the journal any more: "
            "the run was pruned."
        )


class LazyView(Sequence[T], Generic[T]):
    """A view that can be gone through again and again, each time afresh from the journal."""

    def __init__(self, start: Callable[[], Iterator[T]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[T]:
        return self._start()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), _NOTHING) is not _NOTHING

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return list(self)[index]
        position = index + len(self) if index < 0 else index
        if position >= 0:
            for value in itertools.islice(self, position, position + 1):
                return value
        raise IndexError(f"there is no element {index}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (LazyView, list, tuple)):
            return NotImplemented
        return all(
            mine == theirs
            for mine, theirs in itertools.zip_longest(self, other, fillvalue=_NOTHING)
        )

    __hash__ = None  # type: ignore[assignment]  # it is what it contains, as a list is

    def __repr__(self) -> str:
        some = ", ".join(repr(value) for value in itertools.islice(self, _SHOWN))
        more = ", ..." if len(self) > _SHOWN else ""
        return f"<LazyView [{some}{more}]>"


_NOTHING: Any = object()
_SHOWN = 3
_binding = threading.local()


class BoundCodec:
    """A codec whose decoded map results read from this runtime's storage."""

    def __init__(self, inner: Codec, store: RunStore) -> None:
        self._inner = inner
        self._store = store

    def encode(self, value: object) -> str:
        """Return `value` as text."""
        return self._inner.encode(value)

    def decode(self, text: str) -> object:
        """Return the value recorded as `text`, fresh."""
        previous = getattr(_binding, "current", None)
        _binding.current = self
        try:
            return self._inner.decode(text)
        finally:
            _binding.current = previous

    @property
    def store(self) -> RunStore:
        """The storage that map results read from."""
        return self._store


def register_map_result(registry: TypeRegistry) -> None:
    """Let map results be recorded: as the place they are read from, not as a copy."""
    registry.register(
        MapResult,
        name="calandria:MapResult",
        encode=lambda result: [result.run_id, result.path, len(result)],
        decode=_rebuild,
    )


def _rebuild(form: Any) -> MapResult[Any]:
    codec: BoundCodec = _binding.current
    run_id, path, length = form
    return MapResult(codec.store, codec, run_id, path, length)
