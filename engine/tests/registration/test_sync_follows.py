"""A table that asks for it is registered after its commits; addresses come from nowhere but the
caller and the environment; the command and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.hive.address import HiveAddress, hive_addresses
from tideline.hudi.services.registry import service_named
from tideline.hudi.table.table_config import SYNC
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, RunService, TableTarget
from tideline.lake_table import LakeTable
from tideline.registration import kinds
from tideline.registration.table_name import TableName
from tideline.registration.target import SyncTarget, targets_in
from tideline.testing.memory_metastore import MemoryMetastore

HIVE = {SYNC: "hive", "tideline.sync.hive.database": "Lake"}
NAME = TableName("lake", "trips")


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryMetastore]:
    """In the place of Hive's, at whatever address."""
    found = MemoryMetastore()
    monkeypatch.delenv(kinds.HIVE_URI, raising=False)
    monkeypatch.setattr(kinds, "_KINDS", {"hive": lambda _: found})
    yield found


def create(folder: Path, **properties: str) -> LakeTable:
    return LakeTable.create(
        str(folder), record_key="id", partition_by="part", name="trips", properties=properties
    )


def rows(part: str) -> pa.Table:
    return pa.table({"id": ["a"], "part": [part]})


def parts(metastore: MemoryMetastore) -> list[str]:
    return sorted(values[0] for values in metastore.kept.get(NAME, {}))


def test_every_commit_is_registered(tmp_path: Path, metastore: MemoryMetastore) -> None:
    table = create(tmp_path / "t", **HIVE)
    assert "hive: created lake.trips, 1 partition added" in table.write(rows("p0")).notes
    assert parts(metastore) == ["p0"]
    assert not table.write(rows("p0")).notes
    assert table.write(rows("p1")).notes == ("hive: synced lake.trips, 1 partition added",)
    assert table.delete_partitions("p0").notes == ("hive: synced lake.trips, 1 partition dropped",)
    assert parts(metastore) == ["p1"]
    saved = table.savepoint()
    table.write(rows("p2"))
    table.restore(saved.instant)
    assert parts(metastore) == ["p1"]


def test_an_option_holds_for_one_write_and_a_service(
    tmp_path: Path, metastore: MemoryMetastore
) -> None:
    table = create(tmp_path / "t")
    table.write(rows("p0"))
    assert parts(metastore) == []
    table.write(rows("p1"), options=HIVE)
    assert parts(metastore) == ["p0", "p1"]
    table.write(rows("p2"))
    target = TableTarget("trips", Location(str(tmp_path / "t")), ("id",))
    clustering = service_named("clustering")
    work = RunService(clustering, "", {**HIVE, **clustering.whenever_asked})
    execute_operation(
        Operation("x", target, work), session_factory=lambda _: pytest.fail("needs no Spark")
    )
    assert parts(metastore) == ["p0", "p1", "p2"]


def test_a_failure_is_said_and_made_up_for(
    tmp_path: Path, metastore: MemoryMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path / "t", **HIVE)
    table.write(rows("p0"))

    def away(*_: Any) -> None:
        raise StorageUnavailableError("the metastore is away")

    monkeypatch.setattr(metastore, "table", away)
    (note,) = table.write(rows("p1")).notes
    assert note == (
        "registering it as lake.trips in hive failed, the next commit or `tideline sync` makes up "
        "for it: the metastore is away"
    )
    monkeypatch.undo()
    monkeypatch.setattr(kinds, "_KINDS", {"hive": lambda _: metastore})
    table.write(rows("p2"))
    assert parts(metastore) == ["p0", "p1", "p2"]


def test_no_address_of_a_table_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kinds.HIVE_URI, raising=False)
    table = create(tmp_path / "t", **HIVE, **{"tideline.sync.hive.uri": "thrift://hostile:1"})
    (target,) = targets_in(table.hoodie_table.config)
    assert target == SyncTarget("hive", NAME)
    (note,) = table.write(rows("p0")).notes
    assert "set TIDELINE_HIVE_URI" in note
    assert "hostile" not in note
    (given,) = targets_in(table.hoodie_table.config, {"tideline.sync.hive.uri": "thrift://mine:1"})
    assert given.address == "thrift://mine:1"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({SYNC: "hive,other"}, "no such kind of metastore; there are hive"),
        ({**HIVE, "tideline.sync.hive.database": "a.b"}, "the name of a database in a metastore"),
        ({**HIVE, "tideline.sync.hive.name": "x" * 129}, "the name of a table in a metastore"),
    ],
)
def test_what_is_named_wrongly_is_said(
    properties: dict[str, str],
    words: str,
    tmp_path: Path,
    metastore: MemoryMetastore,  # noqa: ARG001
) -> None:
    notes = create(tmp_path / "t", **properties).write(rows("p0")).notes
    assert words in notes[-1]


@pytest.mark.parametrize(
    "address", ["http://host:1", "thrift://", "thrift://u:p@host:1", "thrift://h:x", "h:9083", ""]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="thrift://host:9083"):
        hive_addresses(address)


def test_several_addresses_are_taken() -> None:
    found = hive_addresses("thrift://one:1, thrift://two")
    assert found == (HiveAddress("one", 1), HiveAddress("two", 9083))


def test_the_command_registers_remembers_and_stops(
    tmp_path: Path, metastore: MemoryMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    table = create(tmp_path / "t")
    uri = str(tmp_path / "t")
    assert run(["sync", uri]) == 2
    assert "name a metastore" in capsys.readouterr().err
    hive = ["--hive", "thrift://here:1", "--database", "lake"]
    assert run(["sync", uri, *hive]) == 0
    assert "no commit yet" in capsys.readouterr().out
    table.write(rows("p0"))
    assert run(["sync", uri, *hive, "--dry-run", "--always"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Would register")
    assert "Would keep in the table" in said
    assert not metastore.calls
    assert run(["sync", uri, *hive, "--always"]) == 0
    assert "created lake.trips, 1 partition added." in capsys.readouterr().out
    stored = LakeTable.open(uri).hoodie_table.config.properties
    assert stored[SYNC] == "hive"
    assert not any("here" in text for text in stored.values())
    LakeTable.open(uri).write(rows("p1"))
    assert run(["sync", uri, "--json"]) == 0
    (synced,) = json.loads(capsys.readouterr().out)["synced"]
    assert (synced["metastore"], synced["tables"][0]["partitions_added"]) == ("memory", 0)
    metastore.kept[NAME].clear()
    assert run(["sync", uri, "--all-partitions"]) == 0
    assert "2 partitions added" in capsys.readouterr().out
    assert run(["sync", uri, "--stop", "--always"]) == 2
    assert run(["sync", uri, "--stop"]) == 0
    LakeTable.open(uri).write(rows("p2"))
    assert parts(metastore) == ["p0", "p1"]
    assert run(["sync", uri, *hive, "--name", "other"]) == 0
    assert TableName("lake", "other") in metastore.tables
