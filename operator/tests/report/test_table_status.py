"""The status: conditions, lag, operations, and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.operation.result import WORKER_DIED, OperationResult, Outcome
from tideline.ingest.sources.files.listing import FileListing, RowsSetAside
from tideline.ingest.sources.source import Lost
from tideline.testing.file_ingests import checkpoint_after
from tideline_operator.decide.actions import Wait, WaitKind
from tideline_operator.decide.adoption import Adoption, AdoptionReason
from tideline_operator.decide.due_services import needs_of
from tideline_operator.decide.observed import Observed, ObservedSource, Problem
from tideline_operator.decide.planner import plan
from tideline_operator.decide.triggers import due_ingests
from tideline_operator.local.status_file import read_status, write_status
from tideline_operator.report.conditions import not_looked_at
from tideline_operator.report.failures import standing_failures, unresolved_failures
from tideline_operator.report.status import (
    fresh_start,
    observed_status,
    operation_finished,
    operation_started,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.spent import NO_PODS, PodUse, Spent
from tideline_operator.resources.status import (
    OPERATIONS_MAX,
    ConditionStatus,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
)
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

NOT_READ = Observed(problem=Problem("UnsupportedTable", "version 8", 2, is_transient=False))
REFUSED = Observed(refused=Adoption(AdoptionReason.REFUSED, "declare spec.timezone"))
AWAY = Observed(problem=Problem("StorageUnavailable", "away", 4, is_transient=True))


def look(
    observed: Observed,
    status: LakeTableStatus = EMPTY,
    table: ResolvedTable | None = None,
    now_ms: int = NOW_MS,
) -> LakeTableStatus:
    table = table or resolved()
    actions = plan(table, status, observed, now_ms)
    return observed_status(table, status, observed, actions, now_ms)


def condition(status: LakeTableStatus, kind: ConditionType) -> tuple[ConditionStatus, str]:
    found = next(item for item in status.conditions if item.type is kind)
    return found.status, found.reason


def attempt(
    status: LakeTableStatus, result: Outcome, *, exit_code: int = 0, error: str | None = None
) -> LakeTableStatus:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    status = operation_started(status, start.operation, 1, NOW_MS)
    done = OperationResult(start.operation.id, result, exit_code=exit_code, error=error)
    return operation_finished(status, done, NOW_MS)


def test_lag_counts_the_files_that_wait_and_their_bytes() -> None:
    status = look(seen(*FILES)).ingest["landing"]
    assert (status.lag_files, status.lag_bytes) == (5, 50)
    checkpoint = checkpoint_after(None, FileListing(FILES), FILES[:2])
    table = replace(TABLE, checkpoints={"landing": checkpoint})
    later = look(seen(*FILES, table=table)).ingest["landing"]
    assert (later.lag_files, later.checkpoint) == (3, "generation 1 up to f1.parquet")


def test_the_status_says_since_when_the_oldest_file_waits() -> None:
    status = look(seen(*FILES[1:])).ingest["landing"]
    assert status.oldest_file_at == Timestamp(FILES[1].modified_ms)
    checkpoint = checkpoint_after(None, FileListing(FILES), FILES)
    table = replace(TABLE, checkpoints={"landing": checkpoint})
    assert look(seen(*FILES, table=table)).ingest["landing"].oldest_file_at is None


def test_what_operations_took_is_added_up_by_kind() -> None:
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    status = EMPTY
    done = OperationResult(
        start.operation.id,
        Outcome.SUCCEEDED,
        core_seconds=1.5,
        requests=20,
        source_bytes=100,
        bytes_read=10,
        bytes_written=50,
    )
    lost = OperationResult(start.operation.id, Outcome.FAILED, error=WORKER_DIED)
    for result, pods in ((done, PodUse(8_000, 4_096)), (lost, PodUse(500, 512)), (done, NO_PODS)):
        status = operation_started(status, start.operation, 1, NOW_MS)
        status = operation_finished(status, result, NOW_MS, pods)
    assert status.spent == {
        "ingest": Spent(
            runs=3,
            failures=1,
            last_failure=Timestamp(NOW_MS),
            pod_ms=8_500,
            mib_seconds=4_608,
            core_ms=3_000,
            bytes_read=220,
            bytes_written=100,
            requests=40,
        )
    }
    assert fresh_start(resolved(), status).spent == status.spent


def test_lag_is_kept_while_the_prefix_is_not_looked_at() -> None:
    status = look(seen(*FILES))
    assert look(Observed(TABLE), status).ingest["landing"].lag_files == 5


class LostListing(FileListing):
    """A source that has no more what comes next."""

    def plan(self, *_: object) -> Lost:  # type: ignore[override]
        return Lost("its log is gone", "copy it again")


@pytest.mark.parametrize(
    ("trigger", "polled_ms"),
    [
        ({"every": "30s"}, None),
        ({"every": "30s"}, NOW_MS - 4_000_000),
        ({"cron": "0 * * * *"}, NOW_MS - 4_000_000),
    ],
)
def test_what_stops_an_ingest_is_said_until_a_look_finds_otherwise(
    trigger: dict[str, Any], polled_ms: int | None
) -> None:
    """A process that begins with it has no look of its own before."""
    table, status = resolved(trigger), EMPTY
    if polled_ms is not None:
        status = replace(EMPTY, ingest={"landing": IngestStatus(polled_at=Timestamp(polled_ms))})
    lost = Observed(TABLE, {"landing": ObservedSource(LostListing(()))})
    for now_ms in range(NOW_MS, NOW_MS + 3_000, 1_000):
        due = due_ingests(table.spec, status, TABLE.checkpoints, now_ms)
        status = look(lost if due else replace(lost, sources={}), status, table, now_ms)
        for kind in (ConditionType.INGESTING, ConditionType.READY):
            assert condition(status, kind) == (ConditionStatus.FALSE, "SourceLost"), now_ms
    # It is looked at again without a turn of another reason.
    (wait,) = (item for item in plan(table, status, lost, NOW_MS) if isinstance(item, Wait))
    assert wait.kind is WaitKind.POLL
    status = look(seen(), status, table, NOW_MS + 4_000)
    assert condition(status, ConditionType.INGESTING)[0] is ConditionStatus.TRUE
    assert not due_ingests(table.spec, status, TABLE.checkpoints, NOW_MS + 5_000)


def test_the_timeline_in_short_names_what_is_pending() -> None:
    table = replace(TABLE, completed=4, pending=(pending("1", is_dead=True),))
    timeline = look(Observed(table)).timeline
    assert (timeline.latest, timeline.completed) == (TABLE.latest, 4)
    assert [(item.time, item.is_dead) for item in timeline.pending] == [("1", True)]


@pytest.mark.parametrize(
    ("observed", "kind", "expected"),
    [
        (seen(), ConditionType.READY, (ConditionStatus.TRUE, "Current")),
        (seen(table=None), ConditionType.READY, (ConditionStatus.FALSE, "NoTable")),
        (AWAY, ConditionType.READY, (ConditionStatus.FALSE, "StorageUnavailable")),
        (seen(), ConditionType.HEALTHY, (ConditionStatus.TRUE, "NoStuckInstant")),
        (
            Observed(replace(TABLE, pending=(pending("1", is_dead=True),))),
            ConditionType.HEALTHY,
            (ConditionStatus.FALSE, "DeadWriter"),
        ),
        (seen(), ConditionType.INGESTING, (ConditionStatus.TRUE, "NothingIngested")),
        (
            seen(
                table=replace(
                    TABLE,
                    checkpoints={"landing": checkpoint_after(None, FileListing(FILES), FILES)},
                )
            ),
            ConditionType.INGESTING,
            (ConditionStatus.TRUE, "Current"),
        ),
        (
            Observed(TABLE, {"landing": ObservedSource(FileListing((), FILES[:1]))}),
            ConditionType.INGESTING,
            (ConditionStatus.TRUE, "Quarantined"),
        ),
        (seen(), ConditionType.PAUSED, (ConditionStatus.FALSE, "Running")),
        (AWAY, ConditionType.HEALTHY, (ConditionStatus.UNKNOWN, "StorageUnavailable")),
        (AWAY, ConditionType.SERVICES_CURRENT, (ConditionStatus.UNKNOWN, "StorageUnavailable")),
        (AWAY, ConditionType.INGESTING, (ConditionStatus.FALSE, "StorageUnavailable")),
        (seen(), ConditionType.ADOPTED, (ConditionStatus.TRUE, "Verified")),
        (seen(table=None), ConditionType.ADOPTED, (ConditionStatus.UNKNOWN, "NoTable")),
        (AWAY, ConditionType.ADOPTED, (ConditionStatus.UNKNOWN, "StorageUnavailable")),
        (NOT_READ, ConditionType.ADOPTED, (ConditionStatus.FALSE, "Refused")),
        (REFUSED, ConditionType.ADOPTED, (ConditionStatus.FALSE, "Refused")),
        (REFUSED, ConditionType.READY, (ConditionStatus.FALSE, "NotAdopted")),
        (REFUSED, ConditionType.HEALTHY, (ConditionStatus.UNKNOWN, "NotAdopted")),
        (
            seen(table=replace(TABLE, record_key=("other",))),
            ConditionType.ADOPTED,
            (ConditionStatus.FALSE, "Refused"),
        ),
    ],
)
def test_conditions_say_how_the_table_is(
    observed: Observed, kind: ConditionType, expected: tuple[ConditionStatus, str]
) -> None:
    assert condition(look(observed), kind) == expected


def test_what_cannot_be_looked_at_is_unknown_and_known_facts_stay() -> None:
    before = look(seen())
    assert condition(before, ConditionType.HEALTHY)[0] is ConditionStatus.TRUE
    away = look(AWAY, before)
    healthy = next(item for item in away.conditions if item.type is ConditionType.HEALTHY)
    assert (healthy.status, healthy.message) == (ConditionStatus.UNKNOWN, "unknown: away")
    off = resolved(services={"mode": "Off"})
    assert condition(look(AWAY, before, off), ConditionType.SERVICES_CURRENT) == (
        ConditionStatus.TRUE,
        "Off",
    )
    failed = replace(attempt(EMPTY, Outcome.FAILED).operations[0], kind="compaction", subject="")
    failing = look(AWAY, replace(before, operations=(failed,)))
    assert condition(failing, ConditionType.SERVICES_CURRENT) == (ConditionStatus.FALSE, "Failing")
    paused = look(Observed(), before, resolved(suspend=True))
    assert condition(paused, ConditionType.HEALTHY) == (ConditionStatus.UNKNOWN, "Paused")
    assert condition(paused, ConditionType.SERVICES_CURRENT) == (ConditionStatus.UNKNOWN, "Paused")


def test_what_was_adopted_stays_so_while_it_cannot_be_read() -> None:
    before = look(seen())
    assert condition(look(AWAY, before), ConditionType.ADOPTED) == (
        ConditionStatus.TRUE,
        "Verified",
    )
    paused = look(Observed(), before, resolved(suspend=True))
    assert condition(paused, ConditionType.ADOPTED) == (ConditionStatus.TRUE, "Verified")
    never = look(Observed(), EMPTY, resolved(suspend=True))
    assert condition(never, ConditionType.ADOPTED) == (ConditionStatus.UNKNOWN, "Paused")
    refused = look(REFUSED, before)
    assert condition(look(AWAY, refused), ConditionType.ADOPTED) == (
        ConditionStatus.FALSE,
        "Refused",
    )
    assert refused.owned == before.owned
    assert look(REFUSED).owned is None


def test_a_table_that_cannot_be_resolved_is_neither_healthy_nor_current() -> None:
    status = not_looked_at(look(seen()), "SecretMissing", "there is no Secret", NOW_MS)
    found = {item.type: (item.status, item.reason) for item in status.conditions}
    assert found[ConditionType.READY] == (ConditionStatus.FALSE, "SecretMissing")
    assert found[ConditionType.HEALTHY] == (ConditionStatus.UNKNOWN, "SecretMissing")
    assert found[ConditionType.SERVICES_CURRENT] == (ConditionStatus.UNKNOWN, "SecretMissing")
    assert found[ConditionType.INGESTING] == (ConditionStatus.FALSE, "SecretMissing")


def test_a_failed_operation_makes_the_table_not_ready_until_one_succeeds() -> None:
    failed = look(seen(*FILES), attempt(EMPTY, Outcome.FAILED, exit_code=1))
    assert condition(failed, ConditionType.READY) == (ConditionStatus.FALSE, "OperationFailed")
    assert len(unresolved_failures(failed)) == 1
    good = look(seen(), attempt(failed, Outcome.SUCCEEDED))
    assert condition(good, ConditionType.READY) == (ConditionStatus.TRUE, "Current")
    assert unresolved_failures(good) == ()


def failure(kind: str, subject: str = "") -> LakeTableStatus:
    """A status whose only operation, of that kind, failed."""
    (entry,) = attempt(EMPTY, Outcome.FAILED, exit_code=1).operations
    return replace(EMPTY, operations=(replace(entry, kind=kind, subject=subject),))


MADE = replace(TABLE, savepoints={"before": "20250101120000000"})
DEAD = replace(TABLE, pending=(pending("1", is_dead=True),))
DECLARED = {"savepoints": [{"name": "before"}]}


@pytest.mark.parametrize(
    ("kind", "subject", "spec", "observed", "stands"),
    [
        ("ingest", "landing", {}, seen(*FILES), True),
        ("ingest", "landing", {}, Observed(TABLE), True),
        ("ingest", "landing", {}, seen(), False),
        ("ingest", "landing", {"fenced": True}, seen(*FILES), False),
        ("ingest", "former", {}, seen(*FILES), False),
        ("create", "", {}, seen(table=None), True),
        ("create", "", {}, seen(), False),
        ("savepoint", "before", DECLARED, seen(), True),
        ("savepoint", "before", DECLARED, seen(table=MADE), False),
        ("savepoint", "before", {}, seen(), False),
        ("restore", "", {"restoreTo": "before"}, seen(table=MADE), True),
        ("restore", "", {}, seen(table=MADE), False),
        ("rollback", "", {}, seen(table=DEAD), True),
        ("rollback", "", {}, seen(), False),
        ("cleaning", "", {"rerun": {"cleaning": 1}}, seen(), True),
        ("cleaning", "", {}, seen(), False),
        ("cleaning", "", {"services": {"cleaning": {"enabled": False}}}, seen(), False),
        ("cleaning", "", {"services": {"mode": "Advise"}, "rerun": {"cleaning": 1}}, seen(), False),
        ("cleaning", "", {"services": {"mode": "Off"}}, seen(), False),
        ("cleaning", "", {"services": {"mode": "Off"}}, AWAY, True),
    ],
)
def test_a_failure_stands_while_its_subject_is_declared_and_due(
    kind: str, subject: str, spec: dict[str, Any], observed: Observed, stands: bool
) -> None:
    table, status = resolved(**spec), failure(kind, subject)
    needs = needs_of(table.spec, status, observed, NOW_MS)
    assert bool(standing_failures(table, status, observed, needs, NOW_MS)) is stands


def test_a_condition_keeps_the_time_it_changed() -> None:
    first = look(seen(), now_ms=NOW_MS)
    second = look(seen(), first, now_ms=NOW_MS + 1)
    assert second.conditions == first.conditions
    third = look(seen(table=None), second, now_ms=NOW_MS + 2)
    changed = next(item for item in third.conditions if item.type is ConditionType.READY)
    assert changed.last_transition_time.ms == NOW_MS + 2


@pytest.mark.parametrize(
    ("exit_code", "error", "is_safe"),
    [(3, "Conflict", True), (4, "StorageUnavailable", True), (1, WORKER_DIED, True),
     (5, "UnknownOutcome", True), (1, "InvalidData", False), (2, "ConfigError", False)],
)  # fmt: skip
def test_a_failure_says_whether_a_retry_may_help(exit_code: int, error: str, is_safe: bool) -> None:
    (entry,) = attempt(EMPTY, Outcome.FAILED, exit_code=exit_code, error=error).operations
    assert (entry.phase, entry.is_safe_to_retry) == (OperationPhase.FAILED, is_safe)


@pytest.mark.parametrize(
    ("state", "phase", "ready"),
    [
        (State.COMPLETED, OperationPhase.SUCCEEDED, ConditionStatus.TRUE),
        (State.INFLIGHT, OperationPhase.FAILED, ConditionStatus.FALSE),
        (None, OperationPhase.FAILED, ConditionStatus.FALSE),
    ],
)
def test_an_unknown_outcome_is_settled_by_reading_the_table(
    state: State | None, phase: OperationPhase, ready: ConditionStatus
) -> None:
    """Once its instant is seen completed it has succeeded; after a rollback it is retried."""
    time = "20250101120000000"
    (start,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    unknown = OperationResult(
        start.operation.id, Outcome.FAILED, "who knows", 5, "UnknownOutcome", instant=time
    )
    begun = operation_started(EMPTY, start.operation, 1, NOW_MS)
    found = () if state is None else (Instant(InstantTime(time), Action.COMMIT, state),)
    history = replace(TABLE.history, timeline=ActiveTimeline(found))
    observed = seen(*FILES, table=replace(TABLE, history=history))
    later = look(observed, operation_finished(begun, unknown, NOW_MS))
    assert later.operations[-1].phase is phase
    assert condition(later, ConditionType.READY)[0] is ready


def test_operations_are_kept_newest_last_and_bounded() -> None:
    status = EMPTY
    for number in range(OPERATIONS_MAX + 5):
        spec = resolved(properties={"hoodie.keep.max.commits": str(100 + number)})
        (start,) = starts(plan(spec, EMPTY, seen(*FILES), NOW_MS))
        status = operation_started(status, start.operation, 1, NOW_MS)
    assert len(status.operations) == OPERATIONS_MAX
    assert status.operations[-1].id == start.operation.id


def test_what_is_under_way_is_kept_whatever_came_after_it() -> None:
    (first,) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    status = operation_started(EMPTY, first.operation, 1, NOW_MS)
    for number in range(OPERATIONS_MAX + 5):
        spec = resolved(properties={"hoodie.keep.max.commits": str(100 + number)})
        (start,) = starts(plan(spec, EMPTY, seen(*FILES), NOW_MS))
        status = operation_started(status, start.operation, 1, NOW_MS)
        ended = OperationResult(start.operation.id, Outcome.SUCCEEDED)
        status = operation_finished(status, ended, NOW_MS)
    assert len(status.operations) == OPERATIONS_MAX
    assert status.operations[0].id == first.operation.id


def test_a_status_file_is_read_back_and_a_damaged_or_foreign_one_is_empty(tmp_path: Path) -> None:
    table = resolved()
    status = look(seen(*FILES), attempt(EMPTY, Outcome.SUCCEEDED))
    assert read_status(tmp_path / "none", table) == EMPTY
    write_status(tmp_path, table, status)
    assert read_status(tmp_path, table) == status
    elsewhere = replace(table, location=replace(table.location, uri="memory://other"))
    assert read_status(tmp_path, elsewhere) == EMPTY
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:50])
    assert read_status(tmp_path, table) == EMPTY


def test_a_new_process_looks_at_once_and_retries_but_keeps_to_a_cron_trigger() -> None:
    status = look(seen(*FILES), attempt(EMPTY, Outcome.FAILED, exit_code=1))
    fresh = fresh_start(resolved(), status)
    assert (fresh.operations, dict(fresh.ingest)) == ((), {})
    by_cron = resolved({"cron": "0 * * * *"})
    assert fresh_start(by_cron, status).ingest == status.ingest


def test_what_waits_in_the_quarantine_is_counted_and_reported() -> None:
    landing = FileListing(FILES, rows_set_aside=(RowsSetAside("_quarantine/a", "00", 3),))
    observed = replace(seen(), sources={"landing": ObservedSource(landing)})
    status = look(observed)
    assert status.ingest["landing"].quarantined_rows == 3
    (ingesting,) = [item for item in status.conditions if item.type is ConditionType.INGESTING]
    assert ingesting.reason == "Quarantined"
    assert ingesting.message == "landing: 3 rows of 1 file set aside in _quarantine/"
