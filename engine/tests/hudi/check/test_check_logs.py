"""Tables with log files: sound ones are sound, damaged and missing logs are reported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.formats.avro import encode_container
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Instant
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(8), 1))
    for version in (2, 3):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    yield table
    table.forget()


def log_paths(table: SmallTable) -> list[str]:
    opened = open_fresh(table.location, clock=table.clock)
    view = opened.files.view(opened.timeline())
    return [
        log.path
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        for log in file_slice.log_files
    ]


def test_a_sound_table_with_logs_has_no_findings(table: SmallTable) -> None:
    assert log_paths(table)
    assert table.lake().check(keys=True) == ()


def test_rows_on_top_of_a_compaction_that_waits_are_no_finding(table: SmallTable) -> None:
    due = {"hoodie.compact.inline.max.delta.commits": "1"}
    compaction = local_services(table, due).schedule(COMPACTION)
    assert isinstance(compaction, Instant)
    table.write("upsert", batch(range(4), 4))
    assert any(str(compaction.time) in path for path in log_paths(table))
    assert table.lake().check(keys=True) == ()


def test_a_missing_log_file_is_an_error(table: SmallTable) -> None:
    path = log_paths(table)[-1]
    table.store().delete(path)
    (found,) = table.lake().check()
    assert (str(found.severity), found.path) == ("error", path)


def test_a_truncated_log_file_is_recognised_by_its_size_and_its_block(table: SmallTable) -> None:
    path = log_paths(table)[-1]
    table.store().put(path, table.store().get(path)[:-5])
    found = [
        (str(finding.severity), finding.message)
        for finding in table.lake().check()
        if finding.path == path
    ]
    assert (
        "warning",
        "1 damaged block, which readers skip and a compaction leaves behind",
    ) in found
    assert any(severity == "error" and "its commit says" in text for severity, text in found)


def test_a_log_file_that_is_none_is_an_error(table: SmallTable) -> None:
    path = log_paths(table)[-1]
    table.store().put(path, b"x" * len(table.store().get(path)))
    (found,) = table.lake().check()
    assert (str(found.severity), found.path) == ("error", path)
    assert "cannot be read" in found.message


def test_a_log_file_on_a_version_that_never_committed_is_left_over(table: SmallTable) -> None:
    name = ".22222222-2222-2222-2222-222222222222-0_20300101000000000.log.1_0-0-0"
    table.store().put(f"p0/{name}", table.store().get(log_paths(table)[0]))
    (found,) = table.lake().check()
    assert (str(found.severity), found.path) == ("warning", f"p0/{name}")
    table.lake().repair()
    assert table.lake().check(keys=True) == ()


def test_a_pending_plan_that_names_a_missing_file_is_an_error(table: SmallTable) -> None:
    (log, *_) = log_paths(table)
    partition, name = log.rsplit("/", 1)
    file = LogFile.parse(partition, name)
    assert file is not None
    operation = {
        "baseInstantTime": str(file.instant),
        "deltaFilePaths": [name],
        "dataFilePath": None,
        "fileId": file.file_id,
        "partitionPath": partition,
    }
    path = ".hoodie/20300101000000000.compaction.requested"
    plan = encode_container("HoodieCompactionPlan", {"operations": [operation], "version": 2})
    table.store().put(path, plan)
    assert [finding for finding in table.lake().check() if str(finding.severity) == "error"] == []
    table.store().delete(log)
    found = [finding.message for finding in table.lake().check() if finding.path == log]
    assert "20300101000000000.compaction.requested needs a file that is missing" in found
    table.store().put(path, plan[:30])
    broken = [finding for finding in table.lake().check() if finding.path == path]
    assert [str(finding.severity) for finding in broken] == ["error"]
