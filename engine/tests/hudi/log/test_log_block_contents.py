"""Contents of log blocks: those Hudi wrote are read and made again, byte for byte."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import ConfigError, CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.formats.log_block import (
    BlockFrame,
    BlockKind,
    HeaderKey,
    encode_block,
    rollback_command_block,
)
from tideline.hudi.log.data_block import decode_data_block, encode_data_block
from tideline.hudi.log.delete_block import DeleteRecords, decode_delete_block, encode_delete_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.avro_schema import arrow_to_avro
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.fixtures import FIXTURES, fixture_table
from tideline.testing.log_blocks import blocks_of, content_of, frames_of

NOW = InstantTime("20250101000000000")
V6 = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
DELETED = "2023-01-01/.f39018aa-f1f2-48a2-8896-71deccec77d3-0_20250922132205093.log.1_0-249-288"
CORRUPT_TAIL = "hudi-rs.trips-mor-avro.table_corrupt_tail_block/data/table_corrupt_tail_block"

TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("small", pa.int32()),
        ("large", pa.int64()),
        ("ratio", pa.float32()),
        ("exact", pa.float64()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("fixed", pa.binary(3)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("milli", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("clock", pa.time64("us")),
        ("clock_ms", pa.time32("ms")),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 6)),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("counts", pa.map_(pa.string(), pa.field("value", pa.decimal128(4, 1)))),
        (
            "place",
            pa.struct(
                [
                    pa.field("seen", pa.timestamp("us", "UTC")),
                    pa.field("deep", pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))),
                ]
            ),
        ),
    ]
)


@cache
def hudi_tables() -> tuple[str, ...]:
    file = FIXTURES / "expected.json"
    if not file.is_file():
        return ()
    tables = json.loads(file.read_text(encoding="utf-8"))["tables"]
    return tuple(
        path
        for path, entry in tables.items()
        if entry.get("format") == "hudi"
        and entry.get("table_type") == "MERGE_ON_READ"
        and entry.get("table_version") in ("6", "8", "9")
        and "core-testdata" not in path
    )


def instant_of(frame: BlockFrame) -> InstantTime:
    return InstantTime(frame.headers[HeaderKey.INSTANT_TIME])


def test_parquet_blocks_say_that_dates_are_gregorian_and_old_ones_are_refused() -> None:
    rows = pa.table({"id": ["a"], "day": [date(1500, 1, 1)]})
    avro = schema_json(rows.schema)
    block = encode_data_block(LogFormat.PARQUET, rows, avro, NOW)
    content = content_of(block)
    entries = pq.read_metadata(pa.BufferReader(content)).metadata
    assert entries[b"org.apache.spark.version"] == b"3.5.0"
    assert decode_data_block(BlockKind.PARQUET_DATA, content, avro).equals(rows)
    old = BytesIO()
    with pq.ParquetWriter(old, rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"org.apache.spark.version": "2.4.8"})
    with pytest.raises(UnsupportedTableError, match=r"column day .*path=a.log"):
        decode_data_block(BlockKind.PARQUET_DATA, old.getvalue(), avro, path="a.log")


def schema_json(schema: pa.Schema) -> str:
    return json.dumps(arrow_to_avro(schema, name="t_record", namespace="hoodie.t"))


def some_rows() -> pa.Table:
    moment = datetime(2024, 2, 29, 12, 30, 1, 250_000, tzinfo=UTC)
    full: dict[str, Any] = {
        "id": "k1",
        "small": -5,
        "large": 2**62,
        "ratio": 1.5,
        "exact": -2.25,
        "flag": True,
        "raw": b"\0\xff",
        "fixed": b"abc",
        "day": date(1969, 12, 31),
        "moment": moment,
        "milli": moment,
        "local": moment.replace(tzinfo=None),
        "clock": time(1, 2, 3, 4),
        "clock_ms": time(1, 2, 3, 4000),
        "price": Decimal("-12345678.90"),
        "wide": Decimal("-1.000001"),
        "tags": ["a", None, ""],
        "counts": {"x": Decimal("-0.1"), "y": None},
        "place": {"seen": moment, "deep": {"k": {"n": 1}, "m": {}}},
    }
    empty: dict[str, Any] = dict.fromkeys(TYPES.names)
    other = {**full, "id": "k3", "price": Decimal("0.00"), "tags": [], "counts": {}}
    other["place"] = {"seen": None, "deep": None}
    rows = [full, {**empty, "id": "k2"}, other]
    for row in rows:
        for name in ("counts",):
            row[name] = list(row[name].items()) if row[name] is not None else None
        if row["place"] and row["place"]["deep"]:
            deep = row["place"]["deep"]
            row["place"] = {
                **row["place"],
                "deep": [(key, list(inner.items())) for key, inner in dict(deep).items()],
            }
    return pa.Table.from_pylist(rows, TYPES)


@pytest.mark.fixtures
@pytest.mark.parametrize("table", hudi_tables())
def test_what_hudi_wrote_is_read_and_made_again_byte_for_byte(table: str) -> None:
    for frame, whole, content in blocks_of(fixture_table(table)):
        if frame.kind is BlockKind.CORRUPT:
            assert table == CORRUPT_TAIL
            continue
        assert encode_block(frame.kind, frame.headers, content) == whole
        schema = frame.headers.get(HeaderKey.SCHEMA, "")
        if frame.kind is BlockKind.AVRO_DATA:
            rows = decode_data_block(frame.kind, content, schema)
            made = encode_data_block(LogFormat.AVRO, rows, schema, instant_of(frame))
            assert content_of(made) == content
        elif frame.kind is BlockKind.PARQUET_DATA:
            rows = decode_data_block(frame.kind, content, schema)
            assert rows.num_rows > 0
            made = encode_data_block(LogFormat.PARQUET, rows, schema, instant_of(frame))
            names = [item["name"] for item in json.loads(schema)["fields"]]
            assert decode_data_block(frame.kind, content_of(made), schema).column_names == names
        elif frame.kind is BlockKind.DELETE:
            (deleted,) = decode_delete_block(content)
            partition = deleted.partitions[0].as_py()
            made = encode_delete_block(
                deleted.keys, partition, deleted.ordering, instant_of(frame), schema
            )
            assert content_of(made) == content
        elif frame.kind is BlockKind.COMMAND:
            target = frame.headers[HeaderKey.TARGET_INSTANT_TIME]
            made = rollback_command_block(str(instant_of(frame)), target)
            assert frames_of(made)[0].headers == frame.headers
            assert len(made) == len(whole)


@pytest.mark.fixtures
def test_the_delete_block_taken_apart_by_hand_reads_so() -> None:
    body = (fixture_table(V6) / DELETED).read_bytes()
    (frame,) = frames_of(body)
    assert (frame.kind, frame.size_bytes) == (BlockKind.DELETE, 838)
    assert (frame.content_offset, frame.content_size_bytes) == (0x31D, 29)
    assert len(frame.headers[HeaderKey.SCHEMA]) == 719
    assert frame.headers[HeaderKey.BLOCK_IDENTIFIER] == "0,0"
    content = body[0x31D:][:29]
    (deleted,) = decode_delete_block(content)
    assert deleted == DeleteRecords(pa.array(["id1"]), pa.array(["2023-01-01"]))
    schema = frame.headers[HeaderKey.SCHEMA]
    identifier = {HeaderKey.BLOCK_IDENTIFIER: "0,0"}
    made = encode_delete_block(
        deleted.keys, "2023-01-01", (), instant_of(frame), schema, headers=identifier
    )
    assert len(made) == len(body)
    # Hudi's headers are in the order of a hash map.
    in_order = {key: frames_of(made)[0].headers[key] for key in frame.headers}
    assert encode_block(BlockKind.DELETE, in_order, content_of(made)) == body


@pytest.mark.parametrize("log_format", LogFormat)
def test_rows_of_every_type_come_back(log_format: LogFormat) -> None:
    rows = some_rows()
    schema = schema_json(TYPES)
    block = encode_data_block(log_format, rows, schema, NOW)
    kind = BlockKind.AVRO_DATA if log_format is LogFormat.AVRO else BlockKind.PARQUET_DATA
    back = decode_data_block(kind, content_of(block), schema)
    assert back.to_pylist() == rows.to_pylist()
    assert back.column_names == rows.column_names
    sliced = encode_data_block(log_format, rows.slice(1, 2), schema, NOW)
    back = decode_data_block(kind, content_of(sliced), schema)
    assert back.to_pylist() == rows.slice(1, 2).to_pylist()


@pytest.mark.parametrize("log_format", LogFormat)
def test_only_the_columns_asked_for_are_made(log_format: LogFormat) -> None:
    schema = schema_json(TYPES)
    block = encode_data_block(log_format, some_rows(), schema, NOW)
    kind = BlockKind.AVRO_DATA if log_format is LogFormat.AVRO else BlockKind.PARQUET_DATA
    back = decode_data_block(kind, content_of(block), schema, ["price", "id", "unknown"])
    assert back.column_names == ["id", "price"]


@pytest.mark.parametrize("log_format", LogFormat)
def test_a_block_may_have_no_rows(log_format: LogFormat) -> None:
    schema = schema_json(TYPES)
    block = encode_data_block(log_format, some_rows().slice(0, 0), schema, NOW)
    kind = BlockKind.AVRO_DATA if log_format is LogFormat.AVRO else BlockKind.PARQUET_DATA
    assert decode_data_block(kind, content_of(block), schema).num_rows == 0


def test_rows_are_brought_to_the_schema_of_the_block_by_name() -> None:
    schema = schema_json(pa.schema([("id", pa.string()), ("n", pa.int64())]))
    rows = pa.table({"n": pa.array([1], pa.int32()), "id": pa.array(["a"]).dictionary_encode()})
    block = encode_data_block(LogFormat.PARQUET, rows, schema, NOW)
    back = decode_data_block(BlockKind.PARQUET_DATA, content_of(block), schema)
    assert back.schema.field("n").type == pa.int64()
    with pytest.raises(InvalidDataError, match=r"lack columns.*n"):
        encode_data_block(LogFormat.AVRO, rows.select(["id"]), schema, NOW)


def test_contents_that_cannot_be_read_are_corrupt_naming_the_file() -> None:
    schema = schema_json(TYPES)
    block = content_of(encode_data_block(LogFormat.AVRO, some_rows(), schema, NOW))
    for damaged in (block[:-1], block[:9] + b"\xff" + block[10:]):
        with pytest.raises(CorruptTableError, match="path=the file"):
            decode_data_block(BlockKind.AVRO_DATA, damaged, schema, path="the file")
    with pytest.raises(CorruptTableError, match="path=the file"):
        decode_data_block(BlockKind.PARQUET_DATA, b"PAR1", schema, path="the file")
    with pytest.raises(CorruptTableError, match="path=the file"):
        decode_data_block(BlockKind.HFILE_DATA, b"HFILE", schema, path="the file")
    with pytest.raises(UnsupportedTableError, match="CDC_DATA"):
        decode_data_block(BlockKind.CDC_DATA, b"", schema, path="the file")


def test_hfile_blocks_are_not_written() -> None:
    assert LogFormat.parse(" Parquet ") is LogFormat.PARQUET
    with pytest.raises(ConfigError, match="avro or parquet"):
        LogFormat.parse("hfile")


@pytest.mark.parametrize(
    ("ordering", "read"),
    [
        (pa.array([True]), pa.array([True])),
        (pa.array([7], pa.int32()), pa.array([7], pa.int32())),
        (pa.array([7]), pa.array([7])),
        (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float32())),
        (pa.array([1.5]), pa.array([1.5])),
        (pa.array([b"\1"]), pa.array([b"\1"])),
        (pa.array(["z"]), pa.array(["z"])),
        (pa.array([date(2024, 1, 1)]), pa.array([date(2024, 1, 1)])),
        (
            pa.array([Decimal("-128.00")]),
            pa.array([Decimal("-128.000000000000000")], pa.decimal128(30, 15)),
        ),
        (pa.array([5], pa.timestamp("us", "UTC")), pa.array([5])),
        (pa.array([5], pa.timestamp("ms", "UTC")), pa.array([5])),
        (pa.array([5], pa.time64("us")), pa.array([5])),
        (pa.array([5], pa.time32("ms")), pa.array([5], pa.int32())),
    ],
)
def test_each_ordering_type_has_a_wrapper(ordering: pa.Array, read: pa.Array) -> None:
    block = encode_delete_block(pa.array(["k"]), "p", [ordering], NOW, "{}")
    (deleted,) = decode_delete_block(content_of(block))
    assert deleted == DeleteRecords(pa.array(["k"]), pa.array(["p"]), (read,))


def test_deletes_without_an_ordering_value_get_a_block_of_their_own() -> None:
    keys = pa.array(["a", "b", "c", "d"])
    ordering = pa.array([4, None, 5, 0])
    body = encode_delete_block(keys, "", [ordering], NOW, "{}")
    blocks = [
        decode_delete_block(body[frame.content_offset :][: frame.content_size_bytes])
        for frame in frames_of(body)
    ]
    assert [[list(map(str, part.keys)) for part in parts] for parts in blocks] == [
        [["a", "c", "d"]],
        [["b"]],
    ]
    assert blocks[0][0].ordering == (pa.array([4, 5, 0]),)
    assert blocks[1][0].ordering == ()


def test_several_ordering_fields_are_kept_apart() -> None:
    ordering = [pa.array([1, 2]), pa.array(["x", "y"])]
    block = encode_delete_block(pa.array(["a", "b"]), "", ordering, NOW, "{}")
    (deleted,) = decode_delete_block(content_of(block))
    assert deleted.ordering == tuple(ordering)


def test_no_deletes_make_no_block() -> None:
    assert encode_delete_block(pa.array([], pa.string()), "", [], NOW, "{}") == b""


def test_delete_blocks_that_cannot_be_read_are_refused_naming_the_file() -> None:
    content = content_of(encode_delete_block(pa.array(["k"]), "", [], NOW, "{}"))
    for damaged in (b"", content[:-1], content + b"x", content[:8] + b"\x7f" + content[9:]):
        with pytest.raises(CorruptTableError, match="path=the file"):
            decode_delete_block(damaged, path="the file")
    with pytest.raises(UnsupportedTableError, match="value=2"):
        decode_delete_block(b"\0\0\0\2" + content[4:], path="the file")
