"""Reports on tables that Hudi made: what is on disk is reported as Hudi was configured."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.testing.hudi_peer import HudiPeer, HudiPeerIn, version_options
from tideline.testing.json_line_process import PeerFailureError
from tideline.testing.small_table import batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

Captured = pytest.CaptureFixture[str]
KEYED = {
    "hoodie.table.name": "theirs",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.metadata.enable": "false",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
}


ALTERING = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    **version_options(TABLE_VERSION),
}


def stored(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def rows(version: int) -> pa.Table:
    return batch(range(8), version).append_column("note", pa.array(["n"] * 8))


def adopt(folder: Path, capsys: Captured) -> dict[str, Any]:
    before = stored(folder)
    assert run(["adopt", str(folder), "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(["adopt", str(folder)]) == 0
    capsys.readouterr()
    assert stored(folder) == before
    return report


def refused(report: dict[str, Any]) -> set[str]:
    return {operation["name"] for operation in report["operations"] if not operation["may"]}


@pytest.fixture
def made(tmp_path: Path, hudi_peer: HudiPeer) -> Any:
    def make(**options: str) -> Path:
        folder = tmp_path / "theirs"
        for version in (1, 2):
            hudi_peer.write(
                str(folder), rows(version), operation="upsert",
                options={**KEYED, **{name.replace("__", "."): text
                                     for name, text in options.items()}},
            )  # fmt: skip
        return folder

    return make


def test_buckets(made: Any, capsys: Captured) -> None:
    report = adopt(made(**BUCKETS), capsys)
    assert report["index"]["type"] == "BUCKET"
    assert report["index"]["known_from"] == "its file ids"
    assert refused(report) == {"clustering"}
    assert (report["timezone"]["property"], report["timezone"]["basis"]) == ("LOCAL", "seen")


def test_a_record_index_and_the_storage_lock(made: Any, capsys: Captured) -> None:
    lock = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock."
        "FileSystemBasedLockProvider",
    }
    report = adopt(made(**RECORD_INDEX, **lock), capsys)
    assert {"files", "record_index"} <= set(report["metadata_partitions"])
    assert report["state"]["has_metadata_table"]
    said = [consequence["what"] for consequence in report["consequences"]]
    assert not [what for what in said if " drops " in what]
    for name in ("column_stats", "partition_stats", "record_index"):
        assert [what for what in said if what.startswith(f"commits keep {name}:")]
    assert report["state"]["foreign"]["files"] == 0
    assert report["state"]["pending"] == []


def test_a_schema_whose_columns_have_ids(made: Any, hudi_peer: HudiPeer, capsys: Captured) -> None:
    folder = made()
    assert adopt(folder, capsys)["schema"]["columns_by"] == "names"
    state(hudi_peer, f"create table adopted_ids using hudi location '{folder}'")
    try:
        for name, text in ALTERING.items():
            state(hudi_peer, f"set {name}={text}")
        state(hudi_peer, "alter table adopted_ids rename column note to remark")
    finally:
        for name in ALTERING:
            state(hudi_peer, f"reset {name}")
        state(hudi_peer, "drop table adopted_ids")
    report = adopt(folder, capsys)
    assert report["schema"]["columns_by"] == "ids"
    assert report["schema"]["version"]


def state(peer: HudiPeer, statement: str) -> None:
    """Run a statement that answers nothing, which the peer cannot hand over as a file."""
    try:
        peer.run_statement(statement)
    except PeerFailureError as failure:
        if "nested empty schemas" not in str(failure):
            raise


def test_a_zone_west_of_utc(tmp_path: Path, hudi_peer_in: HudiPeerIn, capsys: Captured) -> None:
    folder = tmp_path / "west"
    peer = hudi_peer_in("America/Los_Angeles")
    for version in (1, 2):
        peer.write(str(folder), rows(version), operation="upsert", options=KEYED)
    report = adopt(folder, capsys)
    assert report["timezone"]["basis"] == "not_utc"
    assert report["timezone"]["minutes_from_utc_seen"] in (-480, -420)
    assert {"write", "cleaning", "rollback", "restore"} <= refused(report)
    assert not {"read", "check", "savepoint"} & refused(report)
    assert run(["adopt", str(folder)]) == 0
    (command,) = re.findall(r"(?m)^    tideline (declare .*)", capsys.readouterr().out)
    assert run(shlex.split(command)) == 0
    capsys.readouterr()
    assert refused(adopt(folder, capsys)) == set()
