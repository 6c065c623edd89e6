"""What runs after a commit, what is only scheduled, and what a failure does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.index.bucket_layout import HASHING_METADATA_FOLDER
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.registry import all_services, service_named
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.run_metrics import RunMetrics, estimate_by_amount, estimate_run
from tideline.hudi.services.scheduler import SchedulerConfig, run_after_commit
from tideline.hudi.services.service import InlineStep
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import CDC_ENABLED, INDEX_TYPE, TableType
from tideline.hudi.timeline.instant import Action
from tideline.resource_usage import ResourceUsage
from tideline.services.explanation import Estimate, Explanation, NotDue
from tideline.storage.heartbeat import Heartbeat
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch

DUE = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.clustering.inline.max.commits": "1"}


@pytest.fixture
def mor() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(10), 1))
    table.write("upsert", batch([0, 1], 2))
    yield table
    table.forget()


def after_commit(table: SmallTable, options: Mapping[str, str]) -> dict[str, str]:
    """What each service that did something did: run, scheduled or failed."""
    prepared = local_services(table, options)
    config = SchedulerConfig.from_settings(prepared.context.settings)
    return {
        outcome.service.name: "left out" if outcome.left_out
        else "failed" if outcome.failure
        else "scheduled" if outcome.scheduled else "run"
        for outcome in run_after_commit(prepared, config)
    }  # fmt: skip


def test_nothing_that_moves_rows_runs_unless_asked_for(mor: SmallTable) -> None:
    assert after_commit(mor, DUE) == {}


def test_inline_services_run_in_hudis_order(mor: SmallTable) -> None:
    options = {
        **DUE,
        "hoodie.compact.inline": "true",
        "hoodie.clustering.inline": "true",
        "hoodie.clean.commits.retained": "1",
    }
    before = mor.values()
    done = after_commit(mor, options)
    assert list(done) == [name for name in ("cleaning", "compaction", "clustering") if name in done]
    assert {"compaction", "clustering"} <= set(done)
    assert mor.values() == before


def test_scheduled_inline_only_writes_one_plan(mor: SmallTable) -> None:
    options = {**DUE, "hoodie.compact.schedule.inline": "true"}
    assert after_commit(mor, options) == {"compaction": "scheduled"}
    assert len(mor.lake().timeline().pending().of(Action.COMPACTION)) == 1
    mor.write("upsert", batch([5], 3))
    assert after_commit(mor, options) == {}
    before = mor.values()
    run = local_services(mor, DUE).run(COMPACTION)
    assert len(run.done) == 2
    assert mor.values() == before


def test_async_clustering_is_scheduled_by_its_own_number_of_commits(mor: SmallTable) -> None:
    options = {
        "hoodie.clustering.async.enabled": "true",
        "hoodie.clustering.async.max.commits": "9",
    }
    assert after_commit(mor, options) == {}
    options["hoodie.clustering.async.max.commits"] = "2"
    assert after_commit(mor, options) == {"clustering": "scheduled"}


def test_a_batch_into_a_merge_on_read_table_compacts_unless_others_do() -> None:
    def compacts(**settings: str) -> bool:
        read = Settings({name.replace("_", "."): value for name, value in settings.items()})
        config = SchedulerConfig.from_settings(read, compacts_by_default=True)
        return InlineStep.RUN in config.turns[COMPACTION]

    assert compacts()
    assert not compacts(hoodie_compact_inline="false")
    assert not compacts(hoodie_compact_schedule_inline="true")
    assert not compacts(hoodie_datasource_compaction_async_enable="true")


def test_dropping_partitions_moves_no_rows_and_compacts_none(mor: SmallTable) -> None:
    """It needs no Spark, so nothing may start one afterwards."""
    report = mor.lake().delete_partitions(["p0"], options=DUE)
    assert COMPACTION not in {outcome.service for outcome in report.services}
    assert not len(mor.lake().timeline().pending())


def test_a_failure_after_the_commit_is_reported_and_not_raised(mor: SmallTable) -> None:
    options = {**DUE, "hoodie.compact.inline": "true"}
    log = mor.lake().hoodie_table.files.log_files()[0]
    local_services(mor, DUE).schedule(COMPACTION)
    mor.store().delete(log.path)
    assert after_commit(mor, options)["compaction"] == "failed"
    options["hoodie.fail.writes.on.inline.table.service.exception"] = "true"
    with pytest.raises(CorruptTableError):
        after_commit(mor, options)


def test_what_the_table_is_not_for_is_left_out_and_said(mor: SmallTable) -> None:
    mor.lake().hoodie_table.properties.update({CDC_ENABLED: "true"})
    options = {**DUE, "hoodie.compact.inline": "true"}
    options["hoodie.fail.writes.on.inline.table.service.exception"] = "true"
    assert after_commit(mor, options) == {"compaction": "left out"}
    options = {**DUE, "hoodie.compact.schedule.inline": "true"}
    assert after_commit(mor, options) == {"compaction": "left out"}
    prepared = local_services(mor, options)
    (report,) = run_after_commit(prepared, SchedulerConfig.from_settings(prepared.context.settings))
    assert "CDC" in report.to_json_object()["left_out"]
    assert prepared.plan(COMPACTION).outcome == NotDue(str(report.left_out))


def test_buckets_are_not_clustered_and_rings_do_not_expire() -> None:
    table = SmallTable.in_memory(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    )
    table.write("insert", batch(range(10), 1))
    assert after_commit(table, {**DUE, "hoodie.clustering.inline": "true"}) == {
        "clustering": "left out"
    }
    services = table.lake().services()
    assert services.refusal(PARTITION_TTL) is None
    hashing = {"hoodie.bucket.index.num.buckets": None, INDEX_TYPE: None}
    hoodie = table.lake().hoodie_table
    hoodie.properties.update(hashing)
    hoodie.store.put(f"{HASHING_METADATA_FOLDER}/p0/x.hashing_meta", b"{}")
    ttl = {"hoodie.partition.ttl.inline": "true"}
    refusal = table.lake().services(ttl).refusal(PARTITION_TTL)
    assert refusal is not None and "CONSISTENT_HASHING" in refusal.reason
    done = run_after_commit(
        table.lake().services(ttl), SchedulerConfig({PARTITION_TTL: frozenset({InlineStep.RUN})})
    )
    assert [commit.service for commit in done if commit.left_out] == [PARTITION_TTL]


def test_a_plan_says_why_and_what_it_costs_and_changes_nothing(mor: SmallTable) -> None:
    before = {info.path for info in mor.store().list()}
    planned = {service: local_services(mor, DUE).plan(service) for service in all_services()}
    assert {info.path for info in mor.store().list()} == before
    compaction = planned[COMPACTION]
    assert isinstance(compaction.outcome, Explanation)
    assert "2 of 1 delta commits" in compaction.outcome.reason
    assert compaction.outcome.bytes_read > 0
    assert compaction.outcome.estimated_s is None
    assert isinstance(planned[ROLLBACK].outcome, NotDue)
    document = compaction.to_json_object()
    assert (document["due"], document["service"]) == (True, "compaction")
    local_services(mor, DUE).run(COMPACTION)
    mor.write("upsert", batch([5], 3))
    outcome = local_services(mor, DUE).plan(COMPACTION).outcome
    assert isinstance(outcome, Explanation)
    assert outcome.estimated_s is not None


def test_a_plan_shows_what_is_pending_and_whether_a_process_runs_it(mor: SmallTable) -> None:
    instant = local_services(mor, DUE).schedule(COMPACTION)
    assert not isinstance(instant, NotDue)
    (waiting,) = local_services(mor, DUE).plan(COMPACTION).pending
    assert not waiting.is_alive
    with Heartbeat(mor.store(), str(instant.time), mor.clock):
        (running,) = local_services(mor, DUE).plan(COMPACTION).pending
        assert running.is_alive
        run = local_services(mor, DUE).run(COMPACTION)
        assert run.left_alone == (instant.time,)
        assert run.done == ()


def test_services_roll_back_what_dead_writers_left_first(mor: SmallTable) -> None:
    hoodie = mor.lake().hoodie_table
    hoodie.timelines.create_requested(hoodie.instants.next_time(), Action.DELTACOMMIT)
    mor.fake_clock.advance(3600)
    assert len(local_services(mor, DUE).run(COMPACTION).done) == 1
    assert not len(mor.lake().timeline().pending())


def test_a_clean_is_estimated_by_the_files_that_past_ones_deleted(mor: SmallTable) -> None:
    settings = {**DUE, "hoodie.clean.commits.retained": "1"}

    def replace_files(version: int) -> None:
        local_services(mor, settings).run(COMPACTION)
        mor.write("upsert", batch(range(8), version))

    for version in (3, 4, 5):
        replace_files(version)
    first = local_services(mor, settings).plan(CLEANING).outcome
    assert isinstance(first, Explanation)
    assert first.estimated_s is None
    before_ms = mor.clock.now_ms()
    local_services(mor, settings).run(CLEANING)
    took_s = (mor.clock.now_ms() - before_ms) / 1000
    for version in (6, 7):
        replace_files(version)
    second = local_services(mor, settings).plan(CLEANING).outcome
    assert isinstance(second, Explanation)
    assert second.estimated_s is not None
    assert 0 <= second.estimated_s <= took_s


def test_what_cannot_be_scheduled_is_refused(mor: SmallTable) -> None:
    with pytest.raises(ConfigError):
        local_services(mor, DUE).schedule(ARCHIVAL)
    with pytest.raises(ConfigError):
        service_named("vacuum")


def test_metrics_survive_a_commit_and_predict_the_next_run() -> None:
    runs = [RunMetrics("compaction", 1000 * n, 10, 5, float(n)) for n in (1, 2)]
    for run in runs:
        assert RunMetrics.from_extra_metadata(run.to_extra_metadata()) == run
    assert RunMetrics.from_extra_metadata({"schema": "x"}) is None
    assert estimate_run(runs, 6000) == Estimate(6.0, None)
    assert estimate_run(runs, 1) == Estimate(1.0, None)
    assert estimate_run([], 1) == Estimate()
    measured = replace(runs[0], spent=ResourceUsage(0.5, 9))
    assert estimate_run([measured, *runs], 6000).core_seconds == 3.0
    assert estimate_by_amount([(10, 2.0), (30, 6.0)], 60) == 12.0
    assert estimate_by_amount([(0, 0.5)], 60) == 0.5
