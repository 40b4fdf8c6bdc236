"""Damaged text is a decoding error; reading never imports and never runs what was stored."""

from __future__ import annotations

import subprocess
import sys

import pytest

from calandria.codec import JsonCodec, Record, TypeRegistry
from calandria.errors import DecodingError

DAMAGED = [
    "",
    "{",
    "[1,]",
    "nul",
    "NaN",
    "[Infinity]",
    "-Infinity",
    "1" * 5000,
    '"\x00"',
    "[" * 100_000,
    '{"$":"tuple","v":[' * 20_000,
    '{"a":' * 20_000 + "1" + "}" * 20_000,
    '{"$":1}',
    '{"$":null}',
    '{"$":["tuple"]}',
    '{"$":"unheard-of","v":1}',
    '{"$":"int","v":"xyz"}',
    '{"$":"int","v":5}',
    '{"$":"float","v":"nan:xx"}',
    '{"$":"float","v":"nan:00"}',
    '{"$":"float","v":"many"}',
    '{"$":"float"}',
    '{"$":"str","v":["a",1]}',
    '{"$":"str","v":"a"}',
    '{"$":"complex","v":[1.0]}',
    '{"$":"complex","v":[1,"b"]}',
    '{"$":"decimal","v":"one"}',
    '{"$":"decimal","v":null}',
    '{"$":"uuid","v":"5"}',
    '{"$":"uuid","v":"00000000-0000-0000-0000-000000000005","safe":9}',
    '{"$":"bytes","v":"*"}',
    '{"$":"bytearray","v":"é"}',
    '{"$":"date","v":"2024-13-01"}',
    '{"$":"datetime","v":"yesterday"}',
    '{"$":"datetime","v":"2024-01-01T00:00:00","tz":"UTC"}',
    '{"$":"datetime","v":"2024-01-01T00:00:00","tz":{"$":"zoneinfo","v":"No/Where"}}',
    '{"$":"time","v":[]}',
    '{"$":"timedelta","v":[1,2]}',
    '{"$":"timedelta","v":[1,2,3.5]}',
    '{"$":"timedelta","v":[1e400,2,3]}',
    '{"$":"timedelta","v":[9999999999,0,0]}',
    '{"$":"timezone","v":[5,0,0]}',
    '{"$":"zoneinfo","v":"../../etc/passwd"}',
    '{"$":"zoneinfo","v":"/etc/passwd"}',
    '{"$":"zoneinfo","v":""}',
    '{"$":"path","c":"system","v":"a"}',
    '{"$":"path","c":"PosixPath","v":1}',
    '{"$":"path","v":"a"}',
    '{"$":"range","v":[1,2]}',
    '{"$":"range","v":[1,2,0]}',
    '{"$":"range","v":[1,2,"3"]}',
    '{"$":"tuple","v":{}}',
    '{"$":"set","v":[[]]}',
    '{"$":"set","v":[1,1.0]}',
    '{"$":"frozenset"}',
    '{"$":"dict","v":[[1]]}',
    '{"$":"dict","v":[1]}',
    '{"$":"dict","v":[[[],1]]}',
    '{"$":"dict","v":[[1,2],[1,3]]}',
    '{"$":"deque","v":[],"maxlen":-1}',
    '{"$":"deque","v":[],"maxlen":"3"}',
    '{"$":"defaultdict","v":[],"factory":"exec"}',
    '{"$":"defaultdict","v":[],"factory":[]}',
    '{"$":"enum","c":"m:C"}',
    '{"$":"enum","v":"A"}',
    '{"$":"flag","c":"m:C","v":"A"}',
    '{"$":"dataclass","c":1,"v":{}}',
    '{"$":"dataclass","c":"m:C","v":[]}',
    '{"$":"dataclass","c":"calandria:Halt","v":[]}',
    '{"$":"dataclass","c":"calandria:Halt","v":{},"u":[1]}',
    '{"$":"dataclass","c":"calandria:Halt","v":{},"x":[]}',
    '{"$":"dataclass","c":"calandria:Halt","v":{"reason":{"$":"no"}}}',
    '{"$":"exception","c":1,"v":"m"}',
    '{"$":"exception","c":"E","v":1}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=[str(place) for place in range(len(DAMAGED))])
def test_damaged_text_is_a_decoding_error(text: str) -> None:
    with pytest.raises(DecodingError):
        JsonCodec(TypeRegistry()).decode(text)


def test_text_from_a_newer_version_says_to_upgrade() -> None:
    with pytest.raises(DecodingError, match=r"unknown tag 'quaternion'.*upgrade"):
        JsonCodec(TypeRegistry()).decode('{"a":[{"$":"quaternion","v":1}]}')


def test_an_unknown_zone_says_what_to_install() -> None:
    with pytest.raises(DecodingError, match=r"'Mars/Olympus'.*install tzdata"):
        JsonCodec(TypeRegistry()).decode('{"$":"zoneinfo","v":"Mars/Olympus"}')


READ_A_CLASS_OF_A_MODULE_NOT_LOADED = """
import sys
from calandria.codec import JsonCodec, Record, TypeRegistry

before = set(sys.modules)
for tag in ("dataclass", "model", "namedtuple", "custom"):
    record = JsonCodec(TypeRegistry()).decode(
        '{"$":"%s","c":"wave:Wave_read","v":{"a":{"$":"enum","c":"cmd:Cmd","v":"A"}}}' % tag
    )
    assert type(record) is Record and record.type_name == "wave:Wave_read", record
print(sorted(set(sys.modules) - before))
"""


def test_reading_imports_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ_A_CLASS_OF_A_MODULE_NOT_LOADED],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_a_loaded_class_that_nobody_registered_is_not_rebuilt() -> None:
    codec = JsonCodec(TypeRegistry())

    back = codec.decode('{"$":"dataclass","c":"calandria.codec.registry:KnownClass","v":{}}')

    assert type(back) is Record
