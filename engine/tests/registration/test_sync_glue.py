"""Hudi tables registered in Glue: created, followed, changed, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.testing.glue_moto import moto_of_glue
from tideline.testing.glue_server import GlueFaultError, GlueRequest, GlueServer, LostAnswerError

SECRET = "secret-of-the-process-2026"
NAME = ("shop", "trips")


@dataclass(frozen=True)
class Case:
    """A Hudi table with partitions, and a Glue."""

    server: GlueServer
    table: tideline.LakeTable

    def write(self, *days: str, **columns: Any) -> Any:
        rows = {"id": list(range(len(days))), "day": list(days), "v": [1] * len(days), **columns}
        return self.table.write(pa.table(rows), "upsert")

    def sync(self, **given: Any) -> Any:
        return self.table.sync(glue="eu-west-1", database="shop", name="trips", **given)

    @property
    def entry(self) -> dict[str, Any]:
        return self.server.tables[NAME]

    @property
    def days(self) -> list[str]:
        return sorted(values[0] for values in self.server.partitions[NAME])


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-process")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("TIDELINE_GLUE_URI", raising=False)
    with GlueServer(page=3) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", server.url)
        table = tideline.create(str(tmp_path / "trips"), record_key="id", partition_by="day")
        yield Case(server, table)
        assert SECRET not in str([(seen.content, seen.headers) for seen in server.received])


def on(action: str, error: Exception, count: int = 1) -> Callable[[GlueRequest], None]:
    left = [error] * count

    def raises(request: GlueRequest) -> None:
        if request.action == action and left:
            raise left.pop()

    return raises


def test_a_table_is_created_and_followed(case: Case) -> None:
    case.write("a", "b")
    (done,) = case.sync()
    assert done.tables[0].is_created
    assert case.days == ["a", "b"]
    entry = case.entry
    assert entry["TableType"] == "EXTERNAL_TABLE"
    assert entry["Parameters"]["spark.sql.sources.provider"] == "hudi"
    assert entry["PartitionKeys"] == [{"Name": "day", "Type": "string"}]
    descriptor = entry["StorageDescriptor"]
    assert [column["Name"] for column in descriptor["Columns"]][-2:] == ["id", "v"]
    assert descriptor["Location"] == case.table.uri
    partition = case.server.partitions[NAME]["a",]
    assert partition["StorageDescriptor"]["Location"] == f"{case.table.uri}/a"
    assert partition["StorageDescriptor"]["Columns"] == descriptor["Columns"]
    case.write("c")
    (done,) = case.sync()
    assert (done.tables[0].partitions_added, done.tables[0].is_created) == (1, False)
    case.table.delete_partitions(["b"])
    case.sync()
    assert case.days == ["a", "c"]
    count = len(case.server.received)
    (done,) = case.sync()
    assert not done.is_changed
    actions = {seen.action for seen in case.server.received[count:]}
    assert actions == {"GetTable"}
    assert case.server.archived == []


@pytest.mark.slow
@pytest.mark.interop
def test_moto_takes_the_same_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-process")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    table = tideline.create(
        str(tmp_path / "trips"), record_key="id", partition_by="day", table_type="MERGE_ON_READ"
    )
    with moto_of_glue() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", url)
        for values, is_altered in (({"v": [1, 2]}, False), ({"v": [1, 2], "w": [1.0, 2.0]}, True)):
            table.write(pa.table({"id": [1, 2], "day": ["a", "b"], **values}), "upsert")
            (done,) = table.sync(glue="eu-west-1", database="shop", name="trips")
            assert [registered.name for registered in done.tables] == [
                "shop.trips_ro",
                "shop.trips_rt",
                "shop.trips",
            ]
            assert all(registered.is_altered == is_altered for registered in done.tables)
            (done,) = table.sync(
                glue="eu-west-1", database="shop", name="trips", all_partitions=True
            )
            assert not done.is_changed


@pytest.mark.slow
def test_batches_and_pages_keep_glues_limits(case: Case) -> None:
    case.server._page = 100
    days = [f"d{number:03}" for number in range(230)]
    case.write(*days)
    case.sync()
    assert case.server.count("BatchCreatePartition") == 3
    assert case.days == days
    for stored in case.server.partitions[NAME].values():
        stored["StorageDescriptor"]["Location"] = "s3://elsewhere"
        stored["Parameters"] = {"of": "others"}
    for number in range(60):
        values = (f"gone{number}",)
        case.server.partitions[NAME][values] = {"Values": list(values), "StorageDescriptor": {}}
    (done,) = case.sync(all_partitions=True)
    assert (done.tables[0].partitions_moved, done.tables[0].partitions_dropped) == (230, 60)
    assert case.server.count("BatchUpdatePartition") == 3
    assert case.server.count("BatchDeletePartition") == 3
    assert case.days == days
    found = case.server.partitions[NAME]["d007",]
    assert found["StorageDescriptor"]["Location"] == f"{case.table.uri}/d007"
    assert found["Parameters"] == {"of": "others"}


def test_new_columns_reach_the_partitions_first(case: Case) -> None:
    """A process that dies in between leaves a table that the next sync changes."""
    case.write("a", "b")
    case.sync()
    case.entry["Description"] = "of others"
    case.entry["Parameters"]["projection.enabled"] = "true"
    case.write("a", "b", more=[1.5, 2.5])
    case.server.before = on("UpdateTable", GlueFaultError("InternalServiceException", status=500))
    with pytest.raises(StorageUnavailableError):
        case.sync()

    def names(described: dict[str, Any]) -> list[str]:
        return [column["Name"] for column in described["StorageDescriptor"]["Columns"]]

    partitions = case.server.partitions[NAME].values()
    assert all("more" in names(partition) for partition in partitions)
    assert "more" not in names(case.entry)
    case.sync()
    assert "more" in names(case.entry)
    assert case.entry["Description"] == "of others"
    assert case.entry["Parameters"]["projection.enabled"] == "true"
    assert not case.sync()[0].is_changed


def test_lost_answers_and_other_syncs_are_made_up_for(case: Case) -> None:
    case.write("a", "b", "c", "d")
    for action in ("CreateDatabase", "CreateTable", "BatchCreatePartition", "UpdateTable"):
        case.server.after = on(action, LostAnswerError())
        with pytest.raises(StorageUnavailableError):
            case.sync()
    case.server.after = lambda _: None
    case.sync()
    assert case.days == ["a", "b", "c", "d"]
    case.write("e")

    def first(request: GlueRequest) -> None:
        if request.action == "UpdateTable":
            case.server.before = lambda _: None
            version = int(case.entry["VersionId"])
            case.server.tables[NAME] = {**case.entry, "VersionId": str(version + 1)}

    case.server.before = first
    case.sync()
    assert case.days == ["a", "b", "c", "d", "e"]
    assert not case.sync()[0].is_changed


def test_tables_of_others_are_left_alone(case: Case) -> None:
    case.write("a")
    case.sync()
    kept = dict(case.entry)
    changes: tuple[dict[str, Any], ...] = (
        {"Parameters": {"table_type": "ICEBERG"}},
        {"Parameters": {"spark.sql.sources.provider": "delta"}},
        {"TableType": "VIRTUAL_VIEW"},
        {"StorageDescriptor": {**kept["StorageDescriptor"], "Location": "s3://other/place"}},
        {"PartitionKeys": []},
    )
    for change in changes:
        case.server.tables[NAME] = {**kept, **change}
        with pytest.raises(ConfigError, match="the metastore has"):
            case.sync()
        assert case.server.tables[NAME] == {**kept, **change}


def test_refusals_are_named_and_no_address_is_taken_from_a_table(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.write("a")
    fault = GlueFaultError("AccessDeniedException", "not authorized to perform: glue:CreateTable")
    case.server.before = on("CreateTable", fault)
    with pytest.raises(StorageUnavailableError, match=r"Glue denies access.*glue:CreateTable"):
        case.sync()
    case.sync(always=True)
    report = case.write("b")
    assert "TIDELINE_GLUE_URI" in " ".join(report.notes)
    case.table.hoodie_table.properties.set({"tideline.sync.glue.uri": "http://127.0.0.1:9"})
    count = len(case.server.received)
    with pytest.raises(ConfigError, match="none is taken from a table: set TIDELINE_GLUE_URI"):
        tideline.open(case.table.uri).sync()
    assert len(case.server.received) == count
    monkeypatch.setenv("TIDELINE_GLUE_URI", "eu-west-1")
    report = case.write("c")
    assert case.days == ["a", "b", "c"]
    named = ["--glue", "eu-west-1", "--database", "shop", "--name", "trips"]
    assert run(["sync", case.table.uri, *named]) == 0
    for address in ("http://169.254.169.254/#x", "evil.example/#", "http://user:pass@host"):
        with pytest.raises(ConfigError, match=r"Glue|a region is"):
            case.table.sync(glue=address)
