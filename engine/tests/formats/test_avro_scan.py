"""Reading Avro records in part gives what fastavro gives, without the unwanted fields."""

from __future__ import annotations

import random
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.avro_container import encode_records_container, open_container

longs = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, width=32)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": longs,
    "float": floats,
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=100),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


class Names:
    """Names that no other type of the schema has."""

    def __init__(self) -> None:
        self._next = 0

    def new(self) -> str:
        self._next += 1
        return f"n{self._next}"


def typed(draw: st.DrawFn, names: Names, depth: int) -> Typed:
    """A schema and the values that fit it."""
    kinds = [*PRIMITIVES, "fixed", "enum", "option", "pairs", "metrics"]
    kinds += ["array", "map", "record"] if depth else []
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "fixed":
            size = draw(st.integers(1, 5))
            schema = {"type": "fixed", "name": names.new(), "size": size}
            return schema, st.binary(min_size=size, max_size=size)
        case "enum":
            symbols = ["A", "B", "C"]
            schema = {"type": "enum", "name": names.new(), "symbols": symbols}
            return schema, st.sampled_from(symbols)
        case "option":
            inner = draw(st.sampled_from(["long", "string", "double"]))
            return ["null", inner], st.none() | PRIMITIVES[inner]
        case "pairs" | "metrics":
            value = "bytes" if kind == "pairs" else "long"
            return _entries(names, value), st.lists(
                st.fixed_dictionaries({"key": PRIMITIVES["int"], "value": PRIMITIVES[value]}),
                max_size=80,
            )
        case "array":
            items, values = typed(draw, names, depth - 1)
            if items == "null":  # an array of nothing is refused
                items, values = record(draw, names, 0)
            return {"type": "array", "items": items}, st.lists(values, max_size=3)
        case "map":
            inner_schema, values = typed(draw, names, depth - 1)
            keys = st.text(max_size=5)
            schema = {"type": "map", "values": inner_schema}
            return schema, st.dictionaries(keys, values, max_size=3)
        case "record":
            return record(draw, names, depth - 1)
    return kind, PRIMITIVES[kind]


def _entries(names: Names, value: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
    return {"type": "array", "items": {"type": "record", "name": names.new(), "fields": fields}}


def record(draw: st.DrawFn, names: Names, depth: int) -> Typed:
    fields, values = [], {}
    # Records that take no bytes are refused.
    first: Typed = ("long", PRIMITIVES["long"])
    for schema, fitting in [
        first,
        *(typed(draw, names, depth) for _ in range(draw(st.integers(0, 4)))),
    ]:
        name = names.new()
        fields.append({"name": name, "type": schema, "field-id": draw(st.integers(0, 9))})
        values[name] = fitting
    schema = {"type": "record", "name": names.new(), "fields": fields}
    return schema, st.fixed_dictionaries(values)


@st.composite
def containers(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]], frozenset[int]]:
    """A schema, records of it, and the unwanted field ids."""
    schema, values = record(draw, Names(), 2)
    return schema, draw(st.lists(values, max_size=3)), draw(st.frozensets(st.integers(0, 9)))


def trimmed(schema: Any, value: Any, unwanted: frozenset[int]) -> Any:
    """The value without the unwanted fields, at any depth."""
    if isinstance(schema, Mapping) and schema["type"] == "record":
        return {
            field["name"]: trimmed(field["type"], value[field["name"]], unwanted)
            for field in schema["fields"]
            if field.get("field-id") not in unwanted
        }
    if isinstance(schema, Mapping) and schema["type"] == "array":
        return [trimmed(schema["items"], item, unwanted) for item in value]
    if isinstance(schema, Mapping) and schema["type"] == "map":
        return {key: trimmed(schema["values"], item, unwanted) for key, item in value.items()}
    return value


@given(containers(), st.sampled_from(["null", "deflate"]))
def test_what_is_wanted_is_read_as_fastavro_reads_it(
    case: tuple[dict[str, Any], list[dict[str, Any]], frozenset[int]], codec: str
) -> None:
    schema, records, unwanted = case
    body = BytesIO()
    fastavro.writer(body, schema, records, codec=codec, sync_interval=1)
    container = open_container(body.getvalue())
    expected = list(fastavro.reader(BytesIO(body.getvalue())))
    found = list(container.records(lambda field: field.get("field-id") not in unwanted))
    assert found == [trimmed(schema, value, unwanted) for value in expected]


METRICS = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "path", "type": "string", "field-id": 1},
        {"name": "sizes", "type": ["null", _entries(Names(), "long")], "field-id": 2},
        {
            "name": "bounds",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "bound",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
                },
            },
            "field-id": 3,
        },
        {"name": "rows", "type": "long", "field-id": 4},
    ],
}


def metrics_container() -> bytes:
    """Few enough records for one block."""
    pairs = [{"key": number, "value": number * 1000} for number in range(70)]
    bounds = [{"key": number, "value": b"x" * (number * 3)} for number in range(70)]
    records = [
        {"path": f"file-{number}", "sizes": pairs, "bounds": bounds, "rows": 10**number}
        for number in range(3)
    ]
    return encode_records_container(METRICS, records, {})


def read_wanted(body: bytes) -> list[dict[str, Any]]:
    return list(open_container(body).records(lambda field: field.get("field-id") in (1, 4)))


def test_long_maps_and_values_are_stepped_over() -> None:
    assert read_wanted(metrics_container()) == [
        {"path": f"file-{number}", "rows": 10**number} for number in range(3)
    ]


def test_blocks_that_state_their_size_are_read() -> None:
    """Array blocks of Avro's Java library may have a negative count and a size in bytes."""
    plain = encode_records_container(
        METRICS, [{"path": "p", "sizes": [{"key": 1, "value": 2}], "bounds": [], "rows": 5}], {}
    )
    sized = _uncompressed(plain, b"\x02p\x02" + b"\x01\x04\x02\x04\x00" + b"\x00" + b"\x0a")
    assert read_wanted(sized) == [{"path": "p", "rows": 5}]


def test_any_broken_bytes_are_reported_as_a_corrupt_file() -> None:
    whole = metrics_container()
    header_ends = len(encode_records_container(METRICS, [], {}))
    for end in {*range(0, len(whole) - 1, 7)} - {header_ends}:
        with pytest.raises((CorruptTableError, UnsupportedTableError)):
            read_wanted(whole[:end])
    chance = random.Random(7)
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(3):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            read_wanted(bytes(broken))
        except (CorruptTableError, UnsupportedTableError):
            continue


def _uncompressed(container: bytes, block: bytes) -> bytes:
    """The container with `block`, one record, in place of its own, and no compression."""
    body = BytesIO()
    fastavro.writer(body, METRICS, [], codec="null")
    header = body.getvalue()
    assert header[:4] == container[:4]
    sync = header[-16:]
    return header + b"\x02" + bytes([len(block) << 1]) + block + sync
