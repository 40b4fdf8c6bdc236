"""The format of recorded values: this page is its specification, and stored journals rely on it.

A value is ASCII JSON. What JSON says without loss stands as itself: null, booleans, text, lists,
whole numbers up to 2048 bits, finite numbers, and objects whose keys are text other than `$`.
Everything else is a *form*: an object whose key `$` holds a tag. "Values" below are themselves
values or forms; `c` is the name of a class, `module:qualname` or the name it was registered under.

| tag | other keys |
| --- | --- |
| `int` | `v`: hexadecimal text, of a whole number above 2048 bits |
| `float` | `v`: `inf`, `-inf`, `nan`, or `nan:` and the 8 bytes of an unusual one in hexadecimal |
| `str` | `v`: parts to be joined, of text in which a lone high surrogate precedes a low one |
| `complex` | `v`: the real and the imaginary part |
| `decimal`, `uuid` | `v`: as text; `safe`: a UUID's `is_safe`, unless unknown |
| `bytes`, `bytearray` | `v`: base64 |
| `date` | `v`: ISO 8601 |
| `datetime`, `time` | `v`: ISO 8601; `tz`: the zone, unless none or an unnamed offset; `fold` |
| `timedelta` | `v`: days, seconds, microseconds |
| `timezone` | `v`: its offset like a timedelta; `name`: unless it has the usual one |
| `zoneinfo` | `v`: the key |
| `path` | `c`: the class in `pathlib`; `v`: as text |
| `range` | `v`: start, stop, step |
| `tuple`, `set`, `frozenset` | `v`: values; of the sets in the order of their text |
| `deque` | `v`: values; `maxlen`: unless none |
| `dict`, `ordereddict`, `counter` | `v`: pairs of key and value, in order |
| `defaultdict` | the same; `factory`: the name of a built-in class, or null |
| `dataclass` | `c`; `v`: fields by name; `x`: other attributes; `u`: fields without a value |
| `model` | the same; `s`: names of the fields set, unless all; `e`: extra; `p`: private |
| `namedtuple` | `c`; `v`: fields by name |
| `enum` | `c`; `v`: the member's name |
| `flag` | `c`; `v`: names of the members combined; `r`: the bits that no member names, unless 0 |
| `exception` | `c`: the class, or null; `v`: the message |
| `custom` | `c`; `v`: what the registered `encode` returned, as a value |

A later release may add tags and optional keys. It never changes what one of these means.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from calandria.errors import DecodingError

Form: TypeAlias = "bool | int | float | str | list[Form] | dict[str, Form] | None"

MARK = "$"

MAX_DEPTH = 100
"""How deep values may be nested: far from where reading them back could exhaust the stack."""


class Reduces(Protocol):
    """Turns a nested value into its form."""

    def reduce(self, value: object) -> Form:
        """Return the form of `value`; raises `Refusal`."""
        ...


class Rebuilds(Protocol):
    """Turns a nested form into its value."""

    def rebuild(self, form: Form) -> object:
        """Return the value of `form`; raises `DecodingError`."""
        ...


def depth_of(form: Form) -> int:
    """Return how deep the JSON of `form` is nested: up to three levels for one of a value."""
    if isinstance(form, dict):
        return 1 + max(map(depth_of, form.values()), default=0)
    if isinstance(form, list):
        return 1 + max(map(depth_of, form), default=0)
    return 0


def text_at(form: dict[str, Form], key: str) -> str:
    """Return the text under `key`; raises `DecodingError` if it is missing or something else."""
    found = form.get(key)
    if not isinstance(found, str):
        raise DecodingError(f"A recorded {form.get(MARK)} is damaged: {key!r} is not text.")
    return found


def list_at(form: dict[str, Form], key: str) -> list[Form]:
    """Return the list under `key`; raises `DecodingError` if it is missing or something else."""
    found = form.get(key)
    if not isinstance(found, list):
        raise DecodingError(f"A recorded {form.get(MARK)} is damaged: {key!r} is not a list.")
    return found


def texts_at(form: dict[str, Form], key: str) -> list[str]:
    """Return the list of texts under `key`; raises `DecodingError` if it is not one."""
    found = list_at(form, key)
    if not all(isinstance(item, str) for item in found):
        raise DecodingError(f"A recorded {form.get(MARK)} is damaged: {key!r} is not all text.")
    return [str(item) for item in found]


def mapping_at(form: dict[str, Form], key: str) -> dict[str, Form]:
    """Return the object under `key`; raises `DecodingError` if it is missing or something else."""
    found = form.get(key)
    if not isinstance(found, dict):
        raise DecodingError(f"A recorded {form.get(MARK)} is damaged: {key!r} is not an object.")
    return found


def integers_at(form: dict[str, Form], key: str, count: int) -> list[int]:
    """Return the `count` whole numbers under `key`; raises `DecodingError` for anything else."""
    found = list_at(form, key)
    numbers = [item for item in found if isinstance(item, int)]
    if len(found) != count or len(numbers) != count:
        raise DecodingError(
            f"A recorded {form.get(MARK)} is damaged: {key!r} is not {count} whole numbers."
        )
    return numbers
