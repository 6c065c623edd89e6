"""Every type a table can store, through creating and merging, and files of other writers."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.hudi.file_group.create_handle import create_base_files
from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.file_group.merge_handle import merge_base_file
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.table.schema import META_COLUMNS, without_meta_fields
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.fixtures import fixture_table
from tideline.testing.handle_case import FIRST, HandleCase, handle_input

UTC_TIME = pa.timestamp("us", "UTC")
ITEM = pa.struct([("sku", pa.string()), ("qty", pa.int32())])
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "", "é😀", None]),
    "large_text": (pa.large_string(), ["a", "b", None, "a"]),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["x", None, "x", "y"]),
    "amount": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.01"), None, Decimal(7)]),
    "precise": (pa.decimal128(30, 4), [Decimal("12345678901234567890.1234"), None, None, None]),
    "at": (
        UTC_TIME,
        [datetime(2024, 1, 5, 18, 0, 0, 123456, UTC), None, datetime(1900, 1, 1, tzinfo=UTC), None],
    ),
    "local": (pa.timestamp("us"), [datetime(2024, 1, 5), None, None, datetime(1969, 12, 31)]),
    "day": (pa.date32(), [date(2024, 2, 29), None, date(1, 1, 1), date(9999, 12, 31)]),
    "yes": (pa.bool_(), [True, False, None, True]),
    "small": (pa.int32(), [1, -1, None, 2**31 - 1]),
    "big": (pa.int64(), [2**63 - 1, -(2**63), None, 0]),
    "single": (pa.float32(), [0.5, None, float("inf"), -0.0]),
    "double": (pa.float64(), [1e300, None, float("-inf"), 0.1]),
    "raw": (pa.binary(), [b"\x00\xff", b"", None, b"x"]),
    "fixed": (pa.binary(3), [b"abc", None, b"\x00\x00\x00", b"xyz"]),
    "words": (pa.list_(pa.string()), [["a", None], [], None, ["b"]]),
    "items": (
        pa.list_(ITEM),
        [[{"sku": "s", "qty": 1}, None], None, [], [{"sku": None, "qty": 2}]],
    ),
    "counts": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], [], None, [("a", None), ("b", 2)]]),
    "place": (
        pa.struct([("city", pa.string()), ("geo", pa.struct([("lat", pa.float64())]))]),
        [{"city": "x", "geo": {"lat": 1.5}}, None, {"city": None}, {"geo": {"lat": None}}],
    ),
}  # fmt: skip
SCHEMA = pa.schema(
    [pa.field("id", pa.string()), *(pa.field(name, kind) for name, (kind, _) in COLUMNS.items())]
)


def rows(ids: list[str], shift: int = 0) -> pa.Table:
    """One row per id, with the sample values rotated by `shift`."""
    arrays = [pa.array(ids, pa.string())]
    for kind, samples in COLUMNS.values():
        arrays.append(pa.array([samples[(n + shift) % 4] for n in range(len(ids))], kind))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def test_every_type_survives_creating_and_merging() -> None:
    case = HandleCase.of(SCHEMA)
    ids = [f"k{number}" for number in range(8)]
    (base,) = case.create(rows(ids), batch_rows=3)
    assert case.rows(base) == rows(ids).to_pylist()
    incoming = rows(["k1", "k6", "n1", "k3"], shift=1)
    stat = case.merge(base, incoming, deletes=[False, False, False, True])
    case.check(stat, MarkerKind.MERGE)
    expected = {row["id"]: row for row in rows(ids).to_pylist()}
    expected |= {row["id"]: row for row in incoming.to_pylist()}
    del expected["k3"]
    assert case.rows(stat) == list(expected.values())


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_updated_alone_and_the_others_stay(name: str) -> None:
    case = HandleCase.of(SCHEMA, partial_update_columns=(name,))
    (base,) = case.create(rows(["a", "b"]))
    stat = case.merge(base, rows(["b"], shift=2))
    expected = rows(["a", "b"]).to_pylist()
    expected[1][name] = rows(["b"], shift=2).to_pylist()[0][name]
    assert case.rows(stat) == expected


def test_list_and_map_columns_have_the_standard_layout() -> None:
    case = HandleCase.of(SCHEMA)
    (base,) = case.create(rows(["a"]))
    metadata = case.metadata(base)
    paths = {metadata.schema.column(n).path for n in range(metadata.num_columns)}
    assert {"words.list.element", "items.list.element.sku", "counts.key_value.key"} <= paths
    at = metadata.schema.column(metadata.schema.names.index("at"))
    logical = json.loads(at.logical_type.to_json())
    assert (logical["isAdjustedToUTC"], logical["timeUnit"]) == (True, "microseconds")


@pytest.mark.parametrize(
    ("kind", "lower", "higher"),
    [
        (pa.int32(), -1, 1),
        (pa.float64(), 1.5, float("nan")),
        (pa.string(), "a", "b"),
        (pa.bool_(), False, True),
        (pa.date32(), date(2024, 1, 1), date(2024, 1, 2)),
        (UTC_TIME, datetime(1960, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.decimal128(10, 2), Decimal("1.10"), Decimal("10.00")),
        (pa.binary(), b"a", b"b"),
    ],
)  # fmt: skip
def test_every_ordering_type_keeps_the_higher_value(
    kind: pa.DataType, lower: Any, higher: Any
) -> None:
    schema = pa.schema([("id", pa.string()), ("order", pa.struct([("by", kind)]))])

    def row_of(value: Any) -> pa.Table:
        return pa.Table.from_pylist([{"id": "a", "order": {"by": value}}], schema)

    for stored, incoming, updates in ((lower, higher, 1), (higher, lower, 0), (higher, higher, 1)):
        case = HandleCase.of(
            schema, merge_mode=MergeMode.EVENT_TIME_ORDERING, ordering_fields=("order.by",)
        )
        (base,) = case.create(row_of(stored))
        assert case.merge(base, row_of(incoming)).num_update_writes == updates


def test_files_with_two_level_lists_and_other_time_units_are_read() -> None:
    schema = pa.schema(
        [("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("words", pa.list_(pa.string()))]
    )
    case = HandleCase.of(schema)
    (base,) = case.create(
        pa.table({"id": ["a", "b"], "at": pa.array([None, None], schema.field("at").type),
                  "words": pa.array([None, None], schema.field("words").type)})
    )  # fmt: skip
    meta = case.read(base).select(list(META_COLUMNS))
    moment = datetime(2024, 1, 5, 1, 2, 3, tzinfo=UTC)
    foreign = pa.table(
        {
            **{name: meta[name] for name in META_COLUMNS},
            "words": pa.array([["x"], ["y", "z"]], pa.list_(pa.field("array", pa.string(), False))),
            "at": pa.array([moment, moment + timedelta(days=1)], pa.timestamp("ns")),
            "id": pa.array(["a", "b"]),
        }
    )
    with case.store.open_writer(base.path or "") as stream:
        pq.write_table(
            foreign, stream, use_deprecated_int96_timestamps=True, use_compliant_nested_type=False
        )
    stat = case.merge(
        base,
        pa.table(
            {"id": ["c"], "at": pa.array([moment], schema.field("at").type), "words": [["n"]]}
        ),
    )
    case.check(stat, MarkerKind.MERGE)
    assert case.rows(stat) == [
        {"id": "a", "at": moment, "words": ["x"]},
        {"id": "b", "at": moment + timedelta(days=1), "words": ["y", "z"]},
        {"id": "c", "at": moment, "words": ["n"]},
    ]


def hudi_base_files(table: str) -> list[tuple[Path, BaseFile]]:
    folder = fixture_table(table)
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        partition = "" if path.parent == folder else path.parent.relative_to(folder).as_posix()
        file = BaseFile.parse(partition, path.name)
        if file is not None and not partition.startswith(".hoodie"):
            found.append((path, file))
    return found


@pytest.mark.fixtures
@pytest.mark.parametrize(
    "table",
    [
        "hudi-trino.hudi_comprehensive_types_v6_mor/data/hudi_comprehensive_types_v6_mor",
        "hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned",
        "hudi-rs.trips-mor-avro.v6_trips_8i1u/data/v6_trips_8i1u",
    ],
)
def test_files_hudi_wrote_are_merged_without_changing_a_copied_row(table: str) -> None:
    files = hudi_base_files(table)
    assert files
    for path, file in files:
        before = pq.ParquetFile(path).read()
        schema = without_meta_fields(before.schema)
        case = HandleCase.of(schema)
        case.partition = file.partition
        case.store.put(file.path, path.read_bytes())
        first = before.slice(0, 1)
        deleted = handle_input(first.drop_columns(list(META_COLUMNS)).append_column(
            "key", first[RECORD_KEY]), key="key", deletes=[True])  # fmt: skip
        case.advance()
        (stat,) = merge_base_file(case.ctx, case.store, file, deleted)
        case.check(stat, MarkerKind.MERGE)
        kept = before.slice(1).drop_columns(["_hoodie_file_name"]).to_pylist()
        assert case.read(stat).drop_columns(["_hoodie_file_name"]).to_pylist() == kept
        old = pq.ParquetFile(path).metadata.metadata
        assert b"org.apache.hudi.bloomfilter" in old


def test_wide_rows_are_streamed_in_small_batches() -> None:
    schema = pa.schema([("id", pa.string()), ("blob", pa.binary())])
    case = HandleCase.of(schema, rolls=False)
    blob = np.random.default_rng(0).bytes(1 << 20)
    table = pa.table({"id": [f"k{n}" for n in range(150)], "blob": [blob] * 150})
    (base,) = case.create(table, batch_rows=10)
    stat = case.merge(base, table.slice(0, 1))
    assert case.metadata(stat).num_row_groups > 1
    assert case.metadata(stat).num_rows == 150


def test_a_file_created_and_merged_twice_at_one_instant_is_the_same_but_for_time() -> None:
    bodies = []
    for _ in range(2):
        case = HandleCase.of(SCHEMA)
        (base,) = create_base_files(
            case.ctx, case.store, "p", "f", handle_input(rows(["a", "b"])).to_batches()
        )
        bodies.append(case.store.get(base.path or ""))
    assert bodies[0] == bodies[1]
    assert InstantTime(str(FIRST)) == case.ctx.instant
