"""Row groups of Iceberg that a rewrite copied as bytes: all engines find the same in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.formats.filter import ALL_ROWS
from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.data.copy_rules import Treatment
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.services.rewrite_data_files.copy_survey import GroupSurvey, survey_groups
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = pytest.mark.interop

TYPES = """
  id bigint not null, flag boolean, small int, single float, precise double,
  price decimal(9, 2), large decimal(28, 5), name string, raw binary,
  day date, moment timestamp, wall timestamp_ntz,
  nested struct<a: int, b: struct<c: string, d: array<int>>>,
  list array<struct<x: int, y: string>>, dictionary map<string, array<double>>
"""
# Spark stores what can be null by the query's words as such, and other columns as required.
VALUES = """
  select n, id % 2 = 0, if(id % 5 = 0, null, cast(id as int)), cast(id as float) / 3,
    if(id % 700 = 49, double('NaN'), id / 7),
    cast(id as decimal(9, 2)), cast(id * 1234567 as decimal(28, 5)),
    concat('käse-', repeat(char(97 + cast(id as int) % 26), 20), id),
    cast(cast(id as string) as binary),
    date_add(date '1969-12-25', cast(id as int)), timestamp_micros(id * 1234567890123 - 9999999999),
    cast(timestamp_micros(id * 987654321 - 5) as timestamp_ntz),
    if(id > 0, named_struct('a', cast(id as int), 'b', if(id > 0,
      named_struct('c', char(id), 'd', if(id > 0, array(1, null, cast(id as int)), null)),
      null)), null),
    if(id > 0, array(named_struct('x', cast(id as int), 'y', char(id)), null), null),
    if(id > 0, map('k', if(id > 0, array(id / 3, null), null), 'l', null), null)
  from (select id as n, if(id > 0, id, null) as id from range({start}, {end}, 1, 1))
"""
PAIRS = "select if(id > 0, id, null), if(id > 0, 'a', null) from range({start}, {end}, 1, 1)"
# Row groups of a few kilobytes are large enough to be copied.
SMALL_GROUPS = "'write.parquet.row-group-size-bytes'='8000'"
ALL = {"rewrite-all": "true"}
METRICS = (
    "record_count", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
)  # fmt: skip


def table_of(
    peer: IcebergPeer,
    name: str,
    columns: str,
    *,
    version: int = 2,
    files: int = 3,
    rows: int = 700,
    codec: str = "zstd",
) -> str:
    """Rows 1 and on, in files of several row groups."""
    values = VALUES if columns is TYPES else PAIRS
    peer.run(
        f"create table lake.copied.{name} ({columns}) using iceberg tblproperties "
        f"('format-version'='{version}', 'write.parquet.compression-codec'='{codec}', "
        f"'write.delete.mode'='merge-on-read', {SMALL_GROUPS})",
        *(
            f"insert into lake.copied.{name} "
            + values.format(start=1 + number * rows, end=1 + (number + 1) * rows)
            for number in range(files)
        ),
    )
    return str(peer.warehouse / "copied" / name)


def rewrite(uri: str, **options: str) -> GroupSurvey:
    """Rewrite all files into one, here and now; what a dry run said before."""
    table = IcebergTable.open(uri)
    chosen = RewriteOptions.parse({**ALL, **options}, properties=table.metadata.properties)
    plan = plan_table_rewrite(table.io, table.metadata, chosen)
    (survey,) = survey_groups(table.io, table.metadata, chosen, plan)
    report = rewrite_data_files(table, chosen, write_groups_here)
    assert report.files_added == 1
    return survey


def footer(peer: IcebergPeer, uri: str) -> pq.FileMetaData:
    (path,) = peer.read(f"{uri}#files").filter(pa.compute.field("content") == 0)["file_path"]
    return pq.read_metadata(Path(path.as_py().removeprefix("file:")))


def rows(found: pa.Table) -> list[dict[str, Any]]:
    """In order; NaN by its text."""
    return sorted(found.to_pylist(), key=repr)


def test_every_type_is_copied_and_read_by_all(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "types", TYPES)
    before = iceberg_peer.read(uri)
    survey = rewrite(uri)
    # Where Spark met NaN it wrote no bounds that can be used.
    assert survey.shares[Treatment.STATISTICS].row_groups == 3
    assert set(survey.shares) <= {Treatment.COPIED, Treatment.SMALL, Treatment.STATISTICS}, survey
    copied = footer(iceberg_peer, uri)
    assert copied.created_by.startswith("tideline version")
    assert survey.copied.row_groups > 15
    assert copied.num_row_groups > survey.copied.row_groups
    after = iceberg_peer.read(uri)
    assert repr(rows(after)) == repr(rows(before)) == repr(rows(iceberg_peer.duckdb_read(uri)))
    assert iceberg_peer.pyiceberg_read(uri).num_rows == before.num_rows
    # Through bounds and page indexes.
    found = iceberg_peer.sql(
        "select count(*) as n from lake.copied.types where id between 650 and 710"
    )
    assert found["n"].to_pylist() == [61]


def test_metrics_are_those_that_spark_writes(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "metrics", TYPES)
    iceberg_peer.run(
        "call lake.system.rewrite_data_files(table => 'copied.metrics', "
        "options => map('rewrite-all', 'true'))"
    )
    files = iceberg_peer.read(f"{uri}#files")
    assert rewrite(uri).copied.row_groups > 1
    after = iceberg_peer.read(f"{uri}#files")
    assert after["file_path"] != files["file_path"]
    for metric in METRICS:
        written, of_spark = (found[metric][0].as_py() for found in (after, files))
        assert in_order(written) == in_order(of_spark), metric


@pytest.mark.parametrize("codec", ["snappy", "gzip"])
def test_pages_of_spark_are_compressed_anew_and_read_by_all(
    iceberg_peer: IcebergPeer, codec: str
) -> None:
    uri = table_of(iceberg_peer, f"anew_{codec}", TYPES, codec=codec)
    iceberg_peer.run(
        f"alter table lake.copied.anew_{codec} "
        "set tblproperties ('write.parquet.compression-codec'='zstd')"
    )
    before = iceberg_peer.read(uri)
    survey = rewrite(uri)
    assert survey.copied.row_groups == 0
    assert survey.transcoded.row_groups > 15
    found = footer(iceberg_peer, uri)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    assert {chunk.compression for chunk in chunks} == {"ZSTD"}
    assert any(chunk.has_offset_index for chunk in chunks)
    after = iceberg_peer.read(uri)
    assert repr(rows(after)) == repr(rows(before)) == repr(rows(iceberg_peer.duckdb_read(uri)))
    assert iceberg_peer.pyiceberg_read(uri).num_rows == before.num_rows
    # Through bounds and page indexes.
    some = iceberg_peer.sql(
        f"select count(*) as n from lake.copied.anew_{codec} where id between 650 and 710"
    )
    assert some["n"].to_pylist() == [61]


def test_files_without_nan_are_known_by_their_plan(iceberg_peer: IcebergPeer) -> None:
    """So that no column of them is decoded to count them."""
    uri = table_of(iceberg_peer, "numbers", "id bigint, weight double", files=0)
    iceberg_peer.run(
        "insert into lake.copied.numbers select id, id / 3 from range(0, 9, 1, 1)",
        "insert into lake.copied.numbers select id, double('NaN') from range(0, 3, 1, 1)",
    )
    table = IcebergTable.open(uri)
    snapshot = table.metadata.ref_snapshot("main")
    for where, asked in ((ALL_ROWS, True), (parse_filter("id >= 0"), True), (ALL_ROWS, False)):
        tasks = plan_files(table.io, table.metadata, snapshot, where, with_nan_counts=asked)
        found = {task.data_file.record_count: task.data_file.nan_value_counts for task in tasks}
        assert found == ({9: {2: 0}, 3: {2: 3}} if asked else {9: None, 3: None})
    rewrite(uri)
    table.refresh()
    snapshot = table.metadata.ref_snapshot("main")
    (task,) = plan_files(table.io, table.metadata, snapshot, with_nan_counts=True)
    assert task.data_file.nan_value_counts == {2: 3}


def in_order(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def test_row_groups_without_a_deleted_row_are_copied(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "deletes", "id bigint, name string", files=1, rows=20_000)
    iceberg_peer.run("delete from lake.copied.deletes where id between 20 and 40")
    before = rows(iceberg_peer.read(uri))
    survey = rewrite(uri)
    assert set(survey.shares) == {Treatment.DELETES}
    copied = footer(iceberg_peer, uri)
    assert copied.created_by.startswith("tideline version")
    assert copied.num_row_groups > 2
    assert rows(iceberg_peer.read(uri)) == before == rows(iceberg_peer.pyiceberg_read(uri))
    assert rows(iceberg_peer.duckdb_read(uri)) == before


def test_ids_of_rows_are_kept_in_version_3(iceberg_peer: IcebergPeer) -> None:
    uri = table_of(iceberg_peer, "lineage", "id bigint, name string", version=3, rows=20_000)
    lineage = "select id, _row_id, _last_updated_sequence_number as n from lake.copied.lineage"
    before = rows(iceberg_peer.sql(lineage))
    first = rewrite(uri)
    assert set(first.shares) <= {Treatment.COLUMNS, Treatment.SMALL}
    assert rows(iceberg_peer.sql(lineage)) == before
    second = rewrite(uri)
    assert second.copied.row_groups > 1
    assert rows(iceberg_peer.sql(lineage)) == before
