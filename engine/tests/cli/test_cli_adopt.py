"""`tideline adopt`: the adoption report of a table, read without changing it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.hudi.table.properties import PROPERTIES_PATH, update_table_properties
from tideline.hudi.table.table_config import BUCKET_COUNT, INDEX_TYPE, TableType
from tideline.publication.publish import publish_table
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store_proxy import FaultyStoreProxy
from tideline.testing.fixtures import all_expected, fixture_table
from tideline.testing.small_table import SmallTable, batch

Captured = pytest.CaptureFixture[str]
DOCUMENTED = (Path(__file__).parents[3] / "docs" / "adopting.md").read_text("utf-8")


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    made = SmallTable.create(
        StoreLocation.of(str(tmp_path / "orders")), table_type=TableType.MERGE_ON_READ
    )
    made.write("upsert", batch(range(4), 1))
    made.write("upsert", batch(range(2), 2))
    return made


def stored(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def adopt(uri: str, capsys: Captured, *, code: int = 0) -> dict[str, Any]:
    assert run(["adopt", uri, "--json"]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def page(uri: str, capsys: Captured, *, code: int = 0) -> str:
    assert run(["adopt", uri]) == code
    return capsys.readouterr().out


def set_properties(table: SmallTable, **changes: str) -> None:
    properties = {name.replace("__", "."): text for name, text in changes.items()}
    update_table_properties(table.store(), properties)


def test_nothing_on_disk_changes(table: SmallTable, tmp_path: Path, capsys: Captured) -> None:
    # A control folder as a process left it that died: markers, a heartbeat, half an update.
    (tmp_path / "orders/.hoodie/.temp/20240101000000000").mkdir(parents=True)
    (tmp_path / "orders/.hoodie/.heartbeat").mkdir(exist_ok=True)
    (tmp_path / "orders/.hoodie/.heartbeat/20240101000000000").touch()
    (tmp_path / "orders/.hoodie/20240101000000000.deltacommit.requested").touch()
    backup = tmp_path / "orders/.hoodie/hoodie.properties.backup"
    backup.write_bytes((tmp_path / "orders/.hoodie/hoodie.properties").read_bytes())
    before, folders = stored(tmp_path), sorted(tmp_path.rglob("*"))
    adopt(table.location.uri, capsys)
    page(table.location.uri, capsys)
    assert stored(tmp_path) == before
    assert sorted(tmp_path.rglob("*")) == folders


@pytest.mark.minio
def test_on_s3_nothing_is_put_or_deleted(
    s3_location: StoreLocation, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    endpoint = dict(s3_location.options)["endpoint"]
    table = SmallTable.create(s3_location)
    table.write("upsert", batch(range(4), 1))
    with FaultyStoreProxy(endpoint.removeprefix("http://")) as proxy:
        monkeypatch.setenv("TIDELINE_S3_ENDPOINT", proxy.endpoint)
        monkeypatch.setenv("TIDELINE_S3_ALLOW_HTTP", "true")
        assert adopt(s3_location.uri, capsys)["state"]["files"]["base_files"] == 2
        page(s3_location.uri, capsys)
        methods = {request.method for request in proxy.requests}
    assert methods <= {"GET", "HEAD"}
    assert "GET" in methods


def test_it_reports_what_the_table_is_and_what_lies_in_it(
    table: SmallTable, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "orders/notes.txt").write_text("whose is this?")
    (tmp_path / "orders/below/.hoodie").mkdir(parents=True)
    (tmp_path / "orders/below/.hoodie/hoodie.properties").write_text("hoodie.table.name=below\n")
    report = adopt(table.location.uri, capsys)
    assert (report["version"], report["type"], report["record_key"]) == (9, "MERGE_ON_READ", ["id"])
    assert report["timezone"]["basis"] == "stated"
    assert report["merging"]["mode"] == "COMMIT_TIME_ORDERING"
    assert not report["refused"]
    assert all(operation["may"] for operation in report["operations"])
    state = report["state"]
    assert state["commits"] == 2
    assert state["pending"] == []
    assert (state["files"]["file_groups"], state["files"]["groups_with_logs"]) == (2, 2)
    assert state["foreign"]["nested_tables"] == [{"path": "below", "format": "hudi"}]
    assert (state["foreign"]["files"], state["foreign"]["examples"]) == (1, ["notes.txt"])


def test_what_it_is_published_as_is_its_own(table: SmallTable, capsys: Captured) -> None:
    publish_table(table.lake().hoodie_table)
    state = adopt(table.location.uri, capsys)["state"]
    assert (state["published_files"], state["foreign"]["files"]) == (5, 0)
    assert "as Iceberg, 5 files in metadata/" in page(table.location.uri, capsys)


def test_every_name_in_its_json_is_documented(table: SmallTable, capsys: Captured) -> None:
    report = adopt(table.location.uri, capsys)
    names = {
        *report,
        *report["state"],
        *report["state"]["files"],
        *report["writers"],
        *report["index"],
    }
    names |= {*report["operations"][0], *report["timezone"], *report["schema"], *report["merging"]}
    assert not [name for name in sorted(names) if f"`{name}`" not in DOCUMENTED]
    operations = {operation["name"] for operation in report["operations"]}
    assert not [name for name in sorted(operations) if f"`{name}`" not in DOCUMENTED]


def test_its_lines_fit_and_its_commands_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    folder = tmp_path / "it's here"
    table = SmallTable.create(StoreLocation.of(str(folder)), table_type=TableType.MERGE_ON_READ)
    table.write("upsert", batch(range(4), 1))
    set_properties(table, hoodie__compaction__payload__class="com.acme.Payload")
    text = page(str(folder), capsys)
    lines = text.splitlines()
    commands = [line.strip() for line in lines if line.startswith("    tideline ")]
    wide = [line for line in lines if len(line) > 80 and line.strip() not in commands]
    assert set(wide) <= {StoreLocation.of(str(folder)).uri}
    assert "Records are merged in a custom way (com.acme.Payload)." in text
    assert [shlex.split(name)[1] for name in commands] == ["check", "plan", "read"]
    assert "--read-optimized" in commands[-1], "its logs are not merged"
    monkeypatch.chdir(tmp_path)
    for command in commands[:2]:
        assert run(shlex.split(command)[1:]) == 0


def test_a_zone_that_has_to_be_declared_is_declared_as_printed(capsys: Captured) -> None:
    table = SmallTable.in_memory({"tideline.timezone": "Asia/Kolkata"})
    table.write("upsert", batch(range(4), 1))
    table.fake_clock.advance(3600)
    table.write("upsert", batch(range(4), 2))
    update_table_properties(
        table.store(), {"tideline.timezone": None, "hoodie.table.timeline.timezone": "LOCAL"}
    )
    uri = table.location.uri
    report = adopt(uri, capsys)
    refused = {operation["name"] for operation in report["operations"] if not operation["may"]}
    assert {"write", "cleaning", "rollback"} <= refused
    assert not refused & {"read", "merge_logs", "check", "savepoint"}
    (write,) = [operation for operation in report["operations"] if operation["name"] == "write"]
    assert (write["declare"], "LakeTable" in write["where"]) == ("tideline.timezone", True)
    (command,) = re.findall(r"(?m)^    tideline (declare .*)", page(uri, capsys))
    assert run(shlex.split(command)) == 0
    capsys.readouterr()
    assert all(operation["may"] for operation in adopt(uri, capsys)["operations"])


@pytest.mark.parametrize("version", ["2", "3", "6", "10"])
def test_a_table_that_is_refused_altogether_says_what_it_is(
    table: SmallTable, capsys: Captured, version: str
) -> None:
    body = table.store().get(PROPERTIES_PATH).decode().replace("version=9", f"version={version}")
    table.store().put(PROPERTIES_PATH, body.encode())
    report = adopt(table.location.uri, capsys, code=1)
    assert (report["version"], report["refused"], report["state"]) == (int(version), True, None)
    assert not any(operation["may"] for operation in report["operations"])
    text = page(table.location.uri, capsys, code=1)
    assert f"A Hudi table of version {version}" in text
    assert "Tideline does nothing with it" in text


def test_where_no_table_is_it_says_so(tmp_path: Path, capsys: Captured) -> None:
    assert run(["adopt", str(tmp_path)]) == 1
    assert "no Hudi table here, nor an Iceberg table" in capsys.readouterr().err


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("equality_deletes/data/equality_deletes/warehouse/mydb/mytable", 2),
        ("hist.generated_spec1_0_01/data/generated_spec1_0_01/pyspark_iceberg_table", 1),
        ("column_mapping/data/column_mapping/warehouse/default.db/my_table", None),
    ],
)
def test_an_iceberg_table_has_a_short_one(name: str, says: int | None, capsys: Captured) -> None:
    folder = fixture_table(f"iceberg-duckdb.{name}")
    before = stored(folder)
    report = adopt(str(folder), capsys, code=0 if says else 1)
    assert report["format"] == "iceberg"
    assert report.get("format_version") == says
    assert ("catalog" in (report["reason"] or "")) is (says is None)
    assert "An Iceberg table" in page(str(folder), capsys, code=0 if says else 1)
    assert stored(folder) == before


FOREIGN = (
    "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor",
    "hudi-trino.hudi_multi_fg_pt_v6_mor/data/hudi_multi_fg_pt_v6_mor",
    "hudi-trino.hudi_v6_composite_key/data/hudi_v6_composite_key",
    "hudi-rs.cow.v6_simplekeygen_hivestyle_no_metafields/data/v6_simplekeygen_hivestyle_no_metafields",
    "hudi-upgrade.unsupported-upgrade-tables.hudi-v4-table/data/hudi-v4-table",
    "hudi-upgrade.unsupported-upgrade-tables.hudi-v5-table/data/hudi-v5-table",
    "hudi-rs.cow.v8_complexkeygen_hivestyle/data/v8_complexkeygen_hivestyle",
    "hudi-rs.cow.v9_txns_simple_meta/data/v9_txns_simple_meta",
)  # fmt: skip


@pytest.mark.fixtures
@pytest.mark.parametrize("name", FOREIGN)
def test_tables_of_others_are_reported_as_they_are(
    name: str, capsys: Captured, wide_words: Callable[[str], list[str]]
) -> None:
    folder = fixture_table(name)
    expected = all_expected()[name]
    before = stored(folder)
    is_read = expected["table_version"] in ("4", "5", "6", "8", "9")
    report = adopt(str(folder), capsys, code=0 if is_read else 1)
    text = page(str(folder), capsys, code=0 if is_read else 1)
    assert stored(folder) == before
    assert str(report["version"]) == expected["table_version"]
    assert report["type"] == expected["table_type"]
    assert ",".join(report["record_key"]) == expected.get("record_key", "")
    partitions = ",".join(report["metadata_partitions"])
    assert partitions == expected.get("mdt_partitions", "")
    assert wide_words(text) == []
    changes = {operation["name"] for operation in report["operations"] if operation["may"]}
    assert ("write" in changes) is (expected["table_version"] in ("6", "8", "9"))
    assert ("read" in changes) is is_read


@pytest.fixture
def wide_words() -> Callable[[str], list[str]]:
    """Lines above 80 characters that could have been broken."""

    def find(text: str) -> list[str]:
        return [
            line
            for line in text.splitlines()
            if len(line) > 80 and not line.startswith("    tideline") and "  " not in line.strip()
            and " " in line.strip().removeprefix("- ")
        ]  # fmt: skip

    return find


@pytest.mark.parametrize("keys", [200, 2])
def test_the_number_of_buckets_is_asked_of_stored_keys(keys: int, capsys: Captured) -> None:
    count = "hoodie.bucket.index.num.buckets"
    table = SmallTable.in_memory({"hoodie.index.type": "BUCKET", count: "4"})
    table.write("upsert", batch(range(keys), 1))
    table.lake().hoodie_table.properties.update(dict.fromkeys((INDEX_TYPE, BUCKET_COUNT)))
    report = adopt(table.location.uri, capsys)
    assert report["index"]["known_from"] == "its file ids"
    is_doubtful = any(f"declare {count}" in text for text in report["warnings"])
    assert (report["index"]["buckets"], is_doubtful) == ((4, False) if keys > 2 else (None, True))
    assert ("SIMPLE, 4 buckets, known by" in page(table.location.uri, capsys)) is (keys > 2)


def test_a_flink_job_is_known_by_what_it_left(table: SmallTable, capsys: Captured) -> None:
    assert adopt(table.location.uri, capsys)["writers"]["flink"] is False
    table.store().put(".hoodie/.aux/ckp_meta/20260101000000000.INFLIGHT", b"")
    assert adopt(table.location.uri, capsys)["writers"]["flink"] is True
