"""Tables of Iceberg's own runtime, unlike most: ORC, Avro, spread files, far days, version 3.

Iceberg reads every result; what Tideline cannot rewrite stays, with its deletes, and is named.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import UnsupportedTableError
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import RewriteReport, rewrite_data_files
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_peer import DataFileOnDisk, IcebergPeer
from tideline.testing.iceberg_peer_tables import PeerTable

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ALL = {"rewrite-all": "true"}
SPREAD = {"write.object-storage.enabled": "true"}
FLAT = {**SPREAD, "write.object-storage.partitioned-paths": "false"}


def rewrite(table: IcebergTable, **options: str) -> RewriteReport:
    given = ALL | {name.replace("_", "-"): text for name, text in options.items()}
    parsed = RewriteOptions.parse(given, properties=table.metadata.properties)
    return rewrite_data_files(table, parsed, write_groups_here)


def in_order(rows: pa.Table) -> list[str]:
    """As texts, in which NaN is equal to NaN."""
    return sorted(map(str, rows.to_pylist()))


def files_of(table: IcebergTable) -> list[DataFile]:
    table.refresh()
    manifests = manifests_of(table.io, table.metadata.snapshot())
    entries = (
        entry for manifest in manifests for entry in entries_of(table.io, manifest, live_only=True)
    )
    return [entry.data_file for entry in entries]


def even_new(*locations: str) -> OrphanOptions:
    """Of files that were just written."""
    return OrphanOptions(time.time_ns() // 1_000_000 + 60_000, locations, is_forced=True)


@pytest.mark.parametrize("delete_format", ["parquet", ""])
@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_of_other_formats_stay_with_their_deletes(
    file_format: str, delete_format: str, iceberg_peer: IcebergPeer
) -> None:
    """Delete files are in the format of new data files, unless the table says otherwise."""
    made = PeerTable.create(iceberg_peer, partition_by=["region"])
    if delete_format:
        made.run(
            "alter table {table} set tblproperties "
            f"('write.delete.format.default'='{delete_format}')"
        )
    made.insert(*range(12))
    made.insert(*range(12, 24))
    made.run(f"alter table {{table}} set tblproperties ('write.format.default'='{file_format}')")
    made.insert(*range(24, 36))
    made.run("delete from {table} where id in (1, 13, 25)")
    made.delete_equal("id", [2, 26, 29], "region=r2")
    made.run("alter table {table} set tblproperties ('write.format.default'='parquet')")
    made.insert(*range(36, 48))
    made.run("delete from {table} where id = 37")
    rows = in_order(iceberg_peer.read(made.uri))
    assert len(rows) == 48 - 4 - 3

    table = IcebergTable.open(made.uri)
    others = {
        data_file.file_path
        for data_file in files_of(table)
        if data_file.file_path.endswith(file_format)
    }
    report = rewrite(table, remove_dangling_deletes="true")
    left = {skipped.reason: set(skipped.named) for skipped in report.plan.skipped}
    assert left.pop(Reason.NOT_PARQUET) == {path for path in others if "-deletes." not in path}
    # Those that a delete in another format applies to are Parquet themselves.
    deleted = left.pop(Reason.DELETES_NOT_PARQUET, set())
    assert bool(deleted) is not bool(delete_format)
    assert not left
    assert report.files_rewritten == sum(len(group.tasks) for group in report.plan.groups) > 0
    kept = {data_file.file_path for data_file in files_of(table)}
    assert kept >= {path for path in others if "-deletes." not in path} | deleted
    assert in_order(iceberg_peer.read(made.uri)) == rows


@pytest.mark.parametrize(
    ("layout", "outside", "partition_by"),
    [
        ({}, "write.data.path", ("region", "bucket(4, id)")),
        (SPREAD, "", ("region", "bucket(4, id)")),
        (SPREAD, "write.data.path", ("seen",)),
        (SPREAD, "", ()),
        (FLAT, "", ("region", "bucket(4, id)")),
        (FLAT, "write.data.path", ()),
    ],
)
def test_new_files_go_where_iceberg_puts_them(
    layout: dict[str, str],
    outside: str,
    partition_by: tuple[str, ...],
    iceberg_peer: IcebergPeer,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "elsewhere"
    elsewhere = {outside: f"file:{folder}"} if outside else {}
    made = PeerTable.create(iceberg_peer, partition_by=partition_by)
    properties = {**layout, **elsewhere, "x": "y"}
    given = ", ".join(f"'{name}'='{text}'" for name, text in properties.items())
    made.run(f"alter table {{table}} set tblproperties ({given})")
    made.insert(*range(8))
    made.insert(*range(8, 16))
    made.run("delete from {table} where id = 3")
    rows = in_order(iceberg_peer.read(made.uri))
    if outside:
        with pytest.raises(UnsupportedTableError, match="TIDELINE_EXTRA_LOCATIONS"):
            rewrite(IcebergTable.open(made.uri))
    table = IcebergTable.open(made.uri, extra_locations=[str(folder)])
    execute_position_deletes(table.operations, delete_rewrite_options(ALL, {}))
    new = files_of(table)
    report = rewrite(table)
    assert report.files_added > 0
    new += files_of(table)
    layout_here, schema = DataLocations.of(table.metadata), table.metadata.schema()
    for file in new:
        spec = table.metadata.spec(file.spec_id)
        path = partition_path(spec, file.partition, schema)
        name = file.file_path.rpartition("/")[2]
        if layout_here.is_spread and not layout_here.has_partitions:
            path = ""
            if not outside:
                name = name.partition("-")[2]
        below = f"{path}/{name}" if path else name
        assert file.file_path == iceberg_peer.data_location(made.uri, below)
    assert in_order(iceberg_peer.read(made.uri)) == rows


FAR = "(1, 2932897), (2, -719163), (3, -719529), (4, 20000), (5, 5000000)"


@pytest.mark.parametrize(
    "partition", ["days(d)", "d", "months(d)", "years(d)", "hours(t)", "t", "n", "days(n)"]
)
def test_far_days_are_rewritten_into_icebergs_folders(
    partition: str, iceberg_peer: IcebergPeer
) -> None:
    name = f"lake.far.t{abs(hash(partition))}"
    iceberg_peer.run(
        f"create table {name} (id int, d date, t timestamp, n timestamp_ntz) using iceberg "
        f"partitioned by ({partition}) tblproperties ('write.distribution-mode'='none')"
    )
    for micros in ("0", "3600000000", "3601500000"):
        moment = f"timestamp_micros(k * 86400000000L + {micros}L)"
        iceberg_peer.run(
            f"insert into {name} select /*+ coalesce(1) */ id, date_from_unix_date(k), {moment}, "
            f"{moment}::timestamp_ntz from values {FAR} as v(id, k) order by k"
        )
    uri = str(iceberg_peer.warehouse / "far" / name.rpartition(".")[2])
    count = f"select id, cast(d as string) d, cast(t as string) t, cast(n as string) n from {name}"
    rows = in_order(iceberg_peer.sql(count))
    table = IcebergTable.open(uri)
    folders = {data_file.file_path.rpartition("/")[0] for data_file in files_of(table)}
    assert rewrite(table).files_added == len(folders)
    assert {data_file.file_path.rpartition("/")[0] for data_file in files_of(table)} == folders
    assert in_order(iceberg_peer.sql(count)) == rows
    execute_manifests(table.operations, ManifestOptions(rewrite_all=True))
    assert in_order(iceberg_peer.sql(count)) == rows
    where = "d = date_from_unix_date(2932897)"
    assert iceberg_peer.sql(f"select id from {name} where {where}")["id"].to_pylist() == [1] * 3


@pytest.mark.parametrize(
    ("columns", "row", "shown"),
    [
        ("v variant", "parse_json('{\"a\": 1}')", "cast(v as string)"),
        (
            "s struct<v: variant, l: array<variant>, m: map<string, variant>>",
            "named_struct('v', parse_json('1'), 'l', array(parse_json('2')), "
            "'m', map('k', parse_json('3')))",
            "concat(cast(s.v as string), cast(s.l[0] as string), cast(s.m['k'] as string))",
        ),
        ("u void", "null", "cast(u as string)"),
        ("s struct<u: void, k: int>", "named_struct('u', null, 'k', cast(id as int))", "s.k"),
    ],
)
def test_sparks_own_types_of_version_3_are_kept(
    columns: str, row: str, shown: str, iceberg_peer: IcebergPeer
) -> None:
    name = f"lake.v3.t{abs(hash(columns))}"
    iceberg_peer.run(
        f"create table {name} (id int, {columns}) using iceberg "
        "tblproperties ('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    for start in (0, 10):
        iceberg_peer.run(
            f"insert into {name} select id, {row} from "
            f"(select cast(id as int) id from range({start}, {start + 4}))"
        )
    if "array" not in columns:  # Spark cannot read such columns to delete rows
        iceberg_peer.run(f"delete from {name} where id = 2")
    asked = f"select id, {shown} as shown from {name}"
    rows = in_order(iceberg_peer.sql(asked))
    uri = str(iceberg_peer.warehouse / "v3" / name.rpartition(".")[2])
    table = IcebergTable.open(uri)
    ids = sorted(tideline.open_iceberg(uri).to_arrow(["id"])["id"].to_pylist())
    assert ids == sorted(iceberg_peer.sql(asked)["id"].to_pylist())
    if "variant" in columns:
        with pytest.raises(UnsupportedTableError, match="variant"):
            rewrite(table)
    else:
        assert rewrite(table).files_added == 1
    cared_for(table)
    assert in_order(iceberg_peer.sql(asked)) == rows


@pytest.mark.parametrize(
    ("kind", "arrow", "partition"),
    [
        ("geometry", pa.binary(), None),
        ("geometry(srid:4326)", pa.binary(), None),
        ("geography(srid:4326,spherical)", pa.binary(), None),
        ("timestamp_ns", pa.timestamp("ns"), "day"),
        ("timestamptz_ns", pa.timestamp("ns", "UTC"), "bucket[2]"),
    ],
)
def test_types_that_spark_does_not_have_are_kept(
    kind: str, arrow: pa.DataType, partition: str | None, iceberg_peer: IcebergPeer
) -> None:
    uri = str(iceberg_peer.warehouse / f"java{abs(hash((kind, partition)))}")
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "x", "required": False, "type": kind},
    ]
    part = {"name": "p", "transform": partition, "source-id": 2, "field-id": 1000}
    spec = {"spec-id": 0, "fields": [part] if partition else []}
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    properties = {"format-version": "3"}
    iceberg_peer.create_table(uri, json.dumps(schema), json.dumps(spec), properties)
    folders = {"day": "p=2024-01-02", "bucket[2]": "p=1"}
    for number in range(3):
        path = Path(uri) / "data" / f"f{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        value = 1_704_164_645_000_000_006
        column = pa.array([value] * 2, pa.int64()).view(arrow) if "ns" in kind else [b"\x01"] * 2
        ids = [pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
               pa.field("x", arrow, metadata={"PARQUET:field_id": "2"})]  # fmt: skip
        rows = pa.table([pa.array([number, number + 10]), column], schema=pa.schema(ids))
        pq.write_table(rows, path)
        size, folder = path.stat().st_size, folders.get(partition or "", "")
        iceberg_peer.append_files(uri, DataFileOnDisk(str(path), size, 2, folder))
    table = IcebergTable.open(uri)
    if "geo" in kind:
        with pytest.raises(UnsupportedTableError, match="geo"):
            rewrite(table)
        assert len(iceberg_peer.plan(uri)) == 3
    else:
        assert rewrite(table).files_added == 1
        assert len(iceberg_peer.plan(uri)) == 1
    cared_for(table)
    assert {task.path for task in iceberg_peer.plan(uri)} == {
        data_file.file_path for data_file in files_of(table)
    }
    if "ns" in kind:
        read = iceberg_peer.pyiceberg_read(uri)
        assert sorted(read["id"].to_pylist()) == [0, 1, 2, 10, 11, 12]


def cared_for(table: IcebergTable) -> None:
    """Manifests, snapshots and orphans, one after another."""
    execute_manifests(table.operations, ManifestOptions(rewrite_all=True))
    execute_expire(table.operations, ExpireOptions(older_than_ms=2**62))
    table.refresh()
    assert len(table.metadata.snapshots) == 1
    stray = Path(table.io.location.uri.removeprefix("file://")) / "data" / "lost.parquet"
    stray.write_bytes(b"1")
    plan = plan_orphans(table.operations, even_new())
    assert [orphan.location.rpartition("/")[2] for orphan in plan.orphans] == ["lost.parquet"]
    execute_orphans(table.operations, plan)
    table.refresh()
