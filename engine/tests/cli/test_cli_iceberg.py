"""`tideline iceberg show` and `plan`: what they print, and how they fail."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestEntry,
)
from tideline.iceberg.manifest.manifest_entry import ManifestContent as Content
from tideline.iceberg.manifest.manifest_file import encode_manifest
from tideline.iceberg.manifest.manifest_list import encode_manifest_list
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import IDENTITY, PartitionField, PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import Snapshot, SnapshotRef
from tideline.testing.fixtures import fixture_table
from tideline.testing.iceberg_values import data_file, table_metadata

SPARK = "iceberg-duckdb.hist.generated_spec2_0_001/data/generated_spec2_0_001/pyspark_iceberg_table"
SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", Primitive("long"), required=True),
        NestedField(2, "region", Primitive("string")),
    ),
)
SPEC = PartitionSpec(0, (PartitionField(2, 1000, "region", IDENTITY),))
MB = 1_000_000


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Six small files in `a`, two in `b`, one of the right size in `b`, one half deleted in `c`."""
    files = [data_file(f"a{n}", partition=("a",), file_size_bytes=MB) for n in range(6)]
    files += [data_file(f"b{n}", partition=("b",), file_size_bytes=MB) for n in range(2)]
    # A plan that takes it looks for row groups to copy in it.
    right = tmp_path / "orders" / "data" / "right.parquet"
    right.parent.mkdir(parents=True)
    right.write_bytes(b"no parquet")
    files += [data_file(str(right), partition=("b",), file_size_bytes=500 * MB)]
    half = {"partition": ("c",), "file_size_bytes": 500 * MB, "record_count": 10}
    files += [data_file("half", **half)]
    delete = data_file(
        "d", content=FileContent.POSITION_DELETES, partition=("c",), record_count=5,
        referenced_data_file="half",
    )  # fmt: skip
    return write_table(tmp_path / "orders", files, [delete])


def write_table(folder: Path, data: list[DataFile], deletes: list[DataFile]) -> str:
    """Metadata of a table whose files need not exist; the branch `audit` and a tag follow main."""
    (folder / "metadata").mkdir(parents=True)
    manifests = []
    for content, files in ((Content.DATA, data), (Content.DELETES, deletes)):
        entries = [ManifestEntry(EntryStatus.ADDED, 7, None, None, file) for file in files]
        encoded = encode_manifest(
            entries, spec=SPEC, schema=SCHEMA, content=content, format_version=2, snapshot_id=7
        )
        path = folder / "metadata" / f"{content.name}.avro"
        path.write_bytes(encoded.body)
        manifests.append(encoded.at(str(path)))
    listed = encode_manifest_list(
        manifests, snapshot_id=7, parent_snapshot_id=None, sequence_number=1, format_version=2
    )
    path = folder / "metadata" / "snap-7.avro"
    path.write_bytes(listed.body)
    snapshot = Snapshot(
        7, None, 1, 1_767_225_600_000, "append", {"total-files-size": "1008000000"}, str(path)
    )
    plain = table_metadata(SCHEMA, SPEC, properties={"owner": "tests"})
    document = plain.json() | {
        "location": str(folder),
        "snapshots": [snapshot.json(2)],
        "current-snapshot-id": 7,
        "refs": {
            "main": SnapshotRef(7).json(),
            "audit": SnapshotRef(7).json(),
            "kept": SnapshotRef(7, "tag").json(),
        },
        "last-sequence-number": 1,
    }
    (folder / "metadata" / "v1.metadata.json").write_text(json.dumps(document))
    return str(folder)


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_show_describes_the_table(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iceberg", "show", uri, "--json"]) == 0
    shown = printed_json(capsys)
    assert shown["uri"] == f"file://{uri}"
    assert (shown["format_version"], shown["snapshot"], shown["operation"]) == (2, "7", "append")
    assert shown["committed"] == "2026-01-01T00:00:00"
    assert (shown["data_files"], shown["delete_files"], shown["size_bytes"]) == (10, 1, 1008 * MB)
    assert shown["partition_by"] == ["region"]
    assert [reference["name"] for reference in shown["refs"]] == ["audit", "kept", "main"]
    assert [(column["id"], column["name"], column["type"]) for column in shown["columns"]] == [
        (1, "id", "long"),
        (2, "region", "string"),
    ]
    assert run(["iceberg", "show", uri]) == 0
    text = capsys.readouterr().out
    assert "1.0 GB" in text
    assert "kept (tag)" in text


@pytest.mark.fixtures
def test_show_describes_a_table_of_sparks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iceberg", "show", str(fixture_table(SPARK)), "--json"]) == 0
    shown = printed_json(capsys)
    assert (shown["data_files"], shown["delete_files"], shown["data_manifests"]) == (5, 3, 5)
    assert shown["rows_with_deleted"] == 18_044


def test_plan_says_what_would_be_rewritten_and_why(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iceberg", "plan", uri, "--json"]) == 0
    planned = printed_json(capsys)
    assert planned["snapshot"] == "7"
    assert (planned["files_before"], planned["files_after"]) == (7, 2)
    assert (planned["bytes_before"], planned["bytes_after"]) == (506 * MB, 256 * MB)
    assert [
        (group["partition"], group["files_before"], group["delete_files"], group["reason"])
        for group in planned["groups"]
    ] == [
        ("region=a", 6, 0, "enough files of the wrong size"),
        ("region=c", 1, 1, "a file with as many deleted rows as the threshold"),
    ]
    assert {item["reason"]: item["files"] for item in planned["skipped"]} == {
        "the right size, and few deletes": 1,
        "too few files and bytes to gain anything": 2,
    }


def test_plan_is_readable_for_people(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iceberg", "plan", uri]) == 0
    text = capsys.readouterr().out
    assert "7 files, 506.0 MB, would become about 2 files, 256.0 MB." in text
    assert "region=a" in text
    assert "2 files, 2.0 MB, stay: too few files and bytes to gain anything." in text


@pytest.mark.parametrize(
    ("arguments", "groups"),
    [
        (["--where", "region = 'b'", "--option", "min-input-files=2"], ["region=b"]),
        (["--where", "region in ('a', 'c')"], ["region=a", "region=c"]),
        (["--where", "region = 'nowhere'"], []),
        (["--option", "rewrite-all=true"], ["region=a", "region=b", "region=c"]),
        (["--sort-order", "zorder(id, region)"], ["region=a", "region=c"]),
        (["--branch", "audit"], ["region=a", "region=c"]),
    ],
)
def test_plan_takes_a_filter_options_and_a_strategy(
    uri: str, arguments: list[str], groups: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iceberg", "plan", uri, *arguments, "--json"]) == 0
    assert [group["partition"] for group in printed_json(capsys)["groups"]] == groups


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "regoin = 'b'"], "the columns are id, region"),
        (["--where", "region = "], "expected a value"),
        (["--option", "min-input-file=2"], "did you mean min-input-files?"),
        (["--option", "output-spec-id=3"], "there are 0"),
        (["--strategy", "zorder"], "needs its columns"),
        (["--branch", "nowhere"], "no such branch"),
        (["--branch", "kept"], "only a branch"),
        (["--catalog-option", "uri=x"], "needs --catalog"),
    ],
)
def test_a_wrong_request_is_a_usage_error(
    uri: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iceberg", "plan", uri, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_table_and_a_missing_manifest_are_the_tables_fault(
    tmp_path: Path, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iceberg", "show", str(tmp_path / "nothing")]) == 1
    assert str(tmp_path / "nothing") in capsys.readouterr().err
    Path(uri, "metadata", "DATA.avro").unlink()
    assert run(["iceberg", "plan", uri, "--json"]) == 1
    error = json.loads(capsys.readouterr().err)
    assert error["error"] == "CorruptTable"
    assert "DATA.avro" in error["message"]


def test_a_table_that_was_moved_is_planned_where_it_is(
    tmp_path: Path, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(uri, moved)
    assert run(["iceberg", "plan", str(moved), "--json"]) == 0
    assert printed_json(capsys)["files_before"] == 7


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["iceberg", "--help"]) == 0
    text = capsys.readouterr().out
    assert "show" in text
    assert "plan" in text
    assert run(["--help"]) == 0
    assert "iceberg" in capsys.readouterr().out
