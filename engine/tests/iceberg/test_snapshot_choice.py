"""Which snapshot `as_of` means, with which columns, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, CorruptTableError
from tideline.iceberg.metadata.table_metadata import SnapshotLogEntry
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.fake_clock import FakeClock

sql_catalog = pytest.importorskip("pyiceberg.catalog.sql")
pyiceberg_types = pytest.importorskip("pyiceberg.types")

A_DAY_MS = 86_400_000


def opened(folder: Path, **settings: Any) -> tuple[Any, IcebergLakeTable]:
    """A table of PyIceberg's and ours."""
    properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
    catalog = sql_catalog.SqlCatalog("test", **properties)
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("old", pa.string())]))
    given = {"type": "sql", **properties}
    return made, tideline.open_iceberg("db.t", catalog="test", catalog_properties=given, **settings)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "old": [f"o{number}" for number in ids]})


@pytest.fixture
def table(tmp_path: Path) -> IcebergLakeTable:
    """Three snapshots: the first is tagged, the second a branch that has one more; the column `old`
    was dropped and `n` added before the third."""
    made, ours = opened(tmp_path)
    made.append(rows(1))
    made.manage_snapshots().create_tag(made.current_snapshot().snapshot_id, "first").commit()
    made.append(rows(2))
    made.manage_snapshots().create_branch(made.current_snapshot().snapshot_id, "audit").commit()
    made.append(rows(9), branch="audit")
    with made.update_schema() as change:
        change.delete_column("old")
        change.add_column("n", pyiceberg_types.IntegerType())
    made.append(pa.table({"id": pa.array([3], pa.int64()), "n": pa.array([30], pa.int32())}))
    return ours.refresh()


def ids(table: IcebergLakeTable, as_of: Any) -> list[int]:
    return sorted(table.to_arrow(["id"], as_of=as_of)["id"].to_pylist())


def test_a_name_an_id_and_a_time_choose_a_snapshot(table: IcebergLakeTable) -> None:
    main = [item for item in table.snapshots if 9 not in ids(table, item.snapshot_id)]
    assert [ids(table, item.snapshot_id) for item in main] == [[1], [1, 2], [1, 2, 3]]
    second = main[1]
    at = datetime.fromtimestamp(second.timestamp_ms / 1000, UTC)
    for as_of in (str(second.snapshot_id), at, at.isoformat(), at.replace(tzinfo=None)):
        assert ids(table, as_of) == [1, 2]
    assert ids(table, "first") == [1]
    assert ids(table, "audit") == [1, 2, 9]
    assert ids(table, "main") == ids(table, None) == [1, 2, 3]


def test_a_branch_has_the_columns_of_today_and_what_is_past_those_of_then(
    table: IcebergLakeTable,
) -> None:
    then, today = ["id", "old"], ["id", "n"]
    first, second = table.snapshots[0], table.snapshots[1]
    at = datetime.fromtimestamp(second.timestamp_ms / 1000, UTC)
    past: list[Any] = ["first", first.snapshot_id, at]
    for as_of in past:
        assert table.to_arrow(as_of=as_of).column_names == then
    assert table.to_arrow(as_of="first").to_pylist() == [{"id": 1, "old": "o1"}]
    now = [None, "main", "audit"]
    for as_of in now:
        assert table.to_arrow(as_of=as_of).column_names == today
    assert table.count("old = 'o1'", as_of="first") == 1
    with pytest.raises(ConfigError, match="no such column"):
        table.count("old = 'o1'", as_of="audit")
    assert table.to_duckdb(as_of="first").fetchall() == [(1, "o1")]


@pytest.mark.parametrize("as_of", ["nobody", 7, "7", "12345678901234567890", True, 1.5, object()])
def test_what_is_no_snapshot_name_or_time_is_refused(table: IcebergLakeTable, as_of: Any) -> None:
    with pytest.raises(ConfigError, match="no such snapshot"):
        table.count(as_of=as_of)


def test_times_without_a_table_are_refused(table: IcebergLakeTable) -> None:
    with pytest.raises(ConfigError, match="log begins at 20"):
        table.count(as_of=date(2001, 1, 1))
    with pytest.raises(ConfigError, match="in the future"):
        table.count(as_of=datetime.now(UTC) + timedelta(days=1))


def test_an_empty_table_has_no_rows_and_no_past(tmp_path: Path) -> None:
    _, ours = opened(tmp_path)
    assert ours.to_arrow().num_rows == ours.count() == ours.files().num_rows == 0
    assert ours.history().num_rows == 0
    with pytest.raises(ConfigError, match="no snapshot yet"):
        ours.count(as_of="2020-01-01")


def test_a_rollback_counts_by_when_readers_saw_it(table: IcebergLakeTable) -> None:
    """The log says when main led where; the snapshots' own times would not."""
    main = [item for item in table.snapshots if 9 not in ids(table, item.snapshot_id)]
    first, second = main[0], main[1]
    rolled_back_ms = second.timestamp_ms + A_DAY_MS
    log = (
        SnapshotLogEntry(first.snapshot_id, first.timestamp_ms),
        SnapshotLogEntry(second.snapshot_id, second.timestamp_ms),
        SnapshotLogEntry(first.snapshot_id, rolled_back_ms),
    )
    metadata = replace(table.metadata, snapshot_log=log)

    def chosen(timestamp_ms: int) -> int | None:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        snapshot = SnapshotChoice.of(metadata, at, now_ms=rolled_back_ms).snapshot
        return None if snapshot is None else snapshot.snapshot_id

    assert chosen(rolled_back_ms - 1) == second.snapshot_id
    assert chosen(rolled_back_ms) == first.snapshot_id
    expired = replace(metadata, snapshots=(first,), refs={}, current_snapshot_id=first.snapshot_id)
    with pytest.raises(ConfigError, match="has expired"):
        SnapshotChoice.of(
            expired,
            datetime.fromtimestamp(second.timestamp_ms / 1000, UTC),
            now_ms=rolled_back_ms,
        )


def test_without_a_log_the_ancestry_counts(table: IcebergLakeTable) -> None:
    metadata = replace(table.metadata, snapshot_log=())
    first = table.snapshots[0]
    at = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    choice = SnapshotChoice.of(metadata, at, now_ms=first.timestamp_ms)
    assert choice.snapshot == first


def test_a_clock_behind_the_table_still_reads_its_newest_time(tmp_path: Path) -> None:
    made, ours = opened(tmp_path, clock=FakeClock())
    made.append(rows(1))
    newest = ours.refresh().snapshots[-1].timestamp_ms
    assert ids(ours, datetime.fromtimestamp(newest / 1000, UTC)) == [1]


def test_refs_files_partitions_and_history(table: IcebergLakeTable) -> None:
    assert sorted(table.refs) == ["audit", "first", "main"]
    files = table.files()
    assert files["rows"].to_pylist() == [1, 1, 1]
    assert set(files["format"].to_pylist()) == {"parquet"}
    assert table.files(as_of="first").num_rows == 1
    (partition,) = table.partitions().to_pylist()
    assert (partition["partition"], partition["files"], partition["rows"]) == ("", 3, 3)
    history = table.history().to_pylist()
    assert [row["snapshot_id"] for row in history] == [s.snapshot_id for s in table.snapshots]
    assert [row["rows_added"] for row in history] == [1, 1, 1, 1]
    assert [row["is_current"] for row in history].count(False) == 1
    assert {row["operation"] for row in history} == {"append"}


def test_a_data_file_that_is_gone_is_named(table: IcebergLakeTable) -> None:
    path = Path(table.files()["file"][0].as_py().removeprefix("file://"))
    path.unlink()
    with pytest.raises(CorruptTableError, match=path.name):
        table.to_arrow()
    assert table.count() == 3
    rows_of_all = table.scan()
    with pytest.raises(CorruptTableError, match="missing"):
        rows_of_all.read_all()
