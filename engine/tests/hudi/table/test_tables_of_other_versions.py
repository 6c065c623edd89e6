"""Tables of versions that new ones do not have: their rows are those others read from them."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.look import look_at
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.layout_v2 import LayoutV2
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import canonical_rows, expected, fixture_table, tables_of_versions
from tideline.testing.table_audit import merged_rows

pytestmark = pytest.mark.fixtures

TABLES = tables_of_versions("8", "9")
ONLY_READ = tables_of_versions("3", "4", "5")
BOOTSTRAPPED = "hudi-common.bootstrap_data/data/bootstrap_data"
IN_LANCE = [path for path in TABLES if "lance" in path]
READ = [path for path in (*TABLES, *ONLY_READ) if path not in (BOOTSTRAPPED, *IN_LANCE)]
COMPACTED = "hudi-rs.trips-mor-avro.v9_mor_compacted_incremental/data/v9_mor_compacted_incremental"
LOGS_ALONE = "hudi-rs.trips-mor-avro.table_log_only/data/table_log_only"
WITH_HISTORY = "hudi-upgrade.mor-tables.hudi-v9-table-mor/data/hudi-v9-table-mor"


def table_of(path: str) -> HoodieTable:
    return open_table(StoreLocation.of(fixture_table(path)))


def stored(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_there_are_tables_of_both_versions_and_types() -> None:
    expected(WITH_HISTORY)
    kinds = [(expected(path)["table_version"], expected(path)["table_type"]) for path in READ]
    for version in ("8", "9"):
        assert kinds.count((version, "COPY_ON_WRITE")) >= 5
        assert kinds.count((version, "MERGE_ON_READ")) >= 10


@pytest.mark.interop
@pytest.mark.usefixtures("lance_library")
@pytest.mark.parametrize("path", IN_LANCE)
def test_the_rows_of_tables_in_lance_are_those_that_others_read(path: str) -> None:
    assert expected(path)["base_format"] == "LANCE"
    test_the_rows_are_those_that_others_read(path)


@pytest.mark.parametrize("path", READ)
def test_the_rows_are_those_that_others_read(path: str) -> None:
    answer = expected(path)["expected"]
    rows = merged_rows(table_of(path))
    assert rows.num_rows == answer["rows"]
    if answer["sha256_user_columns"]:
        _, lines = canonical_rows().rows(rows)
        assert canonical_rows().digest(lines) == answer["sha256_user_columns"]


def test_a_bootstrapped_table_reads_as_hudi_reads_it() -> None:
    """The fixture has Hudi's answer. hudi-rs, whose answer is in `expected.json`, gives rows of
    nulls for those that only the source files have."""
    answer = json.loads((fixture_table(BOOTSTRAPPED) / "merged_records.json").read_text())
    rows = merged_rows(table_of(BOOTSTRAPPED)).to_pylist()
    found = [
        (row["_row_key"], row["partition_path"], str(row["timestamp"]), row["rider"])
        for row in rows
    ]
    names = ("recordKey", "partitionPath", "orderingVal", "riderValue")
    assert sorted(found) == sorted(tuple(item[name] for name in names) for item in answer)
    assert len(rows) == expected(BOOTSTRAPPED)["expected"]["rows"]
    assert all(row["_hoodie_record_key"] == row["_row_key"] for row in rows)
    assert all(row["fare"]["currency"] == "USD" for row in rows)


def test_logs_that_a_compaction_took_are_not_merged_again() -> None:
    table = table_of(COMPACTED)
    view = table.files.read_view(table.timeline())
    (group,) = view.all_file_groups("")
    newest, oldest = group.slices
    assert [len(file_slice.log_files) for file_slice in (newest, oldest)] == [2, 2]
    assert all(log.instant > newest.base_instant for log in newest.log_files)
    assert all(log.instant < newest.base_instant for log in oldest.log_files)


def test_a_group_of_logs_alone_is_read() -> None:
    table = table_of(LOGS_ALONE)
    view = table.files.read_view(table.timeline())
    slices = [file_slice for name in view.partitions for file_slice in view.latest_slices(name)]
    assert any(file_slice.base_file is None and file_slice.log_files for file_slice in slices)


def test_the_history_has_the_commits_that_left_the_timeline() -> None:
    table = table_of(WITH_HISTORY)
    timeline = table.timeline()
    archived = {entry.instant.time for entry in table.commits.archive().commits()}
    assert timeline.start is not None
    assert archived
    assert max(archived) < timeline.start
    assert not archived & {instant.time for instant in timeline}
    for time in archived:
        completed = table.commits.archived_completion(time)
        assert completed is not None
        assert completed > time
        assert table.commits.is_archived(time)


@pytest.mark.parametrize("path", [COMPACTED, WITH_HISTORY])
def test_every_commit_says_what_it_wrote(path: str) -> None:
    table = table_of(path)
    for instant in table.timeline().of(*COMMIT_ACTIONS).completed():
        metadata = table.commits.read(instant)
        assert metadata.write_stats
        assert metadata.schema_json is not None
        assert all((stat.path or "").startswith(stat.partition_path or "")
                   for stat in metadata.write_stats)  # fmt: skip


@pytest.mark.parametrize("path", ONLY_READ)
def test_nothing_changes_them(path: str) -> None:
    before = stored(fixture_table(path))
    table = table_of(path)
    capabilities = look_at(table.location)
    allowed = {permission for permission in Permission if capabilities.may(permission) is None}
    assert allowed == {
        Permission.READ,
        Permission.MERGE_LOGS,
        Permission.CHECK,
        Permission.UPGRADE,
    }
    assert not capabilities.is_refused
    assert not capabilities.is_changed
    for operation in set(Permission) - allowed:
        refusal = capabilities.may(operation)
        assert refusal is not None
        assert "read, but not changed" in refusal.reason
        assert "upgrade it to version 6" in refusal.remedy
        with pytest.raises(UnsupportedTableError, match="read, but not changed"):
            admit(table, operation)
    with pytest.raises(UnsupportedTableError, match="read, but not changed"):
        table.properties.update({"tideline.timezone": "UTC"})
    with pytest.raises(UnsupportedTableError, match="read, not written"):
        table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    assert stored(fixture_table(path)) == before


@pytest.mark.parametrize("table", TABLES)
def test_commits_of_hudi_are_written_as_hudi_wrote_them(table: str) -> None:
    layout = LayoutV2()
    folder = fixture_table(table) / layout.directory
    for file in folder.iterdir():
        instant = layout.parse(file.name) if file.is_file() else None
        body = file.read_bytes() if instant is not None else b""
        if instant is None or not body or not carries_commit_metadata(instant):
            continue
        ours = layout.encode_commit(layout.decode_commit(body, instant))
        (wanted_schema, wanted), (schema, record) = contents(body), contents(ours)
        # Hudi 1.0 has fewer fields.
        assert schema == wanted_schema or stat_fields(wanted_schema) < stat_fields(schema)
        assert shared(record, wanted) == wanted, file


def carries_commit_metadata(instant: Instant) -> bool:
    """Whether Hudi puts commit metadata into the instant's file."""
    is_begun = instant.state is not State.REQUESTED
    return is_begun and instant.action in COMMIT_ACTIONS


def contents(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Schema and record of a container, as another library reads them."""
    reader = fastavro.reader(BytesIO(body))
    (record,) = list(reader)
    assert isinstance(record, dict)
    return json.loads(reader.metadata["avro.schema"]), record


def stat_fields(schema: dict[str, Any]) -> set[str]:
    """The fields of a write stat."""
    stat = schema["fields"][0]["type"][1]["values"]["items"]
    return {field["name"] for field in stat["fields"]}


def shared(record: Any, wanted: Any) -> Any:
    """The record with the fields that the wanted one has."""
    if isinstance(record, dict) and isinstance(wanted, dict):
        return {key: shared(record[key], wanted[key]) for key in wanted}
    if isinstance(record, list) and isinstance(wanted, list) and len(record) == len(wanted):
        return [shared(*pair) for pair in zip(record, wanted, strict=True)]
    return record
