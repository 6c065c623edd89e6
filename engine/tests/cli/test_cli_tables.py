"""`create`, `show`, `timeline` and `files`: commands that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.cli.main import run
from tideline.hudi.open_table import open_table
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.sources.checkpoint import checkpoint_metadata
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.quarantine import quarantine, quarantine_rows
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import checkpoint_after
from tideline.testing.write_batch import batch_engine, write_batch

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int64())])


def write(
    uri: str,
    rows: list[dict[str, Any]],
    operation: str = "upsert",
    extra_metadata: Mapping[str, str] | None = None,
) -> str:
    """Commit rows without Spark; returns the instant."""
    table = tideline.open(uri)
    batch = pa.Table.from_pylist(rows, schema=SCHEMA)
    wanted = WriteOperation.parse(operation)
    report = write_batch(table, batch_engine(table, batch, wanted), wanted, extra_metadata)
    return report.instant


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    tideline.create(uri, schema=SCHEMA, record_key=["id"], partition_by=["day"], ordering=["n"])
    return uri


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_created_table_is_shown_as_it_was_defined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "orders")
    arguments = ["--record-key", "id", "--partition-by", "day", "--ordering", "n"]
    assert run(["create", uri, *arguments, "--property", "hoodie.index.type=SIMPLE"]) == 0
    assert "Created the COPY_ON_WRITE table orders." in capsys.readouterr().out

    assert run(["show", uri, "--json"]) == 0
    shown = printed_json(capsys)
    assert shown["name"] == "orders"
    assert shown["uri"] == f"file://{uri}"
    assert (shown["record_key"], shown["partition_by"], shown["ordering"]) == (
        ["id"],
        ["day"],
        ["n"],
    )
    assert shown["index"] == "SIMPLE"
    assert shown["columns"] is None
    assert shown["commits"] == 0
    assert shown["properties"]["hoodie.table.version"] == "9"


def test_a_table_is_created_with_the_version_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("8", "9"):
        uri = str(tmp_path / version)
        assert run(["create", uri, "--record-key", "id", "--table-version", version]) == 0
        capsys.readouterr()
        assert run(["show", uri, "--json"]) == 0
        assert printed_json(capsys)["properties"]["hoodie.table.version"] == version
    assert run(["create", str(tmp_path / "7"), "--record-key", "id", "--table-version", "7"]) == 2


def test_show_without_columns_says_who_decides_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "orders")
    assert run(["create", uri, "--record-key", "id"]) == 0
    assert run(["show", uri]) == 0
    assert "the first write decides" in capsys.readouterr().out


def test_create_takes_the_columns_of_a_parquet_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri, sample = str(tmp_path / "orders"), tmp_path / "sample.parquet"
    pq.write_table(SCHEMA.empty_table(), sample)
    assert run(["create", uri, "--record-key", "id", "--schema", str(sample), "--json"]) == 0
    assert printed_json(capsys)["columns"] == [
        {"name": "id", "type": "string", "nullable": True},
        {"name": "day", "type": "string", "nullable": True},
        {"name": "n", "type": "long", "nullable": True},
    ]


def test_create_takes_the_columns_of_an_avro_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri, sample = str(tmp_path / "orders"), tmp_path / "orders.avsc"
    fields = [
        {"name": "id", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
    ]  # fmt: skip
    sample.write_text(json.dumps({"type": "record", "name": "orders", "fields": fields}))
    assert run(["create", uri, "--record-key", "id", "--schema", str(sample), "--json"]) == 0
    assert [(c["name"], c["type"], c["nullable"]) for c in printed_json(capsys)["columns"]] == [
        ("id", "string", False),
        ("at", "timestamp", True),
        ("tags", "array<string>", True),
        ("price", "decimal(9,2)", False),
    ]


def test_a_file_that_holds_no_schema_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tmp_path / "notes.txt"
    sample.write_text("not a schema")
    target = tmp_path / "orders"
    assert run(["create", str(target), "--record-key", "id", "--schema", str(sample)]) == 2
    assert "notes.txt" in capsys.readouterr().err
    assert not target.exists()


def test_a_second_create_is_refused_and_changes_nothing(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = Path(uri, ".hoodie/hoodie.properties")
    before = properties.read_bytes()
    assert run(["create", uri, "--record-key", "other"]) == 2
    assert "exists here already" in capsys.readouterr().err
    assert properties.read_bytes() == before


def test_show_counts_what_readers_see(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(uri, [{"id": "a", "day": "mon", "n": 1}, {"id": "b", "day": "tue", "n": 1}])
    instant = write(uri, [{"id": "a", "day": "mon", "n": 2}])
    assert run(["show", uri, "--json"]) == 0
    shown = printed_json(capsys)
    assert shown["commits"] == 2
    assert shown["latest_commit"] == instant
    assert shown["partitions"] == 2
    assert shown["file_groups"] == 2
    parquet = list(Path(uri).rglob("*.parquet"))
    assert 0 < shown["size_bytes"] < sum(file.stat().st_size for file in parquet)
    assert [column["name"] for column in shown["columns"]] == ["id", "day", "n"]


def test_show_says_where_ingests_are_and_what_they_set_aside(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ArrivedFile("1.csv", 10, 1)
    quarantined = StoreLocation.of(str(tmp_path / "landing")).open()
    quarantine(quarantined, file, reason="why", now_ms=1)
    quarantine_rows(
        quarantined, ArrivedFile("2.csv", 10, 1), [{"row": 1}, {"row": 2}], FileListing()
    )
    checkpoint = replace(checkpoint_after(None, FileListing((file,)), [file]), address="../landing")
    rows = [{"id": "a", "day": "mon", "n": 1}]
    write(uri, rows, extra_metadata=checkpoint_metadata({"landing": checkpoint}))
    assert run(["show", uri, "--json"]) == 0
    shown = printed_json(capsys)["ingests"]
    assert shown == [
        {
            "name": "landing",
            "prefix": f"file://{tmp_path}/landing",
            "generation": 1,
            "up_to": "1.csv",
            "set_aside": "1 file and 2 rows of 1 other file set aside in _quarantine/",
        }
    ]
    assert run(["show", uri]) == 0
    assert "2 rows of 1 other file" in capsys.readouterr().out
    assert run(["plan", uri, "--json"]) == 0
    assert printed_json(capsys)["ingests"] == shown
    assert run(["plan", uri]) == 0
    printed = capsys.readouterr().out
    assert f"set aside in _quarantine/ of file://{tmp_path}/landing." in printed
    assert run(["plan", "cleaning", uri]) == 0
    assert "_quarantine" not in capsys.readouterr().out


def test_show_names_the_zone_of_the_instants(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    def zone() -> str:
        assert run(["show", uri, "--json"]) == 0
        return str(printed_json(capsys)["timezone"])

    assert zone() == "UTC: the table is UTC by its properties"
    table = open_table(StoreLocation.of(uri))
    table.properties.update({"hoodie.table.timeline.timezone": "LOCAL"})
    assert zone() == "UTC: nothing shows the time zone of its instants"
    table.instants.declare_zone("Asia/Kolkata")
    instant = table.timelines.create_requested(table.instants.next_time(), Action.COMMIT)
    completed = table.instants.completed_now(table.timelines.to_inflight(instant))
    table.timelines.publish(completed, table.layout.timeline.encode_commit(CommitMetadata({})))
    assert zone() == "+05:30 from UTC, not declared: nothing is written"
    table.properties.update({"tideline.timezone": "Asia/Kolkata"})
    assert zone() == "Asia/Kolkata: declared"


def test_timeline_lists_commits_with_what_they_did(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write(uri, [{"id": "a", "day": "mon", "n": 1}, {"id": "b", "day": "mon", "n": 1}])
    second = write(uri, [{"id": "a", "day": "mon", "n": 2}, {"id": "c", "day": "mon", "n": 1}])
    assert run(["list-instants", uri, "--json"]) == 0
    listed = printed_json(capsys)["instants"]
    columns = ("instant", "operation", "inserted", "updated")
    assert [tuple(item[name] for name in columns) for item in listed] == [
        (first, "upsert", 2, 0),
        (second, "upsert", 1, 1),
    ]
    assert {(item["action"], item["state"]) for item in listed} == {("commit", "COMPLETED")}


def test_timeline_shows_the_newest_and_says_how_many_are_older(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    instants = [write(uri, [{"id": "a", "day": "mon", "n": n}]) for n in range(3)]
    assert run(["list-instants", uri, "--limit", "2"]) == 0
    output = capsys.readouterr().out
    assert instants[0] not in output
    assert all(instant in output for instant in instants[1:])
    assert "1 older instant not shown" in output


def test_timeline_pending_lists_only_what_has_not_completed(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(uri, [{"id": "a", "day": "mon", "n": 1}])
    assert run(["list-instants", uri, "--pending"]) == 0
    assert "Nothing pending." in capsys.readouterr().out
    Path(uri, ".hoodie/timeline/20990101000000000.commit.requested").touch()
    assert run(["list-instants", uri, "--pending", "--json"]) == 0
    assert printed_json(capsys)["instants"] == [
        {"instant": "20990101000000000", "action": "commit", "state": "REQUESTED"}
    ]


def test_files_lists_the_newest_file_of_every_group(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write(uri, [{"id": "a", "day": "mon", "n": 1}, {"id": "b", "day": "tue", "n": 1}])
    second = write(uri, [{"id": "a", "day": "mon", "n": 2}])
    assert run(["list-files", uri, "--json"]) == 0
    listed = printed_json(capsys)["files"]
    assert [(entry["partition"], entry["instant"]) for entry in listed] == [
        ("mon", second),
        ("tue", first),
    ]
    for item in listed:
        assert Path(uri, item["base_file"]).stat().st_size == item["size_bytes"]


def test_files_as_of_an_instant_lists_what_was_current_then(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write(uri, [{"id": "a", "day": "mon", "n": 1}])
    for n in (2, 3):
        write(uri, [{"id": "a", "day": "mon", "n": n}, {"id": "b", "day": "tue", "n": n}])
    assert run(["list-files", uri, "--as-of", first, "--partition", "mon", "--json"]) == 0
    assert [file["instant"] for file in printed_json(capsys)["files"]] == [first]
    assert run(["list-files", uri, "--as-of", "9999-12-31T00:00:00Z"]) == 2
    assert "is in the future" in capsys.readouterr().err


def test_output_in_a_pipe_is_plain_and_complete(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long_name = "partition-" + "x" * 200
    write(uri, [{"id": "a", "day": long_name, "n": 1}])
    assert run(["list-files", uri]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert long_name in output
