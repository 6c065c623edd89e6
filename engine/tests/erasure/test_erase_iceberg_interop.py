"""Iceberg itself reads what an erasure leaves of its tables, in every format version."""

from __future__ import annotations

from typing import Any

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
