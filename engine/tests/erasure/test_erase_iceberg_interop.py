"""Iceberg itself reads what an erasure leaves of its tables, in every format version."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest

from tideline.erasure.iceberg_rows import erase_iceberg_rows
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_peer_tables import PeerTable

pytestmark = pytest.mark.interop

GONE = {5, 14, 33}


def ids(found: pa.Table) -> list[Any]:
    return sorted(found.column("id").to_pylist())


@pytest.mark.parametrize(
    ("format_version", "partition_by"),
    [(1, ("flag",)), (2, ("flag",)), (2, ()), (3, ("bucket(3, id)", "region"))],
)
def test_the_rows_are_gone_for_iceberg_and_from_disk(
    iceberg_peer: IcebergPeer, format_version: int, partition_by: tuple[str, ...]
) -> None:
    properties = {"write_delete_mode": "copy-on-write"} if format_version == 1 else {}
    table = PeerTable.create(
        iceberg_peer, partition_by=partition_by, format_version=format_version, **properties
    )
    for start in range(0, 40, 10):
        table.insert(*range(start, start + 10))
    table.run("delete from {table} where id in (3, 14, 25)")
    if format_version == 2 and partition_by == ("flag",):
        table.delete_equal("id", [5, 7], "flag=false")
    before = ids(iceberg_peer.read(table.uri))
    done = erase_iceberg_rows(IcebergTable.open(table.uri), "id IN (5, 14, 33)", proves=True)
    assert done.before and done.after
    assert done.before.rows >= len(GONE)
    assert (done.after.rows, done.after.unread, done.is_complete) == (0, (), True)
    left = [number for number in before if number not in GONE]
    assert ids(iceberg_peer.read(table.uri)) == left
    assert ids(iceberg_peer.pyiceberg_read(table.uri)) == left
    table.insert(50)
    assert ids(iceberg_peer.read(table.uri)) == sorted([*left, 50])


def test_no_manifest_gives_values_of_the_rows(iceberg_peer: IcebergPeer) -> None:
    """Iceberg's own delete and the erasure both leave entries of files that are gone."""
    properties = {"write_delete_mode": "copy-on-write"}
    table = PeerTable.create(iceberg_peer, partition_by=(), format_version=2, **properties)
    for start in (7000, 8000):
        table.insert(*range(start, start + 10))
    table.run("delete from {table} where id = 7000")
    erased = (7000, 8009)
    assert {7000, 8009} <= set(bounds(Path(table.uri), (7000, 8009)))
    done = erase_iceberg_rows(IcebergTable.open(table.uri), f"id IN {erased}", proves=True)
    assert done.is_complete
    assert list(bounds(Path(table.uri), erased)) == []
    again = erase_iceberg_rows(IcebergTable.open(table.uri), f"id IN {erased}", proves=True)
    assert (again.matching, again.snapshot_id, again.is_complete) == (0, None, True)
    table.run("delete from {table} where id = 7005")
    left = [*range(7001, 7005), *range(7006, 7010), *range(8000, 8009)]
    assert ids(iceberg_peer.read(table.uri)) == left


def test_bounds_of_rows_that_are_gone_already_leave_manifests(iceberg_peer: IcebergPeer) -> None:
    """In a manifest that has live files as well."""
    properties = {"write_delete_mode": "copy-on-write"}
    table = PeerTable.create(iceberg_peer, partition_by=("flag",), format_version=2, **properties)
    table.insert(*range(7000, 7010))
    table.insert(*range(8000, 8010))
    table.run("delete from {table} where id = 7000")
    assert 7000 in bounds(Path(table.uri), (7000,))
    done = erase_iceberg_rows(IcebergTable.open(table.uri), "id = 7000", proves=True)
    assert (done.matching, done.files_rewritten, done.is_complete) == (0, 0, True)
    assert list(bounds(Path(table.uri), (7000,))) == []
    assert ids(iceberg_peer.read(table.uri)) == [*range(7001, 7010), *range(8000, 8010)]


def bounds(folder: Path, numbers: tuple[int, ...]) -> Iterator[int]:
    """Those of the numbers that are bounds of a column in some manifest."""
    for path in folder.rglob("*.avro"):
        with path.open("rb") as stream:
            entries = cast("list[dict[str, Any]]", list(fastavro.reader(stream)))
        files = [entry["data_file"] for entry in entries if "data_file" in entry]
        found = {
            bound["value"]
            for file in files
            for name in ("lower_bounds", "upper_bounds")
            for bound in file[name] or ()
        }
        yield from (n for n in numbers if {struct.pack("<i", n), struct.pack("<q", n)} & found)
