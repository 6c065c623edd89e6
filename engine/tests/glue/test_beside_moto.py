"""Our Glue of the tests beside moto's: the same requests have the same answers, but for what moto
leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tideline.glue.address import GlueAddress
from tideline.glue.client import GlueClient, Refused
from tideline.storage.s3.client import S3Credentials
from tideline.testing.glue_moto import moto_of_glue
from tideline.testing.glue_server import GlueServer
from tideline.testing.peer_environment import PeerUnavailableError

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TABLE = {"DatabaseName": "db", "TableName": "t"}
INPUT = {
    "Name": "t",
    "TableType": "EXTERNAL_TABLE",
    "Parameters": {"a": "b"},
    "StorageDescriptor": {"Columns": [{"Name": "id", "Type": "bigint"}], "Location": "s3://b/t"},
    "PartitionKeys": [{"Name": "day", "Type": "string"}],
}
CHANGED = {**INPUT, "Parameters": {"a": "c"}}


def partition(day: str) -> dict[str, Any]:
    return {"Values": [day], "StorageDescriptor": {"Location": f"s3://b/t/{day}", "Columns": []}}


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("GetDatabase", {"Name": "db"}),
    ("CreateDatabase", {"DatabaseInput": {"Name": "db"}}),
    ("CreateDatabase", {"DatabaseInput": {"Name": "db"}}),
    ("GetDatabases", {}),
    ("GetTable", {"DatabaseName": "db", "Name": "t"}),
    ("CreateTable", {"DatabaseName": "db", "TableInput": INPUT}),
    ("CreateTable", {"DatabaseName": "db", "TableInput": INPUT}),
    ("CreateTable", {"DatabaseName": "no", "TableInput": INPUT}),
    ("GetTable", {"DatabaseName": "db", "Name": "t"}),
    ("UpdateTable", {"DatabaseName": "db", "TableInput": CHANGED, "SkipArchive": True}),
    ("GetTable", {"DatabaseName": "db", "Name": "t"}),
    ("GetTables", {"DatabaseName": "db"}),
    ("BatchCreatePartition", {**TABLE, "PartitionInputList": [partition("1"), partition("2")]}),
    ("BatchCreatePartition", {**TABLE, "PartitionInputList": [partition("1")]}),
    ("GetPartitions", TABLE),
    ("BatchUpdatePartition", {**TABLE, "Entries": [
        {"PartitionValueList": ["1"], "PartitionInput": partition("1")}]}),
    ("BatchDeletePartition", {**TABLE, "PartitionsToDelete": [{"Values": ["1"]}]}),
    ("BatchDeletePartition", {**TABLE, "PartitionsToDelete": [{"Values": ["1"]}]}),
    ("GetPartitions", TABLE),
    ("DeleteTable", {"DatabaseName": "db", "Name": "t"}),
    ("GetTable", {"DatabaseName": "db", "Name": "t"}),
]  # fmt: skip


@pytest.fixture
def moto() -> Iterator[str]:
    try:
        with moto_of_glue() as url:
            yield url
    except PeerUnavailableError as failure:
        pytest.skip(f"moto cannot be installed: {failure}")


def answers(url: str) -> list[object]:
    keys = S3Credentials("key", "secret-of-nobody")
    client = GlueClient(GlueAddress("eu-west-1", url), lambda: keys)
    return [shown(client.call(action, request)) for action, request in STEPS]


def shown(found: dict[str, Any] | Refused) -> object:
    """What both know of: moto says more of a database and a table."""
    if isinstance(found, Refused):
        return found.code
    tables = found.get("TableList") or [found["Table"] for _ in range("Table" in found)]
    return {
        "databases": [item["Name"] for item in found.get("DatabaseList") or []],
        "tables": [[item.get(member) for member in (*INPUT, "DatabaseName")] for item in tables],
        "partitions": [(item["Values"], item["StorageDescriptor"]["Location"])
                       for item in found.get("Partitions") or []],
        "errors": [(item["PartitionValues"], item["ErrorDetail"]["ErrorCode"])
                   for item in found.get("Errors") or []],
    }  # fmt: skip


def test_the_same_requests_have_the_same_answers(moto: str) -> None:
    with GlueServer() as ours:
        assert answers(moto) == answers(ours.url)


def test_moto_looks_at_no_version(moto: str) -> None:
    """Once it does, our own server is one stand-in too many."""
    keys = S3Credentials("key", "secret-of-nobody")
    for url, is_refused in ((moto, False), (None, True)):
        with GlueServer() as ours:
            client = GlueClient(GlueAddress("eu-west-1", url or ours.url), lambda: keys)
            client.call("CreateDatabase", {"DatabaseInput": {"Name": "db"}})
            client.call("CreateTable", {"DatabaseName": "db", "TableInput": INPUT})
            update = {"DatabaseName": "db", "TableInput": CHANGED, "VersionId": "77"}
            assert isinstance(client.call("UpdateTable", update), Refused) is is_refused
