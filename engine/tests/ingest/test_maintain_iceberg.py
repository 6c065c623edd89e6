"""Operations on Iceberg tables: what each does to the table and says of it."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tideline.iceberg.services.expire_snapshots.service import EXPIRE_SNAPSHOTS
from tideline.iceberg.services.registry import IcebergService, all_services
from tideline.iceberg.services.remove_orphan_files.service import REMOVE_ORPHAN_FILES
from tideline.iceberg.services.rewrite_data_files.service import REWRITE_DATA_FILES
from tideline.iceberg.services.rewrite_manifests.service import REWRITE_MANIFESTS
from tideline.iceberg.services.rewrite_position_deletes.service import REWRITE_POSITION_DELETES
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, RunService, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.services.benefit import Benefit
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_model import IcebergModel

DAY_MS = 86_400_000


def no_spark(_: object) -> NoReturn:
    raise AssertionError("this work needs no Spark")


def model(appends: int = 3, **properties: str) -> IcebergModel:
    made = IcebergModel.create(properties=properties)
    for number in range(appends):
        made.append([number * 2, number * 2 + 1])
    return made


def run(table: IcebergModel, service: IcebergService, **work: str) -> OperationResult:
    target = TableTarget("orders", Location(table.location.uri), ())
    operation = Operation("orders-1", target, RunService(service, "v1", work))
    assert Operation.from_json_object(operation.to_json_object()) == operation
    return execute_operation(operation, session_factory=no_spark, clock=table.clock)


@pytest.mark.parametrize("service", all_services())
def test_where_there_is_no_table_there_is_nothing_to_do(service: IcebergService) -> None:
    table = model(0)
    table.location.open().delete_prefix("")
    assert run(table, service).outcome is Outcome.NOTHING


def test_old_snapshots_expire_by_their_age_when_it_runs() -> None:
    table = model(3)
    rows = table.rows()
    aged = {"older_than_age_ms": str(DAY_MS)}
    assert run(table, EXPIRE_SNAPSHOTS, **aged).outcome is Outcome.NOTHING
    table.clock.sleep(2 * 86_400)
    result = run(table, EXPIRE_SNAPSHOTS, **aged)
    assert (result.outcome, result.message) == (Outcome.SUCCEEDED, "expired 2 snapshots, 1 stay")
    assert result.files_deleted == 2
    assert result.saved == Benefit(bytes_stored=result.bytes_deleted)
    assert table.rows() == rows
    again = run(table, EXPIRE_SNAPSHOTS, **aged)
    assert (again.outcome, again.message) == (Outcome.NOTHING, "no snapshot is old enough")


def test_the_tables_own_settings_hold_where_the_operation_says_nothing() -> None:
    properties = {"history.expire.max-snapshot-age-ms": str(90 * DAY_MS)}
    table = model(3, **properties)
    table.clock.sleep(30 * 86_400)
    assert run(table, EXPIRE_SNAPSHOTS).outcome is Outcome.NOTHING


def test_a_table_that_shares_its_files_is_left_alone() -> None:
    table = model(3, **{"gc.enabled": "false"})
    result = run(table, EXPIRE_SNAPSHOTS, older_than_age_ms="0")
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 2)
    assert "gc.enabled" in result.message


def test_many_manifests_become_one() -> None:
    table = model(4)
    rows = table.rows()
    result = run(table, REWRITE_MANIFESTS)
    assert (result.outcome, result.message) == (Outcome.SUCCEEDED, "rewrote 4 manifests as 1")
    assert (result.files_read, result.files_written) == (4, 1)
    assert result.bytes_read > result.bytes_written > 0
    spared = result.bytes_read - result.bytes_written
    assert result.saved == Benefit(files_opened=3, bytes_scanned=spared)
    assert result.instant == str(table.metadata().current_snapshot_id)
    assert table.rows() == rows
    assert run(table, REWRITE_MANIFESTS).outcome is Outcome.NOTHING


def test_orphan_files_are_counted_and_then_deleted() -> None:
    table = model(1)
    store = table.location.open()
    store.put("data/left-behind.parquet", b"12345")
    left, clock = store.head("data/left-behind.parquet"), table.clock
    assert left is not None and isinstance(clock, FakeClock)
    clock.step_wall(4 * 86_400 + (left.modified_ms - clock.now_ms()) / 1000)
    aged = {"older_than_age_ms": str(3 * DAY_MS)}
    counted = run(table, REMOVE_ORPHAN_FILES, dry_run="true", **aged)
    assert counted.message == "found 1 orphan file of 5 bytes that could be deleted"
    assert counted.audit[0]["orphans"] == [f"{table.location.uri}/data/left-behind.parquet"]
    assert store.head("data/left-behind.parquet") is not None
    deleted = run(table, REMOVE_ORPHAN_FILES, **aged)
    assert (deleted.files_deleted, deleted.bytes_deleted) == (1, 5)
    assert deleted.saved == Benefit(bytes_stored=5)
    assert store.head("data/left-behind.parquet") is None
    assert len(table.rows()) == 2
    none = run(table, REMOVE_ORPHAN_FILES, **aged)
    assert none.outcome is Outcome.NOTHING


def test_too_young_an_age_for_orphans_is_refused() -> None:
    result = run(model(1), REMOVE_ORPHAN_FILES, older_than_age_ms="1000")
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 2)


def test_a_wrong_option_is_named_before_spark_starts() -> None:
    result = run(model(1), REWRITE_DATA_FILES, **{"min-input-file": "2"})
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 2)
    assert "did you mean min-input-files?" in result.message


def test_a_table_without_deletes_has_none_to_rewrite() -> None:
    result = run(model(2), REWRITE_POSITION_DELETES)
    assert result.message == "no position deletes are worth rewriting"
