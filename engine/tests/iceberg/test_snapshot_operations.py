"""What snapshots call the writes that made them, as Iceberg's Java does."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_peer import IcebergPeer

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string())])


def created(uri: str = "", **definition: Any) -> IcebergLakeTable:
    place = uri or f"memory://{uuid.uuid4().hex}/table"
    table = tideline.create_iceberg(place, COLUMNS, key="", partition_by="part", **definition)
    table.write(pa.table([[1, 2], ["a", "b"]], schema=COLUMNS))
    return table


def newest(table: IcebergLakeTable) -> Snapshot:
    found = table.refresh().current_snapshot
    assert found is not None
    return found


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_delete_that_finds_no_row_adds_none(mode: str) -> None:
    table = created(properties={"write.delete.mode": mode, "write.update.mode": mode})
    assert table.delete("id = 9", token="t").rows_deleted == 0
    assert newest(table).operation == "delete"
    assert table.delete("id = 9", token="t").is_repeat
    table.write(pa.table([[9], ["a"]], schema=COLUMNS), "delete", key="id")
    assert newest(table).operation == "delete"
    table.update("id = 9", {"part": "c"})
    assert newest(table).operation == "overwrite"
    assert table.count() == 2 and not table.check()


@pytest.mark.parametrize("part", ["a", "c"])
def test_overwritten_partitions_are_named_as_such(part: str) -> None:
    table = created()
    table.write(pa.table([[3], [part]], schema=COLUMNS), "overwrite_partitions")
    assert newest(table).operation == "overwrite"
    assert newest(table).summary["replace-partitions"] == "true"
    table.write(pa.table([[3], [part]], schema=COLUMNS), "overwrite", where="id = 3")
    assert "replace-partitions" not in newest(table).summary


@pytest.mark.interop
def test_iceberg_names_them_so(iceberg_peer: IcebergPeer) -> None:
    name, uri = "lake.named.theirs", str(iceberg_peer.warehouse / "named" / "theirs")
    iceberg_peer.run(
        f"create table {name} (id bigint, part string) using iceberg partitioned by (part)",
        f"insert into {name} values (1, 'a'), (2, 'b')",
    )
    theirs, ours = tideline.open_iceberg(uri), created(uri.replace("theirs", "ours"))

    def same() -> None:
        mine, other = newest(ours), newest(theirs)
        assert mine.operation == other.operation
        words = "replace-partitions"
        assert mine.summary.get(words) == other.summary.get(words)

    iceberg_peer.run(f"delete from {name} where part = 'z'")
    ours.delete("part = 'z'")
    same()
    iceberg_peer.run("set spark.sql.sources.partitionOverwriteMode=dynamic")
    for part in "ac":
        iceberg_peer.run(f"insert overwrite {name} select 3L, '{part}'")
        ours.write(pa.table([[3], [part]], schema=COLUMNS), "overwrite_partitions")
        same()
