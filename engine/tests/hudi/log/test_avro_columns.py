"""Avro records made of columns are, byte for byte, those that fastavro makes of rows, and columns
read from records are what it reads."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, InvalidDataError
from tideline.formats import avro_column_reader, avro_columns
from tideline.formats.avro import encode_records, physical_schema
from tideline.formats.avro_column_reader import decode_columns
from tideline.formats.avro_columns import encode_framed_rows, takes
from tideline.formats.log_block import BlockKind, avro_content, split_avro_content
from tideline.hudi.file_group.meta_columns import constant_column
from tideline.hudi.log import data_block
from tideline.hudi.log.data_block import decode_avro_rows, decode_data_block, encode_data_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.avro_schema import arrow_to_avro, avro_to_arrow
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.log_blocks import content_of

NOW = InstantTime("20250101000000000")
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
FLAT: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int64(), st.integers(-70, 70)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(max_size=80)),
    (pa.binary(), st.binary(max_size=200)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates(date(1, 1, 1))),
    (pa.timestamp("us", "UTC"), TIMES.map(lambda at: at.replace(tzinfo=UTC))),
    (pa.timestamp("us"), TIMES),
    (pa.time64("us"), st.times(time(0))),
    (pa.decimal128(10, 2), st.decimals(-(10**7), 10**7, places=2)),
    (pa.decimal128(38, 6), st.decimals(-(10**20), 10**20, places=6)),
]


def nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def as_list(item: Any) -> Any:
        kind, values = item
        field = pa.field("element", kind)
        return pa.list_(field), st.lists(st.none() | values, max_size=4)

    def as_map(item: Any) -> Any:
        kind, values = item
        entries = st.dictionaries(st.text(max_size=3), st.none() | values, max_size=3)
        return pa.map_(pa.string(), pa.field("value", kind)), entries.map(lambda d: list(d.items()))

    def as_struct(items: Any) -> Any:
        fields = [pa.field(f"f{n}", kind, has) for n, ((kind, _), has) in enumerate(items)]
        values = {
            f"f{n}": (st.none() | found) if has else found
            for n, ((_, found), has) in enumerate(items)
        }
        return pa.struct(fields), st.fixed_dictionaries(values)

    members = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
    return inner.map(as_list) | inner.map(as_map) | members.map(as_struct)


KINDS = st.recursive(st.sampled_from(FLAT), nested, max_leaves=5)
COLUMNS = st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=5)


def by_fastavro(rows: pa.Table, avro: str) -> bytes:
    """The block that is made row by row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_block, "takes", lambda _: False)
        return encode_data_block(LogFormat.AVRO, rows, avro, NOW)


def avro_of(schema: pa.Schema) -> str:
    return json.dumps(arrow_to_avro(schema, name="t_record", namespace="hoodie.t"))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_some_of_any_types_are_encoded_as_fastavro_does(data: st.DataObject) -> None:
    check_encoding(data)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.data())
def test_every_type_is_encoded_as_fastavro_does(data: st.DataObject) -> None:
    check_encoding(data)


def check_encoding(data: st.DataObject) -> None:
    """Of any columns, the block and what is read of it."""
    chosen = data.draw(COLUMNS)
    schema = pa.schema([pa.field(f"c{n}", kind, has) for n, ((kind, _), has) in enumerate(chosen)])
    row = st.fixed_dictionaries(
        {
            f"c{n}": (st.none() | values) if has else values
            for n, ((_, values), has) in enumerate(chosen)
        }
    )
    rows = pa.Table.from_pylist(data.draw(st.lists(row, max_size=6)), schema)
    avro = avro_of(schema)
    assert takes(physical_schema(avro))
    first = data.draw(st.integers(0, rows.num_rows))
    for part in (rows, rows.slice(first)):
        found = encode_data_block(LogFormat.AVRO, part, avro, NOW)
        assert found == by_fastavro(part, avro)
    decoded = decode_data_block(BlockKind.AVRO_DATA, content_of(found), avro)
    assert repr(decoded.to_pylist()) == repr(rows.slice(first).to_pylist())


def test_many_rows_are_encoded_in_parts_and_constants_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(avro_columns, "_ROWS_AT_ONCE", 300)
    count = 1_000
    rows = pa.table(
        {
            "same": constant_column("20250101000000000", count),
            "n": pa.array(range(-500, 500)),
            "note": [None if n % 7 == 0 else f"é{n}" * (n % 5) for n in range(count)],
            "price": pa.array([Decimal(n) / 100 for n in range(count)], pa.decimal128(12, 2)),
        }
    )
    plain = rows.set_column(0, "same", rows["same"].cast(pa.string()))
    avro = avro_of(plain.schema)
    found = encode_data_block(LogFormat.AVRO, rows, avro, NOW)
    assert found == by_fastavro(plain, avro)
    assert found == by_fastavro(rows, avro)
    assert decode_data_block(BlockKind.AVRO_DATA, content_of(found), avro).equals(plain)


def test_a_null_where_none_may_be_is_refused() -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)])
    rows = pa.table({"id": ["a", None]})
    with pytest.raises(InvalidDataError, match=r"do not fit .*a null where the schema has string"):
        encode_data_block(LogFormat.AVRO, rows, avro_of(schema), NOW)


PAIR = {"type": "record", "name": "pair", "namespace": "a.b", "fields": [
    {"name": "x", "type": "int"}, {"name": "y", "type": ["string", "null"]}]}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ({"type": "array", "items": {"type": "fixed", "name": "f", "size": 2}}, [[b"ab"], []]),
        (["null", PAIR], [{"x": 1, "y": None}, None]),
        (["int"], [5, -5]),
        (["null"], [None, None]),
        ("null", [None, None]),
        ({"type": "long"}, [1, 2**40]),
    ],
    ids=str,
)
def test_schemas_of_others_are_encoded_as_fastavro_does(kind: Any, values: list[Any]) -> None:
    record = {"type": "record", "name": "t", "fields": [{"name": "c", "type": kind}]}
    avro = json.dumps(record)
    assert takes(avro)
    stored = avro_to_arrow(avro)
    rows = pa.Table.from_pylist([{"c": value} for value in values], stored)
    content = avro_content(rows.num_rows, encode_framed_rows(avro, rows))
    assert split_avro_content(content) == encode_records(avro, rows.to_pylist())


def test_a_type_that_is_named_again_is_known() -> None:
    fields = [{"name": "a", "type": PAIR}, {"name": "b", "type": ["null", "a.b.pair"]}]
    avro = json.dumps({"type": "record", "name": "t", "fields": fields})
    assert takes(avro)
    pair = {"x": 3, "y": "z"}
    rows = pa.Table.from_pylist([{"a": pair, "b": None}, {"a": pair, "b": pair}],
                                avro_to_arrow(avro))  # fmt: skip
    content = avro_content(2, encode_framed_rows(avro, rows))
    assert split_avro_content(content) == encode_records(avro, rows.to_pylist())


@pytest.mark.parametrize(
    "kind",
    [
        ["null", "int", "string"],
        {"type": "map", "values": "int"},
        {"type": "array", "items": ["int", "long"]},
        ["null", "t"],
    ],
    ids=str,
)
def test_what_is_left_to_fastavro(kind: Any) -> None:
    record = {"type": "record", "name": "t", "fields": [{"name": "c", "type": kind}]}
    assert not takes(json.dumps(record))


def test_a_block_of_another_schema_is_made_by_fastavro() -> None:
    avro = avro_of(pa.schema([("c", pa.string())]))
    assert by_fastavro(pa.table({"c": ["B", None]}), avro) == encode_data_block(
        LogFormat.AVRO, pa.table({"c": ["B", None]}), avro, NOW
    )


ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}


def test_symbols_are_encoded_by_their_numbers_and_others_are_refused() -> None:
    avro = json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": ENUM}]})
    content = content_of(encode_data_block(LogFormat.AVRO, pa.table({"c": ["B", "A"]}), avro, NOW))
    assert split_avro_content(content) == [b"\x02", b"\x00"]
    assert decode_avro_rows([b"\x02", b"\x00"], avro).to_pydict() == {"c": ["B", "A"]}
    with pytest.raises(InvalidDataError, match="none of the symbols"):
        encode_data_block(LogFormat.AVRO, pa.table({"c": ["C"]}), avro, NOW)
    with pytest.raises(CorruptTableError):
        decode_avro_rows([b"\x04"], avro)


def read_by_fastavro(datums: list[bytes], avro: str, **options: Any) -> pa.Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_block, "decode_columns", lambda *_: None)
        return decode_avro_rows(datums, avro, **options)


def read_as_columns(datums: list[bytes], avro: str) -> dict[str, pa.Array] | None:
    physical = physical_schema(avro)
    stored = avro_to_arrow(physical)
    return decode_columns(physical, datums, stored, stored.names)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("boolean", [True, False]),
        ("int", [0, -1, 2**31 - 1, -(2**31)]),
        ("long", [0, 63, 64, -64, -65, 2**63 - 1, -(2**63)]),
        ("float", [1.5, -0.0]),
        ("double", [1.5, float("inf")]),
        ("string", ["", "é" * 100, "\U0001f600"]),
        ("bytes", [b"", b"\xff" * 300]),
        ({"type": "fixed", "name": "f", "size": 3}, [b"abc", b"\0\0\0"]),
        (["null", "string"], ["a", None, ""]),
        (["string", "null"], [None, None]),
        (["null", PAIR], [{"x": 1, "y": None}, None, {"x": -5, "y": "z"}]),
        (PAIR, [{"x": 1, "y": "a"}, {"x": 2, "y": None}]),
        (["null", ENUM], ["B", None, "A"]),
        ("null", [None, None]),
        (["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
         [Decimal("1.25"), None]),
        ({"type": "array", "items": "long"}, [[], [1, -70, 2**40], [5] * 300]),
        ({"type": "array", "items": ["null", "string"]}, [["a", None, ""], [], [None]]),
        (["null", {"type": "array", "items": {"type": "array", "items": "double"}}],
         [[[1.5], [], [2.5, 3.5]], None, [], [[]]]),
        ({"type": "array", "items": PAIR},
         [[{"x": 1, "y": "a"}, {"x": 2, "y": None}], [], [{"x": -5, "y": "z"}]]),
        (["null", {"type": "array", "items": ENUM}], [["B", "A"], None, ["A"]]),
        ({"type": "array", "items": {"type": "fixed", "name": "f", "size": 3}}, [[b"abc"], []]),
        ({"type": "array", "items": "boolean"}, [[True, False], [], [False]]),
    ],
    ids=str,
)  # fmt: skip
def test_records_are_read_as_columns(kind: Any, values: list[Any]) -> None:
    fields = [
        {"name": "before", "type": "string"},
        {"name": "c", "type": kind},
        {"name": "behind", "type": ["null", "long"]},
    ]
    avro = json.dumps({"type": "record", "name": "t", "fields": fields})
    rows = [
        {"before": "x" * n, "c": value, "behind": n or None} for n, value in enumerate(values * 3)
    ]
    datums = encode_records(avro, rows)
    assert read_as_columns(datums, avro) is not None
    found = decode_avro_rows(datums, avro)
    assert found.to_pylist() == rows
    assert found.equals(read_by_fastavro(datums, avro))
    some = decode_avro_rows(datums, avro, ["BEHIND"])
    assert some.equals(read_by_fastavro(datums, avro, columns=["BEHIND"]))


def test_maps_are_read_as_columns() -> None:
    kind = pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", pa.int64()))))
    schema = pa.schema([pa.field("c", kind)])
    rows = [{"c": [("a", [1, None]), ("b", None)]}, {"c": None}, {"c": []}, {"c": [("", [])]}]
    avro = avro_of(schema)
    datums = split_avro_content(
        content_of(encode_data_block(LogFormat.AVRO, pa.Table.from_pylist(rows, schema), avro, NOW))
    )
    assert read_as_columns(datums, avro) is not None
    assert decode_avro_rows(datums, avro).to_pylist() == rows
    assert decode_avro_rows(datums, avro).equals(read_by_fastavro(datums, avro))


NUMBERS = json.dumps(
    {"type": "record", "name": "t", "fields": [
        {"name": "c", "type": {"type": "array", "items": "int"}}, {"name": "n", "type": "int"}]}
)  # fmt: skip


def test_arrays_of_several_blocks_with_and_without_their_bytes() -> None:
    datums = [
        # Two items, one, and the end; then the number behind the array.
        b"\x04\x02\x04\x02\x06\x00\x0e",
        # Two in two bytes, one.
        b"\x03\x04\x02\x04\x02\x06\x00\x0e",
        b"\x00\x0e",
    ]
    assert read_as_columns(datums, NUMBERS) is not None
    found = decode_avro_rows(datums, NUMBERS)
    assert found.to_pydict() == {"c": [[1, 2, 3], [1, 2, 3], []], "n": [7, 7, 7]}
    assert found.equals(read_by_fastavro(datums, NUMBERS))


def test_arrays_of_very_many_items_and_of_nothing_are_left_to_fastavro(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = encode_records(NUMBERS, [{"c": list(range(30)), "n": 1}, {"c": [], "n": 2}])
    assert read_as_columns(many, NUMBERS) is not None
    monkeypatch.setattr(avro_column_reader, "_ROUNDS_MAX", 29)
    assert read_as_columns(many, NUMBERS) is None
    assert decode_avro_rows(many, NUMBERS).to_pydict() == {"c": [list(range(30)), []], "n": [1, 2]}
    nothing = json.loads(NUMBERS)
    nothing["fields"][0]["type"]["items"] = "null"
    stored = pa.schema([("c", pa.list_(pa.null())), ("n", pa.int32())])
    for number in (b"\x02", b"\xfe\xff\xff\xff\x0f"):
        datums = [number + b"\x00\x02"]
        assert decode_columns(json.dumps(nothing), datums, stored, stored.names) is None


BROKEN = json.dumps(
    {
        "type": "record",
        "name": "t",
        "fields": [
            {"name": "a", "type": ["null", "string"]},
            {"name": "b", "type": "long"},
            {"name": "c", "type": ["null", "double"]},
            {"name": "d", "type": ["null", PAIR]},
            {"name": "e", "type": ["null", "int"]},
            {"name": "f", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
            {"name": "g", "type": {"type": "array", "items": {"type": "array", "items": "int"}}},
        ],
    }
)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_is_broken_is_what_fastavro_finds_broken(data: st.DataObject) -> None:
    row = {"a": "text", "b": -(2**40), "c": 1.5, "d": {"x": 300, "y": "z"}, "e": 7}
    row |= {"f": ["a", None, "bc"], "g": [[1, 200], []]}
    whole = encode_records(BROKEN, [row, {**row, "a": None, "d": None}])
    broken = [bytearray(datum) for datum in whole]
    for _ in range(data.draw(st.integers(1, 3))):
        datum = broken[data.draw(st.integers(0, 1))]
        if datum and data.draw(st.booleans()):
            datum[data.draw(st.integers(0, len(datum) - 1))] = data.draw(st.integers(0, 255))
        elif data.draw(st.booleans()):
            del datum[data.draw(st.integers(0, len(datum))) :]
        else:
            datum += data.draw(st.binary(max_size=3))
    datums = [bytes(datum) for datum in broken]
    for are_strangers in (False, True):
        try:
            expected = repr(
                read_by_fastavro(datums, BROKEN, are_strangers=are_strangers).to_pylist()
            )
        except CorruptTableError:
            with pytest.raises(CorruptTableError):
                decode_avro_rows(datums, BROKEN, are_strangers=are_strangers)
        else:
            found = decode_avro_rows(datums, BROKEN, are_strangers=are_strangers)
            assert repr(found.to_pylist()) == expected


@pytest.mark.parametrize("datum", [b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 11])
def test_numbers_of_many_bytes(datum: bytes) -> None:
    avro = json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": "long"}]})
    found = read_as_columns([datum], avro)
    assert (found is not None) == (datum[-1] == 1)
    if found is not None:
        assert found["c"].to_pylist() == [-(2**63)]
