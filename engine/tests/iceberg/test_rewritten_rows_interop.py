"""Tables of Iceberg's Spark runtime after our rewrite: it, PyIceberg and DuckDB find the same in
them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.sort_order import SortField
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import GroupResult
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan, plan_rewrite
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.named_places import SETTING
from tideline.testing.iceberg_peer import DeleteFileOnDisk, IcebergPeer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TYPES = """
  id bigint not null, flag boolean, small int, big bigint, single float, precise double,
  price decimal(9, 2), large decimal(28, 5), middle decimal(15, 3), name string, raw binary,
  day date, moment timestamp, wall timestamp_ntz,
  nested struct<a: int, b: struct<c: string, d: array<int>>>,
  list array<struct<x: int, y: string>>, dictionary map<string, array<double>>
"""
VALUES = """
  select id, id % 2 = 0, cast(id as int), id * 10000000000, cast(id as float) / 3, id / 7,
    cast(id as decimal(9, 2)), cast(id * 1234567 as decimal(28, 5)), cast(-id as decimal(15, 3)),
    concat('käse-', repeat(char(97 + cast(id as int) % 26), 20), id),
    cast(cast(id as string) as binary),
    date_add(date '1969-12-25', cast(id as int)), timestamp_micros(id * 1234567890123 - 9999999999),
    cast(timestamp_micros(id * 987654321 - 5) as timestamp_ntz),
    named_struct('a', cast(id as int), 'b',
      named_struct('c', 'c', 'd', array(1, null, cast(id as int)))),
    array(named_struct('x', cast(id as int), 'y', 'y'), null),
    map('k', array(id / 3, null), 'l', null)
  from range({start}, {end})
"""
NULLS = "(select -1, " + ", ".join(["null"] * 16) + ")"


def rewrite(uri: str, order: RowOrder | None = None, **options: str) -> RewritePlan:
    """Rewrite all files of a table, here and now, and commit."""
    table = IcebergTable.open(uri)
    metadata, snapshot = table.metadata, table.metadata.snapshot()
    assert snapshot is not None
    chosen = RewriteOptions.parse(
        {"rewrite-all": "true", **options}, properties=metadata.properties
    )
    plan = plan_rewrite(
        plan_files(table.io, metadata, snapshot),
        metadata,
        chosen,
        starting_snapshot_id=snapshot.snapshot_id,
    )
    context = RewriteContext.of(metadata, write_id=str(uuid.uuid4()), order=order)
    added: list[DataFile] = []
    for done in write_groups_here(table.io, context, plan.groups):
        assert isinstance(done, GroupResult), done
        added += done.added
    outcome = commit_rewrite(
        table.operations,
        RewriteFiles(
            snapshot.snapshot_id,
            removed_data=tuple(task.data_file for group in plan.groups for task in group.tasks),
            added_data=tuple(added),
            sequence_number=snapshot.sequence_number,
        ),
    )
    assert isinstance(outcome, Committed), outcome
    return plan


def rows(table: pa.Table, key: str = "id") -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row[key] is None, row[key]))


def table_of(peer: IcebergPeer, name: str, columns: str, extra: str = "", version: int = 2) -> str:
    properties = f"'format-version'='{version}', 'write.delete.mode'='merge-on-read'"
    peer.run(
        f"create table lake.data.{name} ({columns}) using iceberg {extra} "
        f"tblproperties ({properties})"
    )
    return str(peer.warehouse / "data" / name)


def test_every_type_survives_with_the_metrics_that_spark_writes(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "types", TYPES)
    # Parquet's own writers do not agree on the sign of a lower bound that is zero.
    values = VALUES.format(start=1, end=41)
    iceberg_peer.run(
        f"insert into lake.data.types {values} union all {NULLS[1:-1]}",
        "call lake.system.rewrite_data_files(table => 'data.types', "
        "options => map('rewrite-all', 'true'))",
    )
    before, files = iceberg_peer.read(uri), iceberg_peer.read(f"{uri}#files")
    rewrite(uri)
    assert rows(iceberg_peer.read(uri)) == rows(before) == rows(iceberg_peer.duckdb_read(uri))
    assert iceberg_peer.pyiceberg_read(uri).num_rows == before.num_rows
    after = iceberg_peer.read(f"{uri}#files")
    assert after.num_rows == files.num_rows == 1
    for metric in ("record_count", "value_counts", "null_value_counts", "nan_value_counts",
                   "lower_bounds", "upper_bounds"):  # fmt: skip
        written, of_spark = (in_order(found[metric][0].as_py()) for found in (after, files))
        assert written == of_spark, metric


def in_order(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def test_position_deletes_are_applied(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "positions", "id bigint, part string", "partitioned by (part)")
    for start in (0, 50):
        iceberg_peer.run(
            "insert into lake.data.positions select id, cast(id % 3 as string) "
            f"from range({start}, {start + 50})"
        )
    iceberg_peer.run("delete from lake.data.positions where id % 7 = 3")
    before = rows(iceberg_peer.read(uri))
    rewrite(uri)
    assert rows(iceberg_peer.read(uri)) == before == rows(iceberg_peer.pyiceberg_read(uri))
    assert rows(iceberg_peer.duckdb_read(uri)) == before
    counted = iceberg_peer.sql("select sum(record_count) as n from lake.data.positions.data_files")
    assert counted["n"].to_pylist() == [len(before)]


def test_equality_deletes_compare_nulls_and_dropped_columns(
    iceberg_peer: IcebergPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path))
    uri = table_of(iceberg_peer, "equality", "id bigint, a string, b double, c int")
    iceberg_peer.run(
        "insert into lake.data.equality values (1, 'x', 1.5, 1), (2, null, 1.5, 2), "
        "(3, null, null, 3), (4, 'x', double('NaN'), 4), (5, 'y', 0.0, 5), "
        "(6, 'y', double('-0.0'), 6), (7, null, null, 7)"
    )
    deleted = pa.table(
        [pa.array(["x", None, "y"]), pa.array([float("nan"), None, 0.0])],
        schema=pa.schema([_field("a", pa.string(), 2), _field("b", pa.float64(), 3)]),
    )
    delete_equal(iceberg_peer, uri, tmp_path / "one.parquet", deleted, (2, 3))
    of_c = pa.table([pa.array([2], pa.int32())], schema=pa.schema([_field("c", pa.int32(), 4)]))
    delete_equal(iceberg_peer, uri, tmp_path / "two.parquet", of_c, (4,))
    assert [row["id"] for row in rows(iceberg_peer.read(uri))] == [1, 6]
    iceberg_peer.run(
        "alter table lake.data.equality rename column a to called",
        "alter table lake.data.equality drop column c",
        "alter table lake.data.equality add column c string",
    )
    rewrite(uri)
    assert [row["id"] for row in rows(iceberg_peer.read(uri))] == [1, 6]
    # Equality deletes without files to apply to may stay; the rows are gone from the data itself.
    counted = iceberg_peer.sql("select sum(record_count) as n from lake.data.equality.data_files")
    assert counted["n"].to_pylist() == [2]


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def delete_equal(
    peer: IcebergPeer, uri: str, path: Path, deleted: pa.Table, ids: tuple[int, ...]
) -> None:
    pq.write_table(deleted, path)
    size_bytes = path.stat().st_size
    peer.add_deletes(uri, DeleteFileOnDisk(str(path), size_bytes, deleted.num_rows, ids))


def test_row_lineage_and_deletion_vectors_of_version_3(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "lineage", "id bigint, name string", version=3)
    iceberg_peer.run("insert into lake.data.lineage select id, 'a' from range(0, 20)")
    iceberg_peer.run("insert into lake.data.lineage select id, 'b' from range(20, 40)")
    iceberg_peer.run("delete from lake.data.lineage where id % 5 = 2")
    columns = "id, name, _row_id, _last_updated_sequence_number"
    lineage = f"select {columns} from lake.data.lineage"
    before = rows(iceberg_peer.sql(lineage))
    rewrite(uri)
    assert rows(iceberg_peer.sql(lineage)) == before
    assert rows(iceberg_peer.duckdb_read(uri, columns=columns)) == before
    rewrite(uri)
    assert rows(iceberg_peer.sql(lineage)) == before
    assert rows(iceberg_peer.duckdb_read(uri, columns=columns)) == before
    iceberg_peer.run("insert into lake.data.lineage values (99, 'c')")
    after = rows(iceberg_peer.sql(lineage))
    assert after[:-1] == before
    assert len({row["_row_id"] for row in after}) == len(after)


def test_evolved_schemas_are_written_as_they_are_today(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(
        iceberg_peer,
        "evolved",
        "id int, a float, gone string, s struct<x: int, y: string>, d decimal(5, 2)",
    )
    name = "lake.data.evolved"
    iceberg_peer.run(
        f"insert into {name} select id, id / 2, 'g', named_struct('x', id, 'y', 'old'), id "
        "from range(5)",
        f"alter table {name} rename column a to half",
        f"alter table {name} alter column id type bigint",
        f"alter table {name} alter column half type double",
        f"alter table {name} alter column d type decimal(12, 2)",
        f"alter table {name} drop column gone",
        f"alter table {name} add column gone int first",
        f"alter table {name} add column s.z double",
        f"alter table {name} drop column s.x",
        f"alter table {name} rename column s.y to why",
        f"insert into {name} select 7, id + 10, 0.5, named_struct('why', 'new', 'z', 1.0), 3 "
        "from range(5)",
    )
    before = rows(iceberg_peer.read(uri))
    rewrite(uri)
    assert rows(iceberg_peer.read(uri)) == before == rows(iceberg_peer.pyiceberg_read(uri))
    assert rows(iceberg_peer.duckdb_read(uri)) == before
    assert iceberg_peer.read(f"{uri}#files").num_rows == 1


@pytest.mark.parametrize("names", [("ours", "theirs")])
def test_files_of_an_older_spec_move_into_the_partitions_that_spark_would_choose(
    iceberg_peer: IcebergPeer, names: tuple[str, str]
) -> None:
    found = []
    for name in names:
        uri = table_of(iceberg_peer, f"moved_{name}", TYPES)
        table = f"lake.data.moved_{name}"
        iceberg_peer.run(
            f"insert into {table} {VALUES.format(start=0, end=60)}",
            f"insert into {table} {NULLS[1:-1]}",
            *(
                f"alter table {table} add partition field {field}"
                for field in (
                    "bucket(4, id)", "bucket(3, name)", "bucket(3, price)", "bucket(5, large)",
                    "bucket(3, raw)", "bucket(3, day)", "bucket(3, moment)", "truncate(7, small)",
                    "truncate(6, name)", "truncate(100, price)", "years(day)", "months(moment)",
                    "flag",
                )
            ),
        )  # fmt: skip
        before = rows(iceberg_peer.read(uri))
        if name == "ours":
            rewrite(uri)
        else:
            iceberg_peer.run(
                f"call lake.system.rewrite_data_files(table => 'data.moved_{name}', "
                "options => map('rewrite-all', 'true'))"
            )
        assert rows(iceberg_peer.read(uri)) == before == rows(iceberg_peer.duckdb_read(uri))
        partitions = iceberg_peer.sql(f"select partition, record_count from {table}.partitions")
        found.append(sorted(map(str, partitions.to_pylist())))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("linear", RowOrder((SortField(2), SortField(1, is_descending=True, nulls_first=False)))),
        ("curve", RowOrder((SortField(1), SortField(2)), is_curve=True)),
    ],
)
def test_sorted_files_hold_the_same_rows(
    iceberg_peer: IcebergPeer, name: str, order: RowOrder
) -> None:
    uri = table_of(iceberg_peer, f"sorted_{name}", "id bigint, name string")
    iceberg_peer.run(
        f"insert into lake.data.sorted_{name} "
        "select id, concat('n', cast(id * 7919 % 13 as string)) from range(500)"
    )
    before = rows(iceberg_peer.read(uri))
    rewrite(uri, order)
    assert rows(iceberg_peer.read(uri)) == before == rows(iceberg_peer.duckdb_read(uri))
    if name == "linear":
        # One file, so that Spark reads the rows as they lie there.
        stored = [(row["name"], -row["id"]) for row in iceberg_peer.read(uri).to_pylist()]
        assert stored == sorted(stored)
