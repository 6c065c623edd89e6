"""Merges that copy bytes: the file is the one that taking every column apart would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import shake_256
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tideline.hudi.file_group.base_file_writer import file_encoding
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.parquet.sink import EncodedSink
from tideline.testing.handle_case import HandleCase

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("weight", pa.float64()),
        ("price", pa.decimal128(20, 2)),
        ("when", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("sizes", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("x", pa.float32()), ("names", pa.list_(pa.string()))])),
        ("n", pa.int32()),
        ("body", pa.string()),
    ]
)
UPDATED = ("n", "place")
NEVER = 1 << 60

Row = dict[str, Any]
Incoming = tuple[list[Row], list[bool]]

_texts = st.sampled_from(["", "a", "bb", "längere Zeichen", "x" * 300])
_values: dict[str, st.SearchStrategy[Any]] = {
    "ts": st.none() | st.integers(0, 3),
    "text": st.none() | _texts,
    "weight": st.none() | st.floats(),
    "price": st.none() | st.integers(-(10**19), 10**19).map(lambda n: Decimal(n) / 100),
    "when": st.none() | st.integers(-(2**50), 2**50),
    "day": st.none() | st.integers(-100_000, 100_000),
    "flag": st.none() | st.booleans(),
    "raw": st.none() | st.binary(max_size=3),
    "tags": st.none() | st.lists(st.none() | _texts, max_size=3),
    "sizes": st.none() | st.lists(st.tuples(_texts, st.none() | st.integers(0, 9)), max_size=2),
    "place": st.none()
    | st.fixed_dictionaries(
        {"x": st.none() | st.just(1.5), "names": st.none() | st.lists(_texts, max_size=2)}
    ),
    "n": st.none() | st.integers(0, 3),
}


def with_body(row: Row) -> Row:
    """With a column that is most of a file, because its values cannot be compressed."""
    seed = f"{row['id']} {row['ts']}".encode()
    return {**row, "body": shake_256(seed).hexdigest(400)}


_keys = st.integers(0, 20).map(lambda number: f"k{number:03d}")
_whole = st.fixed_dictionaries({"id": _keys, **_values}).map(with_body)
_narrow = st.fixed_dictionaries(
    {"id": _keys, **{name: st.none() for name in _values}, "ts": _values["ts"], "n": _values["n"]}
)
_deletes = st.sampled_from([False] * 4 + [True])


@dataclass(frozen=True, slots=True)
class Way:
    """How incoming rows meet stored ones."""

    settings: Mapping[str, Any]
    rows: st.SearchStrategy[Row]


_BY_TIME: dict[str, Any] = {
    "merge_mode": MergeMode.EVENT_TIME_ORDERING,
    "ordering_fields": ("ts",),
}
_SOME: dict[str, Any] = {"partial_update_columns": UPDATED}
_NULLS: dict[str, Any] = {"partial": PartialUpdates(PartialUpdateMode.IGNORE_DEFAULTS)}
WAYS = {
    "whole rows": Way({}, _whole),
    "some columns": Way(_SOME, _whole),
    "some columns by time": Way({**_SOME, **_BY_TIME}, _whole),
    "nulls are filled up": Way(_NULLS, _narrow),
    "nulls are filled up by time": Way({**_NULLS, **_BY_TIME}, _narrow),
    "appended": Way({"merges_inserts": False}, _whole),
}


@dataclass(frozen=True, slots=True)
class File:
    """A base file as it was written."""

    stat: WriteStat
    rows: pa.Table
    metadata: pq.FileMetaData

    @property
    def may_hold_copies(self) -> bool:
        return bool(self.metadata.created_by.startswith("tideline version"))

    @property
    def group_rows(self) -> list[int]:
        numbers = range(self.metadata.num_row_groups)
        return [self.metadata.row_group(number).num_rows for number in numbers]


def files(
    way: str, stored: list[Row], writes: Sequence[Incoming], parquet: ParquetSettings
) -> list[File]:
    """The file that each write leaves."""
    case = HandleCase.of(SCHEMA, parquet=parquet, **WAYS[way].settings)
    (stat,) = case.create(pa.Table.from_pylist(stored, SCHEMA))
    found = []
    for rows, deletes in writes:
        stat = case.merge(stat, pa.Table.from_pylist(rows, SCHEMA), deletes=deletes)
        found.append(File(stat, case.read(stat), case.metadata(stat)))
    return found


def check_statistics(file: File, parquet: ParquetSettings) -> None:
    """Those of each row group are the ones that it gets when its rows are encoded."""
    first = 0
    for number, rows in enumerate(file.group_rows):
        body = BytesIO()
        sink = EncodedSink(body, file_encoding(parquet))
        sink.write(file.rows.slice(first, rows))
        sink.finish({})
        wanted = pq.read_metadata(body).row_group(0)
        found = file.metadata.row_group(number)
        for leaf in range(wanted.num_columns):
            assert found.column(leaf).path_in_schema == wanted.column(leaf).path_in_schema
            assert found.column(leaf).statistics == wanted.column(leaf).statistics
            assert not found.column(leaf).has_offset_index
        first += rows


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    way=st.sampled_from(sorted(WAYS)),
    stored=st.lists(_whole, min_size=1, max_size=30),
    data=st.data(),
    group_rows=st.sampled_from([3, 8, 40, 1000]),
    is_sorted=st.booleans(),
)
def test_any_merge_gives_what_encoding_every_column_gives(
    way: str, stored: list[Row], data: st.DataObject, group_rows: int, is_sorted: bool
) -> None:
    """Keys may be stored twice."""
    drawn = st.lists(st.tuples(WAYS[way].rows, _deletes), max_size=8)
    writes = [
        ([row for row, _ in pairs], [deletes for _, deletes in pairs])
        for pairs in data.draw(st.lists(drawn, min_size=1, max_size=3))
    ]
    if is_sorted:
        stored = sorted(stored, key=lambda row: str(row["id"]))
    copying = ParquetSettings(copied_bytes_min=0, row_group_rows_max=group_rows)
    encoding = replace(copying, copied_bytes_min=NEVER)
    found = files(way, stored, writes, copying)
    for file, wanted in zip(found, files(way, stored, writes, encoding), strict=True):
        # repr: NaN is no equal of itself.
        assert repr(file.rows.to_pylist()) == repr(wanted.rows.to_pylist())
        assert file.rows.schema == wanted.rows.schema
        assert file.metadata.schema.equals(wanted.metadata.schema)
        assert file.metadata.metadata == wanted.metadata.metadata
        assert without_sizes(file.stat) == without_sizes(wanted.stat)
        assert not wanted.may_hold_copies
        check_statistics(file, copying)


def without_sizes(stat: WriteStat) -> WriteStat:
    return replace(stat, runtime_stats=None, file_size_in_bytes=0, total_write_bytes=0)
