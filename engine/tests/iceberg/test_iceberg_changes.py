"""What snapshots of an Iceberg table did to rows: replayed, they give the table."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError
from tideline.formats.row_changes import CHANGE_INSTANT, CHANGE_TYPE
from tideline.formats.row_codes import row_codes
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_delete_table import DeleteTable

sql_catalog = pytest.importorskip("pyiceberg.catalog.sql")
pyiceberg_types = pytest.importorskip("pyiceberg.types")
pyiceberg_arrow = pytest.importorskip("pyiceberg.io.pyarrow")
pyiceberg_schema = pytest.importorskip("pyiceberg.schema")

ADDED, REMOVED = ("INSERT", "UPDATE_AFTER"), ("DELETE", "UPDATE_BEFORE")


def opened(folder: Path, *, keyed: bool) -> tuple[Any, IcebergLakeTable]:
    """A table of PyIceberg's, which writes copy-on-write, and ours."""
    properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
    catalog = sql_catalog.SqlCatalog("test", **properties)
    catalog.create_namespace("db")
    schema = pyiceberg_schema.Schema(
        pyiceberg_types.NestedField(1, "id", pyiceberg_types.LongType(), required=True),
        pyiceberg_types.NestedField(2, "n", pyiceberg_types.DoubleType()),
        pyiceberg_types.NestedField(3, "day", pyiceberg_types.StringType()),
        identifier_field_ids=[1] if keyed else [],
    )
    made = catalog.create_table("db.t", schema)
    with made.update_spec() as spec:
        spec.add_identity("day")
    given = {"type": "sql", **properties}
    return made, tideline.open_iceberg("db.t", catalog="test", catalog_properties=given)


def rows(*values: tuple[int, float | None, str]) -> pa.Table:
    schema = pa.schema(
        [pa.field("id", pa.int64(), False), ("n", pa.float64()), ("day", pa.string())]
    )
    names = schema.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in values], schema)


def exchange(made: Any, day: str, by: pa.Table) -> None:
    """Files of a day for others, in one snapshot: PyIceberg's own words make two."""
    gone = [task.file for task in made.scan(f"day == '{day}'").plan_files()]
    with made.transaction() as transaction:
        come = list(pyiceberg_arrow._dataframe_to_data_files(made.metadata, by, made.io))
        with transaction.update_snapshot().overwrite() as change:
            for file in gone:
                change.delete_data_file(file)
            for file in come:
                change.append_data_file(file)


def changes(table: IcebergLakeTable, after: Any, until: Any = None) -> list[tuple[Any, ...]]:
    found = table.changes(after, until).read_all().drop_columns([CHANGE_INSTANT])
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("keyed", [True, False])
def test_copies_cancel_each_other_and_keys_make_updates(tmp_path: Path, keyed: bool) -> None:
    made, ours = opened(tmp_path, keyed=keyed)
    nan = float("nan")
    made.append(rows((1, 1.0, "mon"), (2, nan, "mon"), (3, None, "mon"), (4, 4.0, "tue")))
    first = ours.refresh().snapshots[-1].snapshot_id
    assert Counter(row[0] for row in changes(ours, 0)) == {"INSERT": 4}
    exchange(made, "mon", rows((1, 1.0, "mon"), (2, nan, "mon"), (3, 3.0, "mon")))
    found = changes(ours, first)
    if keyed:
        assert found == [("UPDATE_BEFORE", 3, None, "mon"), ("UPDATE_AFTER", 3, 3.0, "mon")]
    else:
        assert sorted(found) == [("DELETE", 3, None, "mon"), ("INSERT", 3, 3.0, "mon")]
    made.delete("id == 1")
    newest = ours.refresh().current_snapshot
    assert newest is not None
    assert changes(ours, "main") == []
    before = newest.parent_snapshot_id
    assert changes(ours, before) == [("DELETE", 1, 1.0, "mon")]
    made.append(rows((9, 9.0, "tue")))
    feed = ours.changes(newest.snapshot_id)
    assert feed.until == ours.refresh().snapshots[-1].snapshot_id
    assert feed.read_all()[CHANGE_INSTANT].to_pylist() == [str(feed.until)]
    assert ours.changes(feed.until).read_all().num_rows == 0


def test_a_row_that_moves_to_another_partition_is_updated(tmp_path: Path) -> None:
    made, ours = opened(tmp_path, keyed=True)
    made.append(rows((1, 1.0, "mon"), (2, 2.0, "mon"), (3, 3.0, "tue")))
    made.overwrite(rows((1, 1.0, "tue"), (2, 2.0, "mon"), (3, 3.0, "tue")))
    first = ours.refresh().snapshots[0].snapshot_id
    found = ours.changes(first).read_all()
    net = replayed(Counter(state(ours, first)), found)
    assert net == Counter(state(ours, None))


def state(table: IcebergLakeTable, as_of: Any) -> list[str]:
    return [repr(tuple(row.values())) for row in table.to_arrow(as_of=as_of).to_pylist()]


def replayed(before: Counter[str], found: pa.Table) -> Counter[str]:
    now = Counter(before)
    for row in found.to_pylist():
        kind = row.pop(CHANGE_TYPE)
        row.pop(CHANGE_INSTANT)
        now[repr(tuple(row.values()))] += 1 if kind in ADDED else -1
        assert kind in (*ADDED, *REMOVED)
    assert not [text for text, count in now.items() if count < 0]
    return +now


@pytest.mark.parametrize("keyed", [True, False])
def test_random_histories_replay_to_every_state(tmp_path: Path, keyed: bool) -> None:
    """Duplicates, nulls and NaN included; from any snapshot to any later one."""
    made, ours = opened(tmp_path, keyed=keyed)
    chosen = random.Random(11 + keyed)
    values = [None, float("nan"), 0.0, 1.0, 2.0]
    for step in range(9):
        batch = rows(
            *(
                (chosen.randrange(6), chosen.choice(values), chosen.choice(["mon", "tue"]))
                for _ in range(chosen.randrange(1, 5))
            )
        )
        match step % 3:
            case 0:
                made.append(batch)
            case 1:
                made.overwrite(batch, overwrite_filter=f"id < {chosen.randrange(4)}")
            case _:
                made.delete(f"id == {chosen.randrange(6)}")
    ids = [0, *(item.snapshot_id for item in ours.refresh().snapshots)]
    states = [Counter[str](), *(Counter(state(ours, number)) for number in ids[1:])]
    for begin in range(len(ids)):
        for end in range(max(begin, 1), len(ids)):
            found = ours.changes(ids[begin], ids[end]).read_all()
            assert replayed(states[begin], found) == states[end], (begin, end)


def test_rows_that_delete_files_delete() -> None:
    made = DeleteTable.create()
    made.append("a", range(6))
    made.append("b", range(10, 13))
    table = tideline.open_iceberg(made.model.location.uri)
    before = table.snapshots[-1].snapshot_id
    made.delete({"a": [1, 2], "b": [0]})
    made.delete({"a": [2, 5]})
    found = table.changes(before).read_all()
    assert set(found[CHANGE_TYPE].to_pylist()) == {"DELETE"}
    assert sorted(found["number"].to_pylist()) == [1, 2, 5, 10]
    last = table.refresh().snapshots[-1].parent_snapshot_id
    assert table.changes(last).read_all()["number"].to_pylist() == [5]


def test_a_rewrite_changes_no_rows() -> None:
    made = DeleteTable.create()
    for number in range(6):
        made.append(f"f{number}", [number])
    made.delete({"f1": [0]})
    table = tideline.open_iceberg(made.model.location.uri)
    newest = table.snapshots[-1].snapshot_id
    table.rewrite(options={"rewrite-all": "true"})
    assert table.refresh().snapshots[-1].operation == "replace"
    assert table.changes(newest).read_all().num_rows == 0
    assert sorted(table.changes(0).read_all()["number"].to_pylist()) == [0, 1, 1, 2, 3, 4, 5]


def test_times_branches_and_what_is_no_beginning(tmp_path: Path) -> None:
    made, ours = opened(tmp_path, keyed=False)
    made.append(rows((1, 1.0, "mon")))
    made.manage_snapshots().create_branch(made.current_snapshot().snapshot_id, "audit").commit()
    made.append(rows((2, 2.0, "mon")))
    made.append(rows((7, 7.0, "mon")), branch="audit")
    ours.refresh()
    first = ours.snapshots[0]
    at = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    assert [row[1] for row in changes(ours, at)] == [2]
    assert [row[1] for row in changes(ours, first.snapshot_id, "audit")] == [7]
    assert [row[1] for row in changes(ours, "2001-01-01")] == [1, 2]
    with pytest.raises(ConfigError, match="did not lead"):
        ours.changes("audit")
    with pytest.raises(ConfigError, match="no such snapshot"):
        ours.changes("nobody")
    with made.update_schema() as change:
        change.add_column("_change_type", pyiceberg_types.StringType())
    with pytest.raises(ConfigError, match="name of one of a change"):
        ours.changes(0)


def test_expired_snapshots_are_named() -> None:
    made = DeleteTable.create()
    for number in range(3):
        made.append(f"f{number}", [number])
    table = tideline.open_iceberg(made.model.location.uri)
    first, kept, _ = (item.snapshot_id for item in table.snapshots)
    table.expire(snapshot_ids=[first], older_than=datetime(2001, 1, 1, tzinfo=UTC))
    for gone in (0, "2001-01-01"):
        with pytest.raises(ConfigError, match=f"begin after is {kept}"):
            table.changes(gone)
    with pytest.raises(ConfigError, match="no such snapshot"):
        table.changes(first)
    assert table.changes(kept).read_all()["number"].to_pylist() == [2]


def test_rows_have_equal_numbers_where_they_are_equal() -> None:
    values: list[Any] = [
        pa.array([1, None, 1, 2, None]),
        pa.array([float("nan"), None, float("nan"), 0.0, -0.0]),
        pa.array([[1, None], None, [1, None], [], [None]], pa.list_(pa.int32())),
        pa.array([{"a": 1}, None, {"a": 1}, {"a": None}, None], pa.struct([("a", pa.int8())])),
        pa.array([[("k", 1)], None, [("k", 1)], [], [("k", 2)]], pa.map_(pa.string(), pa.int8())),
        pa.nulls(5),
    ]
    for column in [*values, pa.chunked_array([values[2].slice(0, 2), values[2].slice(2)])]:
        codes = row_codes([column], 5).tolist()
        assert codes[0] == codes[2]
        assert codes[0] not in (codes[1], codes[3]) or pa.types.is_null(column.type)
    assert len(np.unique(row_codes([values[1]], 5))) == 4
    assert len(np.unique(row_codes([values[2]], 5))) == 4
    assert len(np.unique(row_codes(values, 5))) == 4
    assert row_codes([column.slice(2) for column in values], 3).tolist()[0] >= 0
    assert len(row_codes([], 0)) == len(row_codes([pa.array([], pa.list_(pa.int8()))], 0)) == 0


def test_a_rewrite_whose_parents_pyiceberg_expired_has_all_rows(tmp_path: Path) -> None:
    made, table = opened(tmp_path, keyed=True)
    made.append(rows((1, 1.0, "a")))
    made.append(rows((2, 2.0, "a")))
    table.refresh().rewrite(options={"rewrite-all": "true"})
    for snapshot in table.refresh().snapshots[:-1]:
        made.refresh().maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    (left,) = table.refresh().snapshots
    assert (left.operation, left.parent_snapshot_id) == ("replace", None)
    assert sorted(table.changes(after=0).read_all()["id"].to_pylist()) == [1, 2]
