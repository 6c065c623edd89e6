"""Table services in the planner: what is due by the timeline, in which order, and what waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.service import TableService
from tideline.ingest.operation.operation import IngestRange, OperationKind, RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.services.benefit import Benefit
from tideline_operator.decide.actions import (
    Advise,
    Blocked,
    PlannedAction,
    Priority,
    Wait,
    WaitKind,
)
from tideline_operator.decide.observed import Observed, ObservedTable
from tideline_operator.decide.planner import plan
from tideline_operator.decide.service_triggers import PATIENCE_COMMITS, service_needs
from tideline_operator.report.status import observed_status, operation_finished, operation_started
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import (
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
    RunSaving,
    ServiceStatus,
)
from tideline_operator.testing.table_states import (
    EMPTY,
    FILES,
    NOW_MS,
    at,
    cleaned,
    observed_table,
    only_service,
    pending,
    planned,
    resolved,
    seen,
    started_kinds,
    starts,
)

MOR: dict[str, Any] = {"type": "MERGE_ON_READ"}
NO_INGEST: dict[str, Any] = {"ingest": []}


def needs(spec: dict[str, Any], seen_table: ObservedTable, status: LakeTableStatus = EMPTY,
          now_ms: int = NOW_MS) -> dict[str, tuple[bool, bool]]:  # fmt: skip
    """By service: whether it is due, and whether before ingests."""
    found = service_needs(resolved(**spec).spec, status, seen_table, now_ms)
    return {need.name: (need.is_due, need.is_urgent) for need in found}


COMPACTION_SPEC = {**MOR, **only_service("compaction", trigger={"deltaCommits": 3})}
CLUSTERING_SPEC = only_service("clustering", everyCommits=4)
CLEANING_SPEC = only_service("cleaning", retain=2)
ARCHIVING_SPEC = only_service("archiving", minCommits=3, maxCommits=4)


@pytest.mark.parametrize(
    ("spec", "words", "is_due"),
    [
        (COMPACTION_SPEC, "delta delta", False),
        (COMPACTION_SPEC, "delta delta delta", True),
        (COMPACTION_SPEC, "delta delta delta compaction delta delta", False),
        (COMPACTION_SPEC, "delta delta delta compaction delta delta delta", True),
        (COMPACTION_SPEC, "delta delta delta rollback clean", True),
        (CLUSTERING_SPEC, "commit commit commit", False),
        (CLUSTERING_SPEC, "commit commit commit commit", True),
        ({**CLUSTERING_SPEC, "properties": {"hoodie.index.type": "BUCKET"}}, "commit " * 4, False),
        (CLUSTERING_SPEC, "commit commit commit commit cluster commit commit commit", False),
        (CLUSTERING_SPEC, "commit commit commit commit replace commit", True),
        (CLUSTERING_SPEC, "commit commit commit commit cluster commit commit commit commit", True),
        (CLEANING_SPEC, "commit commit", False),
        (CLEANING_SPEC, "commit commit commit", True),
        (ARCHIVING_SPEC, "commit commit commit commit", False),
        (ARCHIVING_SPEC, "commit commit commit commit commit", True),
        (ARCHIVING_SPEC, "commit savepoint commit commit commit commit", False),
        (ARCHIVING_SPEC, "clean clean clean clean clean commit", True),
        (CLEANING_SPEC, "rollback clean", False),
    ],
)
def test_what_is_due_follows_from_the_timeline(
    spec: dict[str, Any], words: str, is_due: bool
) -> None:
    ((found, _),) = needs(spec, observed_table(words)).values()
    assert found is is_due


def test_cleaning_is_due_again_only_when_there_is_something_older_to_look_at() -> None:
    words = "commit commit commit clean"
    clean = cleaned(4, earliest=2, last=3)
    assert needs(CLEANING_SPEC, observed_table(words, facts={"last_clean": clean})) == {
        "cleaning": (False, False)
    }
    later = observed_table(words + " commit", facts={"last_clean": clean})
    assert needs(CLEANING_SPEC, later) == {"cleaning": (True, False)}


def test_log_compaction_is_wanted_only_where_it_is_asked_for_and_there_are_logs() -> None:
    asked = only_service("logCompaction", blocks=3)
    assert needs(asked, observed_table("commit commit commit")) == {}
    assert needs({**MOR, **asked}, observed_table("delta delta delta")) == {
        "logCompaction": (True, True)
    }
    later = observed_table("delta delta delta logcompact delta")
    assert needs({**MOR, **asked}, later) == {"logCompaction": (False, False)}


def test_partitions_are_checked_once_a_day() -> None:
    spec = {"services": {**only_service("cleaning")["services"], "cleaning": {"enabled": False},
                         "partitionTtl": {"days": 30}}}  # fmt: skip
    day_ms = 86_400_000
    assert needs(spec, observed_table("commit"))["partitionTtl"][0] is True
    run = operation_ran(spec, observed_table("commit"))
    assert needs(spec, observed_table("commit"), run)["partitionTtl"][0] is False
    assert needs(spec, observed_table("commit"), run, NOW_MS + day_ms)["partitionTtl"][0] is True


def operation_ran(spec: dict[str, Any], seen_table: ObservedTable) -> LakeTableStatus:
    """The status after the one service that is due ran and ended now."""
    observed = Observed(seen_table)
    (start,) = starts(plan(resolved(**NO_INGEST, **spec), EMPTY, observed, NOW_MS))
    status = operation_started(EMPTY, start.operation, 1, NOW_MS - 10)
    result = OperationResult(start.operation.id, Outcome.SUCCEEDED, "done")
    return operation_finished(status, result, NOW_MS)


def test_a_new_table_needs_nothing() -> None:
    assert set(needs(MOR, observed_table("")).values()) == {(False, False)}


@pytest.mark.parametrize(
    ("spec", "words", "expected"),
    [
        # Log files pile up: compaction goes first as soon as it is due.
        (COMPACTION_SPEC, "delta delta delta", ["compaction", "ingest"]),
        # All other services let ingests go first for a while.
        (CLUSTERING_SPEC, "commit " * 4, ["ingest", "clustering"]),
        (CLUSTERING_SPEC, "commit " * (3 + PATIENCE_COMMITS), ["ingest", "clustering"]),
        (CLUSTERING_SPEC, "commit " * (4 + PATIENCE_COMMITS), ["clustering", "ingest"]),
        (CLEANING_SPEC, "commit " * 3, ["ingest", "cleaning"]),
        (CLEANING_SPEC, "commit " * (3 + PATIENCE_COMMITS), ["cleaning", "ingest"]),
        (ARCHIVING_SPEC, "commit " * 5, ["ingest", "archival"]),
        (ARCHIVING_SPEC, "commit " * (5 + PATIENCE_COMMITS), ["archival", "ingest"]),
    ],
)
def test_files_that_wait_go_before_services_unless_those_waited_long(
    spec: dict[str, Any], words: str, expected: list[str]
) -> None:
    observed = seen(*FILES, table=observed_table(words))
    assert started_kinds(plan(resolved(**spec), EMPTY, observed, NOW_MS)) == expected


SEVERAL: dict[str, Any] = {
    **MOR,
    **NO_INGEST,
    "services": {
        "compaction": {"trigger": {"deltaCommits": 3}},
        "clustering": {"enabled": True, "everyCommits": 3},
        "cleaning": {"retain": 2},
        "archiving": {"minCommits": 3, "maxCommits": 4},
    },
}


def test_several_services_run_in_a_fixed_order_one_at_a_time() -> None:
    observed = Observed(observed_table("delta " * 12))
    actions = plan(resolved(**SEVERAL), EMPTY, observed, NOW_MS)
    assert started_kinds(actions) == ["cleaning", "archival", "compaction", "clustering"]
    busy = replace(observed, running=frozenset({"people-clean-x"}))
    assert starts(plan(resolved(**SEVERAL), EMPTY, busy, NOW_MS)) == []


def saved(**benefits: int) -> LakeTableStatus:
    """Services whose last runs saved so many bytes, for a core-second each."""
    return LakeTableStatus(
        services={
            name: ServiceStatus(last_saving=RunSaving(benefit_bytes=benefit, core_ms=1_000))
            for name, benefit in benefits.items()
        }
    )


def test_what_saved_most_per_core_second_runs_first() -> None:
    observed = Observed(observed_table("delta " * 12))

    def order(status: LakeTableStatus) -> list[str]:
        return started_kinds(plan(resolved(**SEVERAL), status, observed, NOW_MS))

    known = saved(cleaning=10, archiving=900, compaction=500, clustering=700)
    # Archival comes after cleaning, whatever it saves.
    assert order(known) == ["clustering", "compaction", "cleaning", "archival"]
    (clustering, *_) = starts(plan(resolved(**SEVERAL), known, observed, NOW_MS))
    assert clustering.rate == 700
    # One that never ran goes first, so that its rate becomes known.
    unknown = saved(cleaning=10, archiving=900, clustering=700)
    assert order(unknown)[:2] == ["compaction", "clustering"]
    asked = plan(resolved(**SEVERAL, rerun={"cleaning": 1}), known, observed, NOW_MS)
    urgent = [start for start in starts(asked) if start.priority is Priority.URGENT_SERVICE]
    rest = [start for start in starts(asked) if start.priority is Priority.SERVICE]
    assert [str(start.operation.kind) for start in urgent + rest][-1] == "cleaning"
    assert starts(asked)[-1].rate is None


def test_a_run_that_found_nothing_leaves_what_the_last_one_saved() -> None:
    spec = resolved(**NO_INGEST, **CLEANING_SPEC)
    observed = Observed(observed_table("commit commit commit"))
    (start,) = starts(plan(spec, EMPTY, observed, NOW_MS))
    status = operation_started(EMPTY, start.operation, 1, NOW_MS)
    done = OperationResult(
        start.operation.id,
        Outcome.SUCCEEDED,
        saved=Benefit(objects_listed=3, bytes_stored=5_000),
        core_seconds=0.25,
        requests=7,
    )
    status = operation_finished(status, done, NOW_MS)
    benefit = RunSaving(
        objects_listed=3,
        bytes_stored=5_000,
        benefit_bytes=done.saved.benefit_bytes,
        core_ms=250,
        requests=7,
    )
    assert status.services["cleaning"].last_saving == benefit
    nothing = OperationResult(start.operation.id, Outcome.NOTHING, "nothing to delete")
    assert operation_finished(status, nothing, NOW_MS).services["cleaning"].last_saving == benefit


def test_a_service_gets_the_settings_of_its_spec_and_properties_over_them() -> None:
    spec = {
        **only_service("clustering", everyCommits=4, sortBy=["city", "id"]),
        "properties": {"hoodie.layout.optimize.strategy": "ZORDER"},
    }
    observed = Observed(observed_table("commit " * 4))
    (start,) = starts(plan(resolved(**NO_INGEST, **spec), EMPTY, observed, NOW_MS))
    work = start.operation.work
    assert isinstance(work, RunService)
    assert (work.service, work.basis, work.rerun) == (CLUSTERING, str(at(4)), None)
    assert work.settings["hoodie.clustering.plan.strategy.sort.columns"] == "city,id"
    assert work.settings["hoodie.clustering.inline.max.commits"] == "4"
    assert work.settings["hoodie.layout.optimize.strategy"] == "ZORDER"
    assert start.operation.kind is OperationKind("clustering")


def test_ingests_run_no_services_of_their_own() -> None:
    (start, *_) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    written = start.operation.table.write_properties
    inline = ("clean.automatic", "archive.automatic", "compact.inline", "clustering.inline")
    assert {written[f"hoodie.{name}"] for name in inline} == {"false"}
    assert not {f"hoodie.{name}" for name in inline} & set(
        start.operation.table.creation_properties
    )


def test_the_same_timeline_gives_the_same_run_and_a_later_one_another() -> None:
    def run(words: str, **spec: Any) -> str:
        table_spec = resolved(**NO_INGEST, **{**CLUSTERING_SPEC, **spec})
        return starts(plan(table_spec, EMPTY, Observed(observed_table(words)), NOW_MS))[
            0
        ].operation.id

    four = "commit " * 4
    assert run(four) == run(four)
    others = {run(four), run(four + "commit"), run(four, rerun={"clustering": 1})}
    assert len(others) == 3


@pytest.mark.parametrize(
    ("spec", "words", "service", "at_number"),
    [
        (COMPACTION_SPEC, "delta ?compaction", COMPACTION, 2),
        (CLUSTERING_SPEC, "commit ?cluster", CLUSTERING, 2),
        (CLEANING_SPEC, "commit ?clean", CLEANING, 2),
    ],
)
def test_the_plan_of_a_dead_service_is_resumed_and_that_of_a_live_one_is_not(
    spec: dict[str, Any], words: str, service: TableService, at_number: int
) -> None:
    idle = observed_table(words, pending=(planned(at(at_number), service, is_idle=True),))
    (start, *_) = starts(plan(resolved(**spec), EMPTY, seen(*FILES, table=idle), NOW_MS))
    work = start.operation.work
    assert isinstance(work, RunService)
    assert (work.service, work.resumes) == (service, (str(at(at_number)),))
    assert start.priority is Priority.URGENT_SERVICE
    alive = observed_table(words, pending=(planned(at(at_number), service, is_idle=False),))
    actions = plan(resolved(**NO_INGEST, **spec), EMPTY, Observed(alive), NOW_MS)
    assert starts(actions) == []
    assert [item.kind for item in actions if isinstance(item, Wait)] == [WaitKind.HEARTBEAT]


def test_dead_writers_are_rolled_back_before_services_run() -> None:
    broken = observed_table("commit " * 4, pending=(pending("1", is_dead=True),))
    actions = plan(resolved(**NO_INGEST, **CLUSTERING_SPEC), EMPTY, Observed(broken), NOW_MS)
    assert started_kinds(actions) == ["rollback"]


def test_a_number_in_rerun_runs_a_service_once_regardless_of_its_trigger() -> None:
    spec = {**CLUSTERING_SPEC, "rerun": {"clustering": 2}}
    observed = Observed(observed_table("commit"))
    (start,) = starts(plan(resolved(**NO_INGEST, **spec), EMPTY, observed, NOW_MS))
    work = start.operation.work
    assert isinstance(work, RunService)
    assert (work.rerun, work.settings["hoodie.clustering.inline.max.commits"]) == (2, "1")
    started = operation_started(EMPTY, start.operation, 1, NOW_MS)
    for outcome, again in ((Outcome.FAILED, True), (Outcome.NOTHING, False)):
        status = operation_finished(started, OperationResult(start.operation.id, outcome), NOW_MS)
        later = plan(resolved(**NO_INGEST, **spec), status, observed, NOW_MS + 3_600_000)
        assert bool(starts(later)) is again


def failing(spec: dict[str, Any], attempts: int) -> LakeTableStatus:
    status = EMPTY
    for attempt in range(1, attempts + 1):
        seen_table = observed_table("commit " * (3 + attempt))
        actions = plan(resolved(**NO_INGEST, **spec), EMPTY, Observed(seen_table), NOW_MS)
        operation = starts(actions)[0].operation
        status = operation_started(status, operation, attempt, NOW_MS)
        result = OperationResult(operation.id, Outcome.FAILED, "no space", exit_code=4)
        status = operation_finished(status, result, NOW_MS)
    return status


def test_a_service_that_fails_waits_longer_each_time_also_when_commits_go_on() -> None:
    status = failing(CLUSTERING_SPEC, attempts=3)
    observed = Observed(observed_table("commit " * 8))
    actions = plan(resolved(**NO_INGEST, **CLUSTERING_SPEC), status, observed, NOW_MS)
    assert [(item.kind, item.until_ms - NOW_MS) for item in actions if isinstance(item, Wait)] == [
        (WaitKind.RETRY, 8_000)
    ]
    later = plan(resolved(**NO_INGEST, **CLUSTERING_SPEC), status, observed, NOW_MS + 8_000)
    assert starts(later)[0].attempt == 4


def test_files_are_ingested_while_a_service_fails() -> None:
    status = failing(CLUSTERING_SPEC, attempts=1)
    observed = seen(*FILES, table=observed_table("commit " * 20))
    (start,) = starts(plan(resolved(**CLUSTERING_SPEC), status, observed, NOW_MS))
    assert isinstance(start.operation.work, IngestRange)


def test_a_run_that_found_nothing_to_do_is_not_repeated_at_once() -> None:
    observed = Observed(observed_table("commit " * 4))
    (start,) = starts(plan(resolved(**NO_INGEST, **CLUSTERING_SPEC), EMPTY, observed, NOW_MS))
    status = operation_started(EMPTY, start.operation, 1, NOW_MS)
    status = operation_finished(
        status, OperationResult(start.operation.id, Outcome.NOTHING), NOW_MS
    )
    actions = plan(resolved(**NO_INGEST, **CLUSTERING_SPEC), status, observed, NOW_MS)
    assert [item.kind for item in actions if isinstance(item, Wait)] == [WaitKind.RETRY]


@pytest.mark.parametrize(("mode", "due"), [("Auto", ["clustering"]), ("Advise", []), ("Off", [])])
def test_the_mode_says_who_runs_what_is_due(mode: str, due: list[str]) -> None:
    spec = {"services": {**CLUSTERING_SPEC["services"], "mode": mode}}
    observed = Observed(observed_table("commit " * 4))
    actions = plan(resolved(**NO_INGEST, **spec), EMPTY, observed, NOW_MS)
    assert started_kinds(actions) == due
    advice = [item.subject for item in actions if isinstance(item, Advise)]
    assert advice == (["clustering"] if mode == "Advise" else [])


def test_services_wait_for_their_window_and_resume_in_it() -> None:
    hour_ms = 3_600_000
    midnight_ms = NOW_MS - NOW_MS % (24 * hour_ms)
    spec = {"services": {**CLUSTERING_SPEC["services"], "maintenanceWindow": "* 3-4 * * *"}}
    observed = Observed(observed_table("commit " * 4))

    def at_hour(hour: int) -> tuple[PlannedAction, ...]:
        return plan(resolved(**NO_INGEST, **spec), EMPTY, observed, midnight_ms + hour * hour_ms)

    assert started_kinds(at_hour(3)) == started_kinds(at_hour(4)) == ["clustering"]
    (wait,) = [item for item in at_hour(1) if isinstance(item, Wait)]
    assert (wait.kind, wait.until_ms) == (WaitKind.WINDOW, midnight_ms + 3 * hour_ms)


@pytest.mark.parametrize("spec", [{"fenced": True}])
def test_a_fence_keeps_writers_out_and_lets_services_run(spec: dict[str, Any]) -> None:
    observed = seen(*FILES, table=observed_table("commit " * 4))
    actions = plan(resolved(**CLUSTERING_SPEC, **spec), EMPTY, observed, NOW_MS)
    assert started_kinds(actions) == ["clustering"]
    assert any(isinstance(item, Blocked) and item.reason == "Fenced" for item in actions)


def test_invalid_settings_are_reported_and_the_others_go_on() -> None:
    spec: dict[str, Any] = {
        "services": {"clustering": {"enabled": True}, "cleaning": {"retain": 2}},
        "properties": {"hoodie.keep.max.commits": "1"},
    }
    observed = Observed(observed_table("commit " * 4))
    actions = plan(resolved(**NO_INGEST, **spec), EMPTY, observed, NOW_MS)
    assert started_kinds(actions) == ["cleaning", "clustering"]
    (blocked,) = [item for item in actions if isinstance(item, Blocked)]
    assert (blocked.subject, blocked.exit_code) == ("archiving", 2)


def look(spec: ResolvedTable, observed: Observed, status: LakeTableStatus = EMPTY,
         now_ms: int = NOW_MS) -> LakeTableStatus:  # fmt: skip
    actions = plan(spec, status, observed, now_ms)
    return observed_status(spec, status, observed, actions, now_ms)


def test_the_status_says_of_every_service_what_it_did_and_what_comes_next() -> None:
    spec = resolved(**NO_INGEST, **CLUSTERING_SPEC)
    observed = Observed(observed_table("commit " * 4))
    before = look(spec, observed).services["clustering"]
    assert (before.is_due, before.reason) == (True, "4 of 4 commits since the table began")
    (start,) = starts(plan(spec, EMPTY, observed, NOW_MS))
    status = operation_started(EMPTY, start.operation, 1, NOW_MS)
    result = OperationResult(start.operation.id, Outcome.FAILED, "no space", exit_code=4)
    failed = look(spec, observed, operation_finished(status, result, NOW_MS)).services["clustering"]
    assert (failed.last_result, failed.next_run and failed.next_run.ms) == (
        "failed: no space", NOW_MS + 2_000
    )  # fmt: skip
    result = OperationResult(start.operation.id, Outcome.SUCCEEDED, "rewrote 4 files as 1")
    done = operation_finished(status, result, NOW_MS)
    after = look(spec, Observed(observed_table("commit " * 4 + "cluster")), done).services[
        "clustering"
    ]
    assert (after.is_due, after.last_result) == (False, "rewrote 4 files as 1")
    assert after.last_run is not None


@pytest.mark.parametrize(
    ("spec", "words", "expected"),
    [
        (CLUSTERING_SPEC, "commit", (ConditionStatus.TRUE, "Current")),
        (CLUSTERING_SPEC, "commit " * 4, (ConditionStatus.FALSE, "Due")),
        ({"services": {**CLUSTERING_SPEC["services"], "mode": "Advise"}}, "commit " * 4,
         (ConditionStatus.FALSE, "Advised")),
        ({"services": {"mode": "Off"}}, "commit " * 4, (ConditionStatus.TRUE, "Off")),
    ],
)  # fmt: skip
def test_a_condition_sums_the_services_up(
    spec: dict[str, Any], words: str, expected: tuple[ConditionStatus, str]
) -> None:
    status = look(resolved(**NO_INGEST, **spec), Observed(observed_table(words)))
    found = next(item for item in status.conditions if item.type is ConditionType.SERVICES_CURRENT)
    assert (found.status, found.reason) == expected


def test_a_lost_status_changes_when_a_service_runs_but_never_what() -> None:
    spec = resolved(**NO_INGEST, **CLUSTERING_SPEC)
    observed = Observed(observed_table("commit " * 4))
    remembered = replace(EMPTY, services={"clustering": ServiceStatus(reason="old")})
    assert starts(plan(spec, remembered, observed, NOW_MS)) == starts(
        plan(spec, EMPTY, observed, NOW_MS)
    )


def test_running_the_plan_to_its_end_leaves_no_service_due() -> None:
    """The whole loop on values: commit after commit, each service when it is due."""
    spec = resolved(
        **MOR,
        services={
            "compaction": {"trigger": {"deltaCommits": 3}},
            "clustering": {"enabled": True, "everyCommits": 8},
            "cleaning": {"enabled": False},
            "archiving": {"enabled": False},
        },
    )
    words: list[str] = []
    status: LakeTableStatus = EMPTY
    files = list(FILES)
    for step in range(40):
        seen_table = observed_table(" ".join(words) or "", table_type="MERGE_ON_READ")
        now_ms = NOW_MS + step
        actions = plan(spec, status, seen(*files, table=seen_table), now_ms)
        if not starts(actions):
            break
        start = starts(actions)[0]
        word = {"ingest": "delta", "clustering": "cluster"}.get(
            start.operation.kind.value, start.operation.kind.value
        )
        words.append(word)
        if word == "delta" and len(words) > 20:
            files = []
        status = operation_started(status, start.operation, start.attempt, now_ms)
        done = OperationResult(start.operation.id, Outcome.SUCCEEDED, files_written=1)
        status = replace(operation_finished(status, done, now_ms), operations=())
    assert words[:5] == ["delta", "delta", "delta", "compaction", "delta"]
    assert words.count("cluster") >= 1
    assert needs({**MOR, "services": {"compaction": {"trigger": {"deltaCommits": 3}}}},
                 observed_table(" ".join(words)))["compaction"] == (False, False)  # fmt: skip
