"""The peer itself: what Iceberg's Spark runtime writes, it, PyIceberg, DuckDB and planners read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.testing.iceberg_peer import DeleteFileOnDisk, IcebergPeer
from tideline.testing.json_line_process import PeerFailureError

pytestmark = pytest.mark.interop

ROWS = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "region": ["a", "a", "b", "b"]})


def test_spark_pyiceberg_and_duckdb_read_back_what_spark_wrote(iceberg_peer: IcebergPeer) -> None:
    uri = _merge_on_read_table(iceberg_peer, "read_back")
    iceberg_peer.run("delete from lake.peer.read_back where id = 2")
    left = [1, 3, 4]
    assert sorted(iceberg_peer.read(uri)["id"].to_pylist()) == left
    assert sorted(iceberg_peer.pyiceberg_read(uri)["id"].to_pylist()) == left
    assert iceberg_peer.pyiceberg_read(uri, "region = 'b'").num_rows == 2
    assert sorted(iceberg_peer.duckdb_read(uri)["id"].to_pylist()) == left
    assert iceberg_peer.duckdb_read(uri, "region = 'b'").num_rows == 2


def test_both_planners_attach_position_deletes_to_their_files(iceberg_peer: IcebergPeer) -> None:
    uri = _merge_on_read_table(iceberg_peer, "positions")
    iceberg_peer.run("delete from lake.peer.positions where id = 2")
    planned = iceberg_peer.plan(uri)
    assert {"region=a" in task.path: len(task.deletes) for task in planned} == {True: 1, False: 0}
    by_pyiceberg = {task.path: task.deletes for task in iceberg_peer.pyiceberg_plan(uri)}
    assert by_pyiceberg == {task.path: task.deletes for task in planned}
    assert [task.path for task in iceberg_peer.plan(uri, "region = 'b'")] == [
        task.path for task in planned if "region=b" in task.path
    ]


def test_equality_deletes_written_elsewhere_can_be_added(
    iceberg_peer: IcebergPeer, tmp_path: Path
) -> None:
    uri = _merge_on_read_table(iceberg_peer, "equality")
    delete = tmp_path / "eq.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([3])], schema=pa.schema([field])), delete)
    iceberg_peer.add_deletes(
        uri,
        DeleteFileOnDisk(
            path=str(delete),
            size_bytes=delete.stat().st_size,
            record_count=1,
            equality_ids=(1,),
            partition="region=b",
        ),
    )
    assert sorted(iceberg_peer.read(uri)["id"].to_pylist()) == [1, 2, 4]


def test_icebergs_own_rewrite_planner_answers(iceberg_peer: IcebergPeer) -> None:
    uri = _merge_on_read_table(iceberg_peer, "groups")
    iceberg_peer.append(uri, ROWS)
    groups = iceberg_peer.plan_rewrite(uri, {"min-input-files": "2"}, "region = 'a'")
    assert [len(group.files) for group in groups] == [2]
    assert groups[0].outputs_expected == 1


def test_a_failure_names_javas_reason_and_the_peer_goes_on(iceberg_peer: IcebergPeer) -> None:
    with pytest.raises(PeerFailureError, match="TABLE_OR_VIEW_NOT_FOUND") as failure:
        iceberg_peer.run("select * from lake.peer.absent")
    assert "\tat " not in str(failure.value)
    assert iceberg_peer.sql("select 1 as one").to_pylist() == [{"one": 1}]


def _merge_on_read_table(peer: IcebergPeer, name: str) -> str:
    peer.run(
        f"create table lake.peer.{name} (id bigint, region string) using iceberg "
        "partitioned by (region) tblproperties ('format-version'='2', "
        "'write.delete.mode'='merge-on-read', 'write.distribution-mode'='none')"
    )
    uri = str(peer.warehouse / "peer" / name)
    peer.append(uri, ROWS)
    return uri
