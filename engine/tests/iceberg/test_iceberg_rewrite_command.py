"""`tideline iceberg rewrite` on tables of Iceberg's own: same rows, fewer files, read by all."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_peer_tables import PeerTable

pytestmark = pytest.mark.interop


@pytest.fixture
def table(iceberg_peer: IcebergPeer) -> PeerTable:
    """Six files in each of two partitions, some rows deleted."""
    made = PeerTable.create(iceberg_peer, partition_by=("flag",))
    for start in range(0, 60, 10):
        made.insert(*range(start, start + 10))
    made.run("delete from {table} where id in (3, 14, 25, 36, 47)")
    made.delete_equal("id", [8, 50], "flag=true")
    return made


def rows(found: pa.Table) -> list[dict[str, Any]]:
    """Without `ratio`, whose NaN equals nothing."""
    return sorted(found.drop_columns(["ratio"]).to_pylist(), key=lambda row: row["id"])


def test_a_rewrite_leaves_fewer_files_with_the_same_rows(
    table: PeerTable, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(table.peer.read(table.uri))
    assert len(before) == 53
    arguments = ["iceberg", "rewrite", table.uri, "--json"]

    assert run([*arguments, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert rows(table.peer.read(table.uri)) == before
    assert planned["files_before"] > planned["files_after"] == len(planned["groups"])

    # PyIceberg refuses tables with equality deletes, also with those that apply to nothing.
    assert run([*arguments, "--local", "--option", "remove-dangling-deletes=true"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["files_rewritten"] == planned["files_before"]
    assert report["files_added"] == planned["files_after"]
    assert report["delete_files_removed"] > 0
    assert rows(table.peer.read(table.uri)) == before
    assert rows(table.peer.pyiceberg_read(table.uri)) == before

    assert run([*arguments, "--local"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["snapshots"], again["plan"]["groups"]) == ([], [])


def test_a_sorted_rewrite_of_some_partitions_says_what_it_did(
    table: PeerTable, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(table.peer.read(table.uri))
    asked = ["--sort-order", "id DESC", "--where", "flag = true", "--option", "rewrite-all=true"]
    assert run(["iceberg", "rewrite", table.uri, "--local", *asked]) == 0
    assert ", into 1 file, " in capsys.readouterr().out
    assert rows(table.peer.read(table.uri)) == before
    newest = [task.path for task in table.peer.plan(table.uri, "flag = true")]
    assert len(newest) == 1
    ids = table.peer.sql(f"select id from parquet.`{newest[0]}`")["id"].to_pylist()
    assert ids == sorted(ids, reverse=True)
