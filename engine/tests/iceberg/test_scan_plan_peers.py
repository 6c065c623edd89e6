"""Our scan planning compared with Iceberg's own and PyIceberg's, file by file, deletes included."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.testing.iceberg_peer import IcebergPeer, PeerScanTask
from tideline.testing.iceberg_peer_tables import PeerTable

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SPECS = [
    (),
    ("region", "flag"),
    ("bucket(4, id)",),
    ("bucket(3, region)", "truncate(20, count)"),
    ("truncate(500, price)",),
    ("truncate(1, region)",),
    ("years(day)",),
    ("months(day)", "bucket(2, price)"),
    ("days(seen)",),
    ("hours(seen)",),
    ("place.city",),
]
FILTERS = [
    "id = 7",
    "id in (3, 12, 40, 99)",
    "id > 30 and id <= 33",
    "region = 'r1'",
    "region is null",
    "region is not null and flag = true",
    "region like 'r%'",
    "not (region like 'r0%' or region = 'r1')",
    "count < 50 or count >= 250",
    "count between 70 and 80",
    "price = 12.50",
    "price < 3.75 or price > 45.123",
    "day = '1969-12-25'",
    "day < '1970-01-01'",
    "day >= '1970-01-20'",
    "seen >= timestamp'1970-01-05 00:00:00'",
    "seen < timestamp'1969-12-30 12:30:00'",
    "place.city = 'c2'",
    "place.zip > 35",
    "ratio > 9.9",
    "true",
]


def ours(table: PeerTable, where: str = "true") -> list[FileScanTask]:
    metadata = table.metadata()
    return list(plan_files(table.io(), metadata, metadata.snapshot(), parse_filter(where)))


def as_peer(tasks: list[FileScanTask]) -> set[PeerScanTask]:
    return {
        PeerScanTask(
            task.data_file.file_path,
            tuple(sorted(delete.file_path for delete in task.deletes)),
            task.sequence_number,
        )
        for task in tasks
    }


def without_numbers(tasks: set[PeerScanTask]) -> set[PeerScanTask]:
    return {PeerScanTask(task.path, task.deletes) for task in tasks}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: " ".join(spec) or "unpartitioned")
def test_filters_leave_the_same_files_as_icebergs_for_every_transform(
    iceberg_peer: IcebergPeer, spec: tuple[str, ...]
) -> None:
    table = PeerTable.create(iceberg_peer, partition_by=spec)
    table.insert(*range(20))
    table.insert(*range(20, 40))
    everything = as_peer(ours(table))
    assert everything == set(iceberg_peer.plan(table.uri))
    for where in FILTERS:
        found = as_peer(ours(table, where))
        wanted = set(iceberg_peer.plan(table.uri, _spark_sql(where)))
        # Null is not unequal to anything in SQL, so we may leave out what Iceberg keeps.
        assert found <= wanted if "not (" in where else found == wanted, where
    assert without_numbers(everything) == set(iceberg_peer.pyiceberg_plan(table.uri))


def _spark_sql(where: str) -> str:
    return (
        where.replace("day = '", "day = date'")
        .replace("day < '", "day < date'")
        .replace("day >= '", "day >= date'")
    )


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("spec", [(), ("region",)], ids=["unpartitioned", "by region"])
def test_position_deletes_meet_the_files_that_icebergs_planner_gives_them(
    iceberg_peer: IcebergPeer, spec: tuple[str, ...], granularity: str
) -> None:
    table = PeerTable.create(iceberg_peer, partition_by=spec, write_delete_granularity=granularity)
    table.insert(*range(12))
    table.insert(*range(12, 24))
    table.run("delete from {table} where id in (1, 2, 13, 14)")
    table.insert(*range(24, 36))
    table.run("delete from {table} where id % 12 = 5")
    planned = as_peer(ours(table))
    assert planned == set(iceberg_peer.plan(table.uri))
    assert without_numbers(planned) == set(iceberg_peer.pyiceberg_plan(table.uri))
    assert max(len(task.deletes) for task in planned) == (2 if granularity == "partition" else 1)


def test_equality_deletes_meet_older_files_of_their_partition_or_all(
    iceberg_peer: IcebergPeer,
) -> None:
    table = PeerTable.create(iceberg_peer)
    table.insert(*range(12))
    table.delete_equal("id", [3, 99])
    table.run("alter table {table} add partition field region")
    table.insert(*range(12, 24))
    table.delete_equal("id", [12, 5], "region=r0")
    table.insert(*range(24, 36))
    table.run("delete from {table} where id in (4, 30)")
    planned = as_peer(ours(table))
    assert planned == set(iceberg_peer.plan(table.uri))
    assert {len(task.deletes) for task in planned} == {0, 1, 2}


def test_deletion_vectors_stand_for_older_position_deletes(iceberg_peer: IcebergPeer) -> None:
    table = PeerTable.create(iceberg_peer, partition_by=("region",))
    table.insert(*range(12))
    table.insert(*range(12, 24))
    table.run("delete from {table} where id in (0, 12)")
    table.run("alter table {table} set tblproperties ('format-version'='3')")
    table.run("delete from {table} where id in (1, 3, 13)")
    table.delete_equal("id", [6], "region=r0")
    tasks = ours(table)
    assert as_peer(tasks) == set(iceberg_peer.plan(table.uri))
    vectors = [task for task in tasks if task.deletion_vector is not None]
    assert vectors
    assert all(task.position_deletes == () for task in vectors)


def test_evolved_specs_and_renamed_columns_are_planned_the_same(iceberg_peer: IcebergPeer) -> None:
    table = PeerTable.create(iceberg_peer, partition_by=("region",))
    table.insert(*range(10))
    table.run("alter table {table} drop partition field region")
    table.run("alter table {table} add partition field bucket(4, id)")
    table.insert(*range(10, 20))
    table.run("alter table {table} rename column count to total")
    table.run("alter table {table} add column later string")
    table.run("delete from {table} where id in (2, 12)")
    for where in (None, "region = 'r1'", "id = 12", "total > 60", "later is null", "later = 'x'"):
        found = as_peer(ours(table, where or "true"))
        assert found == set(iceberg_peer.plan(table.uri, where)), where


@dataclass(frozen=True)
class Group:
    """A file group without its order, which both planners leave open."""

    files: frozenset[str]
    input_bytes: int
    split_size_bytes: int
    outputs_expected: int
    write_size_bytes_max: int
    output_spec_id: int


def planned_groups(table: PeerTable, options: dict[str, str]) -> set[Group]:
    metadata = table.metadata()
    parsed = RewriteOptions.parse(options, properties=metadata.properties)
    return {
        Group(
            frozenset(task.data_file.file_path for task in group.tasks),
            group.input_bytes,
            group.split_size_bytes,
            group.outputs_expected,
            group.write_size_bytes_max,
            group.output_spec_id,
        )
        for group in plan_table_rewrite(table.io(), metadata, parsed).groups
    }


def their_groups(table: PeerTable, options: dict[str, str]) -> set[Group]:
    return {
        Group(
            frozenset(group.files),
            group.input_bytes,
            group.split_size_bytes,
            group.outputs_expected,
            group.write_size_bytes_max,
            group.output_spec_id,
        )
        for group in table.peer.plan_rewrite(table.uri, options)
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min-input-files": "2"},
        {"rewrite-all": "true"},
        {"target-file-size-bytes": "10000", "min-input-files": "4"},
        {"target-file-size-bytes": "2000", "max-file-size-bytes": "2500"},
        {"delete-file-threshold": "1", "min-file-size-bytes": "1"},
        {"delete-ratio-threshold": "0.2", "min-file-size-bytes": "1"},
    ],
    ids=lambda options: ",".join(options) or "defaults",
)
def test_rewrites_are_planned_in_the_groups_of_icebergs_planner(
    evolved_table: PeerTable, options: dict[str, str]
) -> None:
    assert planned_groups(evolved_table, options) == their_groups(evolved_table, options)


@pytest.mark.parametrize(
    "options",
    [
        {"min-input-files": "2", "max-file-group-input-files": "3"},
        {"rewrite-all": "true", "max-file-group-size-bytes": "9000"},
    ],
    ids=lambda options: ",".join(options),
)
def test_bounded_groups_are_of_the_sizes_of_icebergs(
    evolved_table: PeerTable, options: dict[str, str]
) -> None:
    """Which files share one depends on the order in which manifests happened to be read."""
    found = planned_groups(evolved_table, options)
    theirs = their_groups(evolved_table, options)
    assert sorted(len(group.files) for group in found) == sorted(
        len(entry.files) for entry in theirs
    )
    assert sum(group.input_bytes for group in found) == sum(entry.input_bytes for entry in theirs)


@pytest.fixture(scope="module")
def evolved_table(iceberg_peer: IcebergPeer) -> PeerTable:
    """Files of two specs in some partitions, some with deletes.

    No region is null: files of an older spec, which have no partition of the current one, share
    a group with that of null there, where we keep them apart.
    """
    table = PeerTable.create(iceberg_peer, write_delete_granularity="file")
    table.insert(*range(5))
    table.insert(5, 7, 8, 9)
    table.run("alter table {table} add partition field region")
    for start in range(10, 60, 10):
        table.insert(*(number for number in range(start, start + 10) if number % 7 != 6))
    table.run("delete from {table} where id in (3, 11, 12, 14)")
    table.run("delete from {table} where id in (15, 16, 30)")
    return table
