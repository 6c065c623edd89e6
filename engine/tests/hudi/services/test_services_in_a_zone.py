"""A table whose instants are those of a zone: made, aged and undone there, through the year."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tideline.errors import ConfigError
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.retention import plan_retention
from tideline.hudi.services.compaction.config import CompactionConfig, CompactionTrigger
from tideline.hudi.services.compaction.plan import CompactionDue, find_due
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig
from tideline.hudi.services.partition_ttl.plan import PartitionAge, plan_partition_ttl
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TIMELINE_TIMEZONE, TIMEZONE, TableConfig, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import AGE_UNKNOWN, KnownZone, ZoneBasis
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone
from tideline.services.explanation import NotDue
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

HOUR_S, HOUR_MS, DAY_MS = 3600, 3_600_000, 86_400_000
ZONES = ("America/Los_Angeles", "Asia/Kolkata")
LOS_ANGELES = TimelineZone.parse("America/Los_Angeles")
UNSURE = KnownZone(UTC_ZONE, ZoneBasis.UNSURE)
KEEP_2_HOURS = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "2"}


def declared(zone: TimelineZone) -> KnownZone:
    return KnownZone(zone, ZoneBasis.DECLARED)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def opened(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest) -> TimelineZone:
    return TimelineZone.parse(request.param)


@pytest.fixture
def table(zone: TimelineZone) -> Iterator[SmallTable]:
    made = SmallTable.in_memory({TIMEZONE: zone.name}, ordering=["v"])
    yield made
    made.forget()


@pytest.fixture
def elsewhere(zone: TimelineZone) -> Iterator[SmallTable]:
    """The same without a declaration, as an engine in that zone leaves it."""
    made = SmallTable.in_memory({TIMEZONE: zone.name}, ordering=["v"])
    for number in range(3):
        made.write("upsert", batch(range(4), number))
        made.fake_clock.advance(1000)
    opened(made).properties.update({TIMEZONE: None})
    yield made
    made.forget()


def test_a_table_of_a_declared_zone_has_its_digits(table: SmallTable, zone: TimelineZone) -> None:
    config = opened(table).config
    assert config.properties[TIMELINE_TIMEZONE] == "LOCAL"
    for number in range(3):
        table.fake_clock.advance(500)
        before_ms = table.clock.now_ms()
        # An option without a name says nothing against the table's own property.
        report = table.write("upsert", batch(range(4), number), options={TIMEZONE: " "})
        assert zone.epoch_ms(InstantTime(report.instant)) == before_ms + 1
        assert report.notes == ()


def test_services_keep_to_the_zone(table: SmallTable, zone: TimelineZone) -> None:
    table.write("insert", batch(range(4), 1))
    kept = create_savepoint(opened(table)).instant
    table.fake_clock.advance(900)
    table.write("upsert", batch(range(4), 2))
    table.fake_clock.advance(900)
    restored = restore_table(opened(table), kept).instant
    assert restored is not None
    assert zone.epoch_ms(restored) == table.clock.now_ms() + 1
    assert table.values() == [(f"k{n:03d}", 1) for n in range(4)]
    table.fake_clock.advance(900)
    table.write("upsert", batch(range(4), 3))


def test_files_are_cleaned_by_their_age(table: SmallTable) -> None:
    for number in range(3):
        table.write("upsert", batch(range(4), number))
        table.fake_clock.advance(HOUR_S * 0.9)
    lake = table.lake()
    assert lake.run("cleaning", options=KEEP_2_HOURS).not_due is not None
    table.fake_clock.advance(HOUR_S * 0.9)
    (done,) = lake.run("cleaning", options=KEEP_2_HOURS).done
    assert len(done.to_json_object()["deleted"]) == 2
    table.fake_clock.advance(HOUR_S * 0.9)
    assert table.values() == [(f"k{n:03d}", 2) for n in range(4)]


def test_undeclared_it_is_read_and_left_alone(elsewhere: SmallTable) -> None:
    before = [info.path for info in elsewhere.store().list()]
    assert elsewhere.values() == [(f"k{n:03d}", 2) for n in range(4)]
    lake = elsewhere.lake()
    savepoint = create_savepoint(opened(elsewhere)).instant
    before += [f".hoodie/{savepoint}.savepoint", f".hoodie/{savepoint}.savepoint.inflight"]
    for attempt in (
        lambda: elsewhere.write("upsert", batch([0], 9)),
        lambda: lake.delete_partitions("p0"),
        lambda: lake.expire_partitions(),
        lambda: lake.run("cleaning"),
        lambda: lake.run("archival"),
        lambda: lake.run("rollback"),
        lambda: lake.schedule("clustering"),
        lambda: lake.plan("partition_ttl"),
        lambda: lake.recover(),
        lambda: lake.repair(),
        lambda: restore_table(opened(elsewhere), savepoint),
    ):
        with pytest.raises(ConfigError, match="instants are not UTC"):
            attempt()
    assert sorted(info.path for info in elsewhere.store().list()) == sorted(before)
    (finding,) = [candidate for candidate in lake.check() if "not UTC" in candidate.message]
    assert "declare" in finding.advice


def test_an_option_declares_the_zone(elsewhere: SmallTable, zone: TimelineZone) -> None:
    newest = opened(elsewhere).timeline().newest_time()
    assert newest is not None
    report = elsewhere.write("upsert", batch([0], 9), options={TIMEZONE: zone.name})
    assert InstantTime(report.instant) > newest
    assert zone.epoch_ms(InstantTime(report.instant)) == elsewhere.clock.now_ms() + 1
    elsewhere.lake().plan("cleaning", options={TIMEZONE: zone.name})
    with pytest.raises(ConfigError, match="no time zone"):
        elsewhere.write("upsert", batch([0], 9), options={TIMEZONE: "Mars"})


def test_of_a_utc_table_no_other_zone_is_declared() -> None:
    table = SmallTable.in_memory()
    with pytest.raises(ConfigError, match="says that the table is UTC"):
        table.write("insert", batch([0], 1), options={TIMEZONE: "Asia/Kolkata"})
    table.write("insert", batch([0], 1), options={TIMEZONE: "UTC"})
    config = TableConfig({TIMELINE_TIMEZONE: "UTC", TIMEZONE: "Asia/Kolkata"})
    with pytest.raises(ConfigError, match="says that the table is UTC"):
        _ = config.declared_zone


def test_copied_objects_let_writers_go_on_and_what_depends_on_age_wait() -> None:
    original = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ, ordering=["v"])
    for number in range(4):
        original.write("upsert", batch(range(4), number))
        original.fake_clock.advance(HOUR_S)
    opened(original).properties.update({TIMELINE_TIMEZONE: "LOCAL"})
    original.fake_clock.advance(500 * HOUR_S)
    table = original.copy()
    lake = table.lake()
    plan = lake.plan("cleaning", options=KEEP_2_HOURS)
    assert plan.outcome == NotDue(AGE_UNKNOWN)
    assert "taken for UTC" in (plan.warning or "")
    by_time = {"hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED"}
    compaction = lake.plan("compaction", options=by_time).outcome
    assert isinstance(compaction, NotDue)
    assert AGE_UNKNOWN in compaction.reason
    ttl = lake.plan("partition_ttl", options={"hoodie.partition.ttl.strategy.days.retain": "1"})
    assert ttl.outcome == NotDue(AGE_UNKNOWN)
    by_commits = lake.plan("cleaning", options={"hoodie.clean.commits.retained": "1"}).outcome
    assert by_commits.to_json_object()["reason"].startswith("nothing to delete")
    report = table.write("upsert", batch([0], 9))
    assert [note for note in report.notes if "taken for UTC" in note]
    table.forget()
    original.forget()


def delta_commits(*moments_ms: int, zone: TimelineZone) -> ActiveTimeline:
    return ActiveTimeline(
        tuple(
            Instant(zone.instant_at(moment), Action.DELTACOMMIT, State.COMPLETED)
            for moment in moments_ms
        )
    )


@pytest.mark.parametrize("change", ["2026-03-08T10:00:00", "2026-11-01T09:00:00"])
@pytest.mark.parametrize("minutes", range(-150, 240, 30))
def test_no_commit_counts_as_older_than_it_is(change: str, minutes: int) -> None:
    """Around both changes of daylight saving, for a clean by hours and a partition's TTL."""
    now_ms = ms(change) + minutes * 60_000
    config = CleaningConfig.from_settings(Settings(KEEP_2_HOURS))
    moments = sorted(now_ms - n * 20 * 60_000 for n in range(12))
    zone = LOS_ANGELES
    timeline = delta_commits(*moments, zone=zone)
    found = plan_retention(timeline, None, config, now_ms, declared(zone))
    assert not isinstance(found, NotDue)
    assert found.earliest is not None
    younger = {zone.instant_at(number) for number in moments if number >= now_ms - 2 * HOUR_MS}
    assert found.earliest.time <= min(younger)
    for moment in moments:
        aged = [PartitionAge("p", zone.instant_at(moment - DAY_MS))]
        ttl = plan_partition_ttl(
            aged, PartitionTtlConfig(days_retained=1), now_ms - 1, declared(zone)
        )
        if not isinstance(ttl, NotDue):
            assert moment < now_ms


def test_a_trigger_by_time_counts_true_hours() -> None:
    now_ms = ms("2026-11-01T10:30:00")
    timeline = delta_commits(now_ms - 3 * HOUR_MS, zone=LOS_ANGELES)
    now = LOS_ANGELES.instant_at(now_ms)

    def ask(hours: float, known: KnownZone) -> CompactionDue | NotDue:
        config = CompactionConfig(
            trigger=CompactionTrigger.TIME_ELAPSED, delta_seconds_max=round(hours * HOUR_S)
        )
        return find_due(timeline, config, now, completed_at={}, known=known)

    assert isinstance(ask(3, declared(LOS_ANGELES)), CompactionDue)
    assert isinstance(ask(3.01, declared(LOS_ANGELES)), NotDue)
    assert isinstance(ask(0.01, UNSURE), NotDue)


@pytest.mark.parametrize(
    ("trigger", "is_due"),
    [
        (CompactionTrigger.NUM_COMMITS, True),
        (CompactionTrigger.NUM_OR_TIME, True),
        (CompactionTrigger.NUM_AND_TIME, False),
    ],
)
def test_of_an_unknown_age_only_the_commits_count(trigger: CompactionTrigger, is_due: bool) -> None:
    now_ms = ms("2026-06-01T10:30:00")
    timeline = delta_commits(now_ms - 300 * HOUR_MS, zone=UTC_ZONE)
    config = replace(CompactionConfig(), trigger=trigger, delta_commits_max=1, delta_seconds_max=1)
    now = UTC_ZONE.instant_at(now_ms)
    found = find_due(timeline, config, now, completed_at={}, known=UNSURE)
    assert isinstance(found, CompactionDue) is is_due
