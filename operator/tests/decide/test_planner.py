"""The planner as tables of states: what was declared, remembered and seen, and what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CreateTable, IngestRange, OperationKind, RollBack
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileListing, files_of
from tideline.ingest.sources.files.position import FilesPosition
from tideline.testing.file_ingests import checkpoint_after
from tideline_operator.decide.actions import Blocked, PlannedAction, Start, Wait, WaitKind
from tideline_operator.decide.observed import (
    Observed,
    ObservedTable,
    Problem,
    WriterState,
)
from tideline_operator.decide.planner import CHANGED_PAUSE_MS, OBSERVE_RETRY_MS, plan
from tideline_operator.decide.triggers import due_ingests
from tideline_operator.report.status import (
    observed_status,
    operation_finished,
    operation_started,
    retry_delay_ms,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import IngestStatus, LakeTableStatus
from tideline_operator.testing.table_states import (
    EMPTY,
    FILES,
    NOW_MS,
    TABLE,
    pending,
    resolved,
    seen,
    starts,
)

EVERY_MS = 30_000


def polled(at_ms: int, **fields: Any) -> LakeTableStatus:
    return LakeTableStatus(ingest={"landing": IngestStatus(polled_at=Timestamp(at_ms), **fields)})


def waits(actions: tuple[PlannedAction, ...]) -> list[tuple[WaitKind, int]]:
    return [(item.kind, item.until_ms - NOW_MS) for item in actions if isinstance(item, Wait)]


def blocks(actions: tuple[PlannedAction, ...]) -> list[tuple[str, int]]:
    return [(item.reason, item.exit_code) for item in actions if isinstance(item, Blocked)]


COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "city", "type": "string"},
    {"name": "ts", "type": "long"},
]


def having(ingest: str, files: int) -> ObservedTable:
    """The table with the first files in it."""
    taken = checkpoint_after(None, FileListing(FILES), FILES[:files])
    return replace(TABLE, checkpoints={ingest: taken})


def ingest_in(start: Start) -> IngestRange:
    assert isinstance(start.operation.work, IngestRange)
    return start.operation.work


def test_landed_files_are_ingested_in_order_and_bounded() -> None:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    work = ingest_in(start)
    assert files_of(work.range).files == FILES[:2]
    assert (work.generation, work.once_number) == (0, None)
    assert start.reason == "2 of 5 new files"


def test_a_source_that_moved_under_its_name_is_blocked_and_nothing_is_skipped() -> None:
    checkpoint = replace(
        checkpoint_after(None, FileListing(FILES), FILES), address="s3://lake/other"
    )
    observed = seen(*FILES, table=replace(TABLE, checkpoints={"landing": checkpoint}))
    (blocked,) = plan(resolved(), EMPTY, observed, NOW_MS)
    assert isinstance(blocked, Blocked)
    assert (blocked.reason, blocked.subject, blocked.exit_code) == ("SourceMoved", "landing", 2)
    assert "s3://lake/other" in blocked.message


def test_a_renamed_insert_ingests_nothing_again() -> None:
    ingest = {
        "name": "landing",
        "operation": "insert",
        "source": {"format": "parquet", "path": "landing"},
        "trigger": {"every": "30s"},
    }
    before = replace(
        TABLE, checkpoints={"former": checkpoint_after(None, FileListing(FILES), FILES[:3])}
    )
    (blocked,) = plan(resolved(ingest=[ingest]), EMPTY, seen(*FILES, table=before), NOW_MS)
    assert isinstance(blocked, Blocked)
    assert blocked.reason == "IngestRenamed"
    renamed = resolved(ingest=[{**ingest, "renamedFrom": "former"}])
    (start,) = starts(plan(renamed, EMPTY, seen(*FILES, table=before), NOW_MS))
    work = ingest_in(start)
    assert (files_of(work.range).files, work.generation, work.former_name) == (
        FILES[3:],
        1,
        "former",
    )


def test_the_next_batch_builds_on_the_checkpoint() -> None:
    table = having("landing", 2)
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES, table=table), NOW_MS))
    work = ingest_in(start)
    assert (files_of(work.range).files, work.generation) == (FILES[2:4], 1)


def emptied(taken: str = "Remove", **source: Any) -> ResolvedTable:
    ingest = {
        "name": "landing",
        "source": {"format": "parquet", "path": "landing", "taken": taken, **source},
        "maxFilesPerCommit": 2,
    }
    return resolved(ingest=[ingest])


def test_files_that_should_have_left_are_cleared_once_none_is_new() -> None:
    table = replace(
        TABLE, checkpoints={"landing": checkpoint_after(None, FileListing(FILES), FILES[:4])}
    )
    moved = emptied("Move", movedTo="ingested")
    (start,) = starts(plan(moved, EMPTY, seen(*FILES, table=table), NOW_MS))
    work = ingest_in(start)
    assert files_of(work.range).files == FILES[4:]
    assert isinstance(work.source, DeclaredFiles)
    assert work.source.after_ingest is AfterIngest.MOVE
    assert work.source.moved_to == Location("memory://ingested")
    (start,) = starts(plan(emptied(), EMPTY, seen(*FILES[:4], table=table), NOW_MS))
    assert ingest_in(start).range.names == ()
    assert start.reason == "4 files taken in and still there"
    assert starts(plan(resolved(), EMPTY, seen(*FILES[:4], table=table), NOW_MS)) == []
    assert starts(plan(emptied(), EMPTY, seen(table=table), NOW_MS)) == []


def test_files_that_only_count_as_taken_in_are_left_alone() -> None:
    checkpoint = checkpoint_after(None, FileListing(FILES), FILES[:4])
    below = replace(checkpoint, position=FilesPosition(FILES[3].arrival, FILES[3].arrival, 4))
    table = replace(TABLE, checkpoints={"landing": below})
    assert starts(plan(emptied(), EMPTY, seen(*FILES[:4], table=table), NOW_MS)) == []


def test_an_operation_lists_what_its_plan_was_made_from() -> None:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES, after="f"), NOW_MS))
    assert ingest_in(start).range.start == "f"


def test_a_look_from_the_watermark_leaves_the_rest_of_the_status_as_it_was() -> None:
    before = polled(NOW_MS - 1, quarantined_files=3, quarantined_rows=5, late_files=7)
    partial = seen(after="f")
    status = observed_status(resolved(), before, partial, (), NOW_MS).ingest["landing"]
    assert (status.quarantined_files, status.quarantined_rows, status.late_files) == (3, 5, 7)
    status = observed_status(resolved(), before, seen(), (), NOW_MS).ingest["landing"]
    assert (status.quarantined_files, status.quarantined_rows, status.late_files) == (0, 0, 0)


def test_the_same_state_gives_the_same_operation_and_another_state_another() -> None:
    def planned(*files: ArrivedFile, **spec: Any) -> str:
        return starts(plan(resolved(**spec), EMPTY, seen(*files), NOW_MS))[0].operation.id

    assert planned(*FILES) == planned(*FILES)
    others = {
        planned(*FILES),
        planned(*FILES[1:]),
        planned(*FILES, properties={"hoodie.allow.empty.commit": "false"}),
    }
    assert len(others) == 3


@pytest.mark.parametrize(
    ("status", "observed", "expected"),
    [
        (EMPTY, seen(), [(WaitKind.POLL, EVERY_MS)]),
        (polled(NOW_MS - 10_000), Observed(TABLE), [(WaitKind.POLL, 20_000)]),
        (EMPTY, seen(table=None), [(WaitKind.POLL, EVERY_MS)]),
        (
            EMPTY,
            seen(ArrivedFile("a", 1, NOW_MS - 400), settle_ms=1_000),
            [(WaitKind.SETTLE, 600)],
        ),
        (
            EMPTY,
            seen(problem=Problem("StorageUnavailable", "away", 4, is_transient=True)),
            [(WaitKind.RETRY, OBSERVE_RETRY_MS)],
        ),
        (
            EMPTY,
            Observed(problem=Problem("StorageUnavailable", "away", 4, is_transient=True)),
            [(WaitKind.RETRY, OBSERVE_RETRY_MS)],
        ),
        (EMPTY, Observed(problem=Problem("CorruptTable", "odd", 1, is_transient=False)), []),
        (
            polled(NOW_MS),
            Observed(replace(TABLE, pending=(pending("1", dead_at_ms=NOW_MS + 5_000),))),
            [(WaitKind.HEARTBEAT, 5_001), (WaitKind.POLL, EVERY_MS)],
        ),
    ],
)
def test_what_is_not_due_has_a_moment_to_wait_for(
    status: LakeTableStatus, observed: Observed, expected: list[tuple[WaitKind, int]]
) -> None:
    actions = plan(resolved(), status, observed, NOW_MS)
    assert starts(actions) == []
    assert waits(actions) == expected


@pytest.mark.parametrize(
    ("spec", "observed", "expected"),
    [
        ({"suspend": True}, seen(*FILES), ("Paused", 0)),
        ({"fenced": True}, Observed(TABLE), ("Fenced", 0)),
        ({"restoreTo": "20260101000000000"}, Observed(TABLE), ("NoSavepoint", 2)),
        ({"type": "MERGE_ON_READ"}, Observed(TABLE), ("TableMismatch", 2)),
        ({"recordKey": ["key"]}, seen(*FILES), ("TableMismatch", 2)),
        ({"partitionBy": []}, seen(*FILES), ("TableMismatch", 2)),
        ({"ordering": ["id"]}, seen(*FILES), ("TableMismatch", 2)),
        ({"keyGenerator": {"hiveStyle": True}}, seen(*FILES), ("TableMismatch", 2)),
        ({"ingest": []}, Observed(None), ("NoTable", 0)),
        (
            {},
            Observed(problem=Problem("UnsupportedTable", "version 8", 1, is_transient=False)),
            ("UnsupportedTable", 1),
        ),
        (
            {},
            seen(problem=Problem("StorageUnavailable", "away", 4, is_transient=True)),
            ("StorageUnavailable", 4),
        ),
    ],
)
def test_what_only_a_user_can_fix_is_reported_and_nothing_is_started(
    spec: dict[str, Any], observed: Observed, expected: tuple[str, int]
) -> None:
    actions = plan(resolved(**spec), EMPTY, observed, NOW_MS)
    assert starts(actions) == []
    assert blocks(actions)[0] == expected


def test_a_mismatch_names_the_field_and_both_values() -> None:
    (blocked,) = plan(resolved(recordKey=["key"]), EMPTY, seen(*FILES), NOW_MS)
    assert "spec.recordKey is ['key'], but the table" in str(blocked)
    assert "created with ['id']" in str(blocked)


def test_a_declared_schema_has_the_table_created_before_anything_is_ingested() -> None:
    table = resolved(schema=COLUMNS)
    (start,) = starts(plan(table, EMPTY, seen(*FILES, table=None), NOW_MS))
    assert isinstance(start.operation.work, CreateTable)
    assert [column.name for column in start.operation.table.schema] == ["id", "city", "ts"]


def test_without_a_schema_the_first_batch_makes_the_table() -> None:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES, table=None), NOW_MS))
    assert isinstance(start.operation.work, IngestRange)


def test_dead_writers_are_rolled_back_before_anything_builds_on_the_table() -> None:
    table = replace(TABLE, pending=(pending("1", is_dead=True), pending("2", is_dead=True)))
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES, table=table), NOW_MS))
    assert start.operation.work == RollBack(("1", "2"))


def test_the_rollback_of_a_writer_that_is_gone_names_it_as_the_proof() -> None:
    gone = replace(pending("1", is_dead=True), writer="op/pod", writer_state=WriterState.GONE)
    table = replace(TABLE, pending=(gone, pending("2", is_dead=True)))
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES, table=table), NOW_MS))
    assert start.operation.work == RollBack(("1", "2"), ("op/pod",))


def test_nothing_begins_while_the_last_pods_of_a_dead_writer_end() -> None:
    silent = pending("1", dead_at_ms=NOW_MS + 9)
    ending = replace(silent, writer="op/pod", writer_state=WriterState.ENDING)
    table = replace(TABLE, pending=(ending,))
    (wait,) = plan(resolved(), EMPTY, seen(*FILES, table=table), NOW_MS)
    assert isinstance(wait, Wait)
    assert (wait.kind, wait.until_ms) == (WaitKind.HEARTBEAT, NOW_MS + 10)


def test_a_live_writer_is_left_alone_and_nothing_waits_for_it() -> None:
    table = replace(TABLE, pending=(pending("1", dead_at_ms=NOW_MS + 1),))
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES, table=table), NOW_MS))
    assert isinstance(start.operation.work, IngestRange)


def test_nothing_is_rolled_back_while_an_operation_of_ours_runs() -> None:
    table = replace(TABLE, pending=(pending("1", is_dead=True),))
    observed = replace(seen(table=table), running=frozenset({"people-ingest-x"}))
    assert starts(plan(resolved(), EMPTY, observed, NOW_MS)) == []


def test_what_runs_already_is_not_started_again() -> None:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    running = replace(seen(*FILES), running=frozenset({start.operation.id}))
    assert plan(resolved(), EMPTY, running, NOW_MS) == ()


def ended(outcome: Outcome, exit_code: int = 0, attempts: int = 1) -> LakeTableStatus:
    """The status after as many attempts at the first batch, the last ending now."""
    status = EMPTY
    for attempt in range(1, attempts + 1):
        (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
        status = operation_started(status, start.operation, attempt, NOW_MS - 1_000)
        result = OperationResult(start.operation.id, outcome, exit_code=exit_code)
        status = operation_finished(status, result, NOW_MS)
    return status


@pytest.mark.parametrize(
    ("outcome", "exit_code", "attempts", "delay_ms"),
    [
        (Outcome.FAILED, 3, 1, 2_000),
        (Outcome.FAILED, 4, 3, 8_000),
        (Outcome.FAILED, 1, 1, 30_000),
        (Outcome.FAILED, 1, 50, 600_000),
        (Outcome.SUCCEEDED, 0, 1, 30_000),
        (Outcome.NOTHING, 0, 1, 30_000),
    ],
)
def test_an_operation_that_ended_is_left_alone_for_a_growing_while(
    outcome: Outcome, exit_code: int, attempts: int, delay_ms: int
) -> None:
    status = ended(outcome, exit_code, attempts)
    assert waits(plan(resolved(), status, seen(*FILES), NOW_MS)) == [(WaitKind.RETRY, delay_ms)]
    (start,) = starts(plan(resolved(), status, seen(*FILES), NOW_MS + delay_ms))
    assert start.attempt == attempts + 1


def test_after_a_failure_other_files_wait_only_a_moment() -> None:
    status = ended(Outcome.FAILED, 1)
    observed = seen(*FILES[1:])
    assert waits(plan(resolved(), status, observed, NOW_MS)) == [(WaitKind.RETRY, CHANGED_PAUSE_MS)]
    assert len(starts(plan(resolved(), status, observed, NOW_MS + CHANGED_PAUSE_MS))) == 1


def test_after_a_success_other_files_go_in_at_once() -> None:
    status = ended(Outcome.SUCCEEDED)
    assert len(starts(plan(resolved(), status, seen(*FILES[1:]), NOW_MS))) == 1


def test_delays_double_up_to_ten_minutes() -> None:
    delays = [retry_delay_ms(attempt, is_safe=True) for attempt in range(1, 12)]
    assert delays[:4] == [2_000, 4_000, 8_000, 16_000]
    assert delays[-1] == 600_000


def due(table: ResolvedTable, status: LakeTableStatus, seen_table: ObservedTable | None = TABLE,
        now_ms: int = NOW_MS) -> bool:  # fmt: skip
    known = {} if seen_table is None else seen_table.checkpoints
    return due_ingests(table.spec, status, known, now_ms) == ("landing",)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (EMPTY, True),
        (polled(NOW_MS - EVERY_MS + 1), False),
        (polled(NOW_MS - EVERY_MS), True),
        (polled(NOW_MS, lag_files=1), True),
        (polled(NOW_MS, unsettled_files=1), True),
    ],
)
def test_an_interval_is_due_when_it_passed_or_files_are_known_to_wait(
    status: LakeTableStatus, expected: bool
) -> None:
    assert due(resolved(), status) is expected


def test_a_cron_trigger_is_due_at_its_minutes_only() -> None:
    table = resolved({"cron": "0 * * * *"})
    hour_ms = 3_600_000
    last_hour = NOW_MS - NOW_MS % hour_ms
    assert not due(table, EMPTY)
    assert not due(table, polled(last_hour), now_ms=last_hour + hour_ms - 1)
    assert due(table, polled(last_hour), now_ms=last_hour + hour_ms)


def test_a_cron_trigger_counts_from_when_the_ingest_was_declared() -> None:
    table = resolved({"cron": "0 * * * *"})
    declared_ms = NOW_MS - NOW_MS % 3_600_000 + 60_000
    next_hour_ms = declared_ms + 59 * 60_000
    status = EMPTY
    for now_ms in range(declared_ms, next_hour_ms, 300_000):
        assert not due(table, status, now_ms=now_ms)
        status = observed_status(table, status, replace(seen(), sources={}), (), now_ms)
    assert due(table, status, now_ms=next_hour_ms + 300_000)
    listed = observed_status(table, status, seen(), (), next_hour_ms + 5_000)
    assert not due(table, listed, now_ms=next_hour_ms + 3_600_000 - 1)
    assert due(table, listed, now_ms=next_hour_ms + 3_600_000)


def once_checkpoint(drained: int | None) -> ObservedTable:
    checkpoint: Checkpoint = checkpoint_after(None, FileListing(FILES), FILES)
    return replace(TABLE, checkpoints={"landing": replace(checkpoint, drained=drained)})


@pytest.mark.parametrize(
    ("drained", "rerun", "expected"),
    [(None, {}, True), (0, {}, False), (0, {"landing": 1}, True), (1, {"landing": 1}, False)],
)
def test_once_ends_with_a_drained_prefix_until_a_rerun_is_asked_for(
    drained: int | None, rerun: dict[str, int], expected: bool
) -> None:
    table = resolved({"once": True}, rerun=rerun)
    assert due(table, EMPTY, once_checkpoint(drained)) is expected


def test_once_hands_its_number_to_the_operation() -> None:
    table = resolved({"once": True}, rerun={"landing": 3})
    (start,) = starts(plan(table, EMPTY, seen(*FILES), NOW_MS))
    work = ingest_in(start)
    assert work.once_number == 3


def test_when_all_is_done_there_is_nothing_to_do() -> None:
    table = resolved({"once": True})
    assert plan(table, EMPTY, Observed(once_checkpoint(0)), NOW_MS) == ()


@pytest.mark.parametrize("spec", [{"suspend": True}, {"fenced": True}, {"restoreTo": "x"}])
def test_a_table_that_ingests_nothing_is_not_listed(spec: dict[str, Any]) -> None:
    assert not due(resolved(**spec), EMPTY)


def test_losing_the_status_changes_when_but_never_what() -> None:
    (remembered,) = starts(plan(resolved(), polled(NOW_MS, lag_files=5), seen(*FILES), NOW_MS))
    (forgotten,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    assert remembered == forgotten


def test_running_the_plan_to_its_end_ingests_every_file_once() -> None:
    """The whole loop on values: plan, commit, observe, until nothing is due."""
    table, status, observed = resolved(), EMPTY, seen(*FILES, table=None)
    taken: list[ArrivedFile] = []
    for step in range(10):
        now_ms = NOW_MS + step
        actions = plan(table, status, observed, now_ms)
        status = observed_status(table, status, observed, actions, now_ms)
        if not starts(actions):
            break
        (start,) = starts(actions)
        work = start.operation.work
        assert isinstance(work, IngestRange)
        status = operation_started(status, start.operation, start.attempt, now_ms)
        before = observed.table.checkpoints.get("landing") if observed.table else None
        after = checkpoint_after(before, FileListing(FILES), files_of(work.range).files)
        taken += files_of(work.range).files
        status = operation_finished(
            status, OperationResult(start.operation.id, Outcome.SUCCEEDED), now_ms
        )
        observed = seen(*FILES, table=replace(TABLE, checkpoints={"landing": after}))
    assert taken == list(FILES)
    assert status.ingest["landing"].lag_files == 0
    assert [kind for kind, _ in waits(actions)] == [WaitKind.POLL]


def test_a_missing_bucket_is_created_with_the_table_whether_or_not_a_schema_is_declared() -> None:
    observed = Observed(None, lacks_bucket=True)
    (start,) = starts(plan(resolved(), EMPTY, observed, NOW_MS))
    assert start.operation.kind is OperationKind.CREATE
    assert "bucket" in start.reason
