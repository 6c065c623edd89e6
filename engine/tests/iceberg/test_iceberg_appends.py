"""Rows appended to Iceberg tables: fitted to the columns, placed, sorted, committed once."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import ConfigError, InvalidDataError, TidelineError
from tideline.iceberg.metadata.metadata_update import (
    AssertTableUuid,
    SetProperties,
    SetSnapshotRef,
)
from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS
from tideline.iceberg.metadata.table_property import OWNER
from tideline.iceberg.table.table_operations import Committed
from tideline.iceberg_lake_table import IcebergLakeTable

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("ratio", pa.float32()),
        pa.field("place", pa.struct([("zip", pa.int32()), ("names", pa.list_(pa.string()))])),
        pa.field("tags", pa.map_(pa.string(), pa.int32())),
    ]
)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def created(columns: pa.Schema = COLUMNS, **definition: Any) -> IcebergLakeTable:
    return tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns, **definition)


def rows(start: int, end: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "at": NOON + dt.timedelta(hours=7 * number),
            "name": None if number % 5 == 0 else f"n{number % 7}",
            "price": Decimal(number).scaleb(-2),
            "ratio": number / 4,
            "place": None if number % 3 == 0 else {"zip": number, "names": [str(number)]},
            "tags": [("a", number)],
        }
        for number in range(start, end)
    ]


def in_order(table: IcebergLakeTable, **chosen: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_arrow(**chosen).sort_by("id").to_pylist()
    return found


PLACEMENTS: tuple[dict[str, str], ...] = (
    {},
    {"partition_by": "day(at), bucket(3, id)"},
    {"partition_by": "name, truncate(10, id)", "sort_by": "id DESC"},
    {"partition_by": "month(at), hour(at)", "sort_by": "name NULLS LAST, ratio"},
)


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda value: str(list(value.values())))
def test_rows_are_read_as_they_were_written(placement: dict[str, str], version: int) -> None:
    table = created(format_version=version, **placement)
    first = table.write(rows(0, 40), "insert")
    assert (first.rows_inserted, first.rows_written, first.operation) == (40, 40, "append")
    table.write(pa.Table.from_pylist(rows(40, 60), COLUMNS))
    assert in_order(table) == pa.Table.from_pylist(rows(0, 60), COLUMNS).to_pylist()
    assert [snapshot.operation for snapshot in table.snapshots] == ["append", "append"]
    assert table.current_snapshot is not None
    assert table.current_snapshot.summary["total-records"] == "60"
    # A filter leaves out files by the partitions and metrics that were written.
    assert table.count("id between 10 and 12") == 3
    assert table.count("at >= '2026-01-05T00:00:00Z' and name = 'n3'") == sum(
        row["at"] >= dt.datetime(2026, 1, 5, tzinfo=dt.UTC) and row["name"] == "n3"
        for row in rows(0, 60)
    )


def test_row_ids_continue_from_commit_to_commit() -> None:
    table = created(format_version=3)
    table.write(rows(0, 5))
    table.write(rows(5, 12))
    assert table.metadata.next_row_id == 12
    assert [(found.first_row_id, found.added_rows) for found in table.snapshots] == [(0, 5), (5, 7)]


def test_each_file_is_sorted_and_says_so(tmp_path: Path) -> None:
    table = tideline.create_iceberg(
        str(tmp_path / "t"), COLUMNS, partition_by="bucket(2, id)", sort_by="name, id DESC"
    )
    table.write(rows(0, 50))
    files = sorted((tmp_path / "t" / "data").rglob("*.parquet"))
    assert len(files) == 2
    for path in files:
        found = pq.read_table(path)
        keys = [(row["name"] or "", -row["id"]) for row in found.to_pylist()]
        assert keys == sorted(keys)


def test_files_end_at_the_target_size_and_partitions_share_none(tmp_path: Path) -> None:
    table = tideline.create_iceberg(str(tmp_path / "t"), pa.schema([("id", pa.int64())]))
    options = {
        "write.target-file-size-bytes": "20000",
        "write.parquet.compression-codec": "uncompressed",
        "write.parquet.dict-size-bytes": "1",
    }
    table.write(pa.table({"id": range(20_000)}), options=options)
    sizes = table.files()["size_bytes"].to_pylist()
    assert len(sizes) > 3
    assert max(sizes) < 60_000
    assert table.count() == 20_000


GIVEN: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda found: found,
    "batch": lambda found: found.combine_chunks().to_batches()[0],
    "reader": lambda found: found.to_reader(max_chunksize=7),
    "dataset": ds.dataset,
    "pandas": lambda found: found.to_pandas(),
    "other columns' order": lambda found: found.select(["id", "name"][::-1]),
    "views": lambda found: found.set_column(1, "name", found["name"].cast(pa.string_view())),
    "dictionary": lambda found: found.set_column(1, "name", found["name"].dictionary_encode()),
    "narrower": lambda found: found.set_column(0, "id", found["id"].cast(pa.int16())),
    "unsigned": lambda found: found.set_column(0, "id", found["id"].cast(pa.uint64())),
}


@pytest.mark.parametrize("given", GIVEN)
def test_rows_come_in_many_forms(given: str) -> None:
    if given == "pandas":
        pytest.importorskip("pandas")
    table = created(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    found = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"n{n}" for n in range(20)]})
    assert table.write(GIVEN[given](found)).rows_inserted == 20
    assert in_order(table) == found.to_pylist()


def test_another_table_is_written_as_it_is_read() -> None:
    source = created()
    source.write(rows(0, 10))
    table = created(partition_by="bucket(2, id)")
    table.write(source)
    assert in_order(table) == in_order(source)


MISFITS = (
    ({"id": [1], "colour": ["red"]}, "no such column"),
    ({"id": pa.array([1.0])}, "is long in the table, not double"),
    ({"id": pa.array([2**63], pa.uint64())}, "do not fit long"),
    ({"ratio": pa.array([1.5], pa.float64())}, "is float in the table"),
    ({"name": pa.array([1])}, "is string in the table"),
    ({"price": pa.array([Decimal("1.234")])}, "do not fit decimal"),
    ({"at": pa.array([NOON.replace(tzinfo=None)])}, "is timestamptz in the table"),
    ({"at": pa.array([1], pa.timestamp("ns", "UTC"))}, "do not fit timestamptz"),
    ({"place": pa.array([{"town": "x"}])}, "no such column"),
    ({"place": pa.array([{"zip": "x"}])}, "place.zip is int"),
    ({"tags": pa.array([[1]])}, "tags is map"),
)


@pytest.mark.parametrize(("columns", "said"), MISFITS, ids=[said for _, said in MISFITS])
def test_what_does_not_fit_is_named_and_leaves_nothing(columns: Any, said: str) -> None:
    table = created()
    with pytest.raises(InvalidDataError, match=said) as caught:
        table.write(pa.table(columns))
    assert caught.value.table == table.uri
    assert table.refresh().current_snapshot is None
    assert not list(table.table.io.list(f"{table.uri}/data"))


def test_required_columns_have_values_at_any_depth() -> None:
    inner = pa.struct([pa.field("zip", pa.int32(), nullable=False)])
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("place", inner)])
    table = created(columns)
    for given in (
        pa.table({"place": pa.array([{"zip": 1}])}),
        pa.table({"id": pa.array([None], pa.int64())}),
        pa.table({"id": [1], "place": pa.array([{"zip": None}], pa.struct([("zip", pa.int32())]))}),
    ):
        with pytest.raises(InvalidDataError, match="required column"):
            table.write(given)
    table.write(pa.table({"id": [1, 2], "place": pa.array([None, {"zip": 2}])}))
    assert in_order(table) == [{"id": 1, "place": None}, {"id": 2, "place": {"zip": 2}}]


REQUIRED = (pa.string(), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()),
            pa.struct([pa.field("deep", pa.int64(), nullable=False)]))  # fmt: skip


@pytest.mark.parametrize("kind", REQUIRED, ids=str)
def test_a_struct_may_be_null_where_its_members_are_required(kind: pa.DataType) -> None:
    columns = [pa.field("id", pa.int64()),
               pa.field("place", pa.struct([pa.field("inner", kind, nullable=False)]))]  # fmt: skip
    table = created(pa.schema(columns))
    inner = {"string": "x", "list": [1], "map": [("a", 1)], "struct": {"deep": 3}}
    given = next(value for name, value in inner.items() if str(kind).startswith(name))
    found = [{"id": n, "place": None if n % 2 else {"inner": given}} for n in range(9)]
    loose = pa.schema([columns[0], pa.field("place", pa.struct([pa.field("inner", kind)]))])
    table.write(pa.Table.from_pylist(found, loose).slice(2))
    assert in_order(table) == found[2:]


def test_a_stream_that_fails_leaves_no_file() -> None:
    table = created(pa.schema([("id", pa.int64())]))

    def batches() -> Any:
        yield pa.record_batch({"id": [1]})
        raise ValueError("the source has gone")

    with pytest.raises(ValueError, match="has gone"):
        table.write(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert not list(table.table.io.list(f"{table.uri}/data"))
    with pytest.raises(ConfigError, match="pyarrow, pandas"):
        table.write(7)


def published(table: IcebergLakeTable) -> None:
    """Mark the table as one that a Hudi table is published as."""
    operations = tideline.open_iceberg(table.uri).table.operations
    loaded = operations.load()
    asked = [AssertTableUuid(loaded.metadata.table_uuid)]
    assert isinstance(operations.commit(loaded, asked, [SetProperties({OWNER: "t"})]), Committed)


def test_a_table_that_is_published_from_hudi_is_not_written() -> None:
    table = created()
    published(table)
    with pytest.raises(ConfigError, match="published as this one"):
        table.write(rows(0, 1))
    assert table.refresh().current_snapshot is None


def test_a_table_that_is_published_from_hudi_while_rows_stream_is_not_written() -> None:
    columns = pa.schema([("id", pa.int64())])
    table = created(columns)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        published(table)

    with pytest.raises(ConfigError, match="published as this one"):
        table.write(pa.RecordBatchReader.from_batches(columns, batches()))
    assert table.refresh().current_snapshot is None
    assert not list(table.table.io.list(f"{table.uri}/data"))


@pytest.mark.parametrize("encoded", [False, True])
def test_text_that_is_no_utf8_is_named_and_leaves_nothing(encoded: bool) -> None:
    table = created(partition_by="id")
    text = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    name = text.dictionary_encode() if encoded else text
    with pytest.raises(InvalidDataError, match=r"column name do not fit string.*UTF8"):
        table.write(pa.table({"id": [1, 2], "name": name}))
    assert not list(table.table.io.list(f"{table.uri}/data"))


def test_a_file_without_metrics_is_left_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no metrics")

    monkeypatch.setattr("tideline.iceberg.data.data_file_writer.file_metrics", fails)
    table = created()
    with pytest.raises(ValueError, match="no metrics"):
        table.write(rows(0, 3))
    assert not list(table.table.io.list(f"{table.uri}/data"))


def inside(kind: str, *, required: bool) -> pa.DataType:
    value = pa.field("value", pa.int64(), nullable=not required)
    return pa.list_(value) if kind == "list" else pa.map_(pa.string(), value)


@pytest.mark.parametrize("kind", ["list", "map"])
def test_what_a_slice_leaves_out_is_not_looked_at(kind: str) -> None:
    columns = [("id", pa.int64()), ("found", inside(kind, required=True))]
    table = created(pa.schema(columns))

    def item(number: int | None) -> Any:
        return [number] if kind == "list" else [("a", number)]

    values = [item(None), item(2), None, item(3), item(None)]
    given = pa.table({"id": range(5), "found": pa.array(values, inside(kind, required=False))})
    table.write(given.slice(1, 3))
    assert in_order(table) == given.slice(1, 3).to_pylist()
    with pytest.raises(InvalidDataError, match="required"):
        table.write(given.slice(3))


def test_nan_is_one_partition_however_many_batches_have_it() -> None:
    columns = pa.schema([("id", pa.int64()), ("ratio", pa.float64())])
    table = created(columns, partition_by="ratio")
    batches = [pa.record_batch({"id": [n], "ratio": [math.nan]}) for n in range(5)]
    table.write(pa.RecordBatchReader.from_batches(columns, batches))
    assert (table.files().num_rows, table.count()) == (1, 5)


def test_whole_numbers_are_decimals_where_they_fit() -> None:
    columns = pa.schema([pa.field("d", pa.decimal128(9, 2))])
    table = tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns)
    for kind in (pa.int8(), pa.int64(), pa.uint64()):
        table.write(pa.table({"d": pa.array([5, None], kind)}), "overwrite")
        assert table.to_arrow()["d"].to_pylist() == [Decimal("5.00"), None]
    for value in (10_000_000, 2**64 - 1):
        with pytest.raises(InvalidDataError, match="do not fit decimal"):
            table.write(pa.table({"d": pa.array([value], pa.uint64())}))


@pytest.mark.parametrize("micros", [-1, 86_400 * 10**6])
def test_a_time_of_day_is_of_one_day(micros: int) -> None:
    columns = pa.schema([pa.field("t", pa.time64("us"))])
    table = tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns)
    rows = pa.array([micros], pa.int64()).view(pa.time64("us"))
    with pytest.raises(InvalidDataError, match="do not fit time: a time of day"):
        table.write(pa.table({"t": rows}))
    last = pa.array([86_400 * 10**6 - 1, 0, None], pa.int64()).view(pa.time64("us"))
    table.write(pa.table({"t": last}))
    assert table.to_arrow()["t"].combine_chunks().equals(last)


def test_no_rows_are_a_commit_without_files() -> None:
    table = created()
    table.write(rows(0, 2))
    empty: tuple[Any, ...] = ([], COLUMNS.empty_table())
    for nothing in empty:
        assert table.write(nothing).rows_inserted == 0
    assert (len(table.snapshots), table.count()) == (3, 2)


def test_a_token_writes_once() -> None:
    table = created()
    first = table.write(rows(0, 5), token="monday", extra_metadata={"source": "a file"})
    again = table.write(rows(0, 5), token="monday")
    assert (again.instant, again.is_repeat, again.rows_inserted) == (first.instant, True, 5)
    assert "took place already" in again.notes[0]
    table.write(rows(5, 9), token="tuesday")
    assert table.write(rows(0, 5), token="monday").is_repeat
    assert table.count() == 9
    assert table.snapshots[0].summary["source"] == "a file"
    for wrong in ({"token": ""}, {"token": "a\nb"}, {"extra_metadata": {"total-records": "7"}}):
        with pytest.raises(ConfigError):
            table.write(rows(0, 1), **wrong)


def test_a_branch_gets_the_rows_and_main_does_not() -> None:
    table = created()
    table.write(rows(0, 3))
    head = table.current_snapshot
    assert head is not None
    loaded = table.table.loaded
    moved = table.table.operations.commit(
        loaded,
        [AssertTableUuid(loaded.metadata.table_uuid)],
        [
            SetSnapshotRef("audit", SnapshotRef(head.snapshot_id, "branch")),
            SetSnapshotRef("v1", SnapshotRef(head.snapshot_id, "tag")),
        ],
    )
    assert isinstance(moved, Committed)
    table.write(rows(3, 5), branch="audit", token="t")
    assert table.count() == 3
    assert table.count(as_of="audit") == 5
    # A token is one of its branch.
    assert not table.write(rows(3, 4), token="t").is_repeat
    for name, said in (("v1", "a tag"), ("nothing", "no such branch")):
        with pytest.raises(ConfigError, match=said):
            table.write(rows(0, 1), branch=name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"write.format.default": "orc"}, "no such option"),
        ({"write.metadata.path": "s3://x"}, "no such option"),
        ({"hoodie.upsert": "1"}, "no such option"),
        ({"write.distribution-mode": "wide"}, "none or hash or range"),
        ({"write.parquet.compression-codec": "zip"}, "compression-codec"),
        ({"commit.manifest-merge.enabled": "true", "commit.retry.num-retries": "x"}, "num-retries"),
    ],
)
def test_options_are_obeyed_or_refused_by_name(options: dict[str, str], said: str) -> None:
    table = created()
    with pytest.raises(TidelineError, match=said):
        table.write(rows(0, 1), options=options)
    assert table.refresh().current_snapshot is None


def test_manifests_are_merged_as_the_table_says() -> None:
    merging = {"commit.manifest.min-count-to-merge": "4"}
    for properties, manifests in ((merging, 4), ({"commit.manifest-merge.enabled": "false"}, 9)):
        table = created(properties=properties)
        for start in range(9):
            table.write(rows(start, start + 1))
        assert table.current_snapshot is not None
        summary = table.current_snapshot.summary
        kept = int(summary["manifests-kept"]) + int(summary["manifests-created"])
        assert kept <= manifests
        assert (kept == 9) is (manifests == 9)
        assert table.count() == 9
