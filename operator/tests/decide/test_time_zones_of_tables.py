"""Tables of other zones in the operator: a problem until declared, then ages in the zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.table_config import TIMELINE_TIMEZONE, TIMEZONE
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import AGE_UNKNOWN, KnownZone, ZoneBasis
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import RunService
from tideline.storage.location import StoreLocation
from tideline_operator.decide.actions import Blocked
from tideline_operator.decide.observed import Observed, TableHistory
from tideline_operator.decide.planner import plan
from tideline_operator.decide.service_triggers import service_needs
from tideline_operator.observe.observation import Observer
from tideline_operator.report.status import observed_status
from tideline_operator.testing.table_states import EMPTY, TABLE, resolved, starts

CLOCK = SystemClock()
HOUR_MS = 3_600_000
KOLKATA = TimelineZone.parse("Asia/Kolkata")
BY_HOURS = {
    "services": {
        "cleaning": {"policy": "KEEP_LATEST_BY_HOURS", "retain": 4},
        "archiving": {"enabled": False},
    }
}
See = Callable[..., Observed]


@pytest.fixture
def see(tmp_path: Path) -> See:
    """Looks, as a spec declares it, at a table that others in Kolkata began to write just now."""
    location = StoreLocation.of(f"file://{tmp_path}/table")
    definition = TableDefinition("people", ("id",), ("city",), ordering=("ts",), table_version=6)
    create_table(location.open(), definition, CLOCK)
    table = open_table(location, CLOCK)
    table.properties.update({TIMELINE_TIMEZONE: "LOCAL"})
    table.instants.declare_zone(KOLKATA.name)
    instant = table.timelines.create_requested(table.instants.next_time(), Action.COMMIT)
    table.timelines.complete(table.timelines.to_inflight(instant), CommitMetadata({}).encode())

    def look(**spec: Any) -> Observed:
        declared = replace(resolved(ingest=[], **spec), location=Location(location.uri))
        return Observer(CLOCK).observe(declared, EMPTY)

    return look


def test_undeclared_the_lake_table_says_what_to_declare(see: See) -> None:
    observed = see()
    assert observed.refused is not None
    assert "+05:30 from UTC" in observed.refused.message
    assert observed.refused.message.endswith("declare spec.timezone")
    table = resolved(ingest=[])
    actions = plan(table, EMPTY, observed, CLOCK.now_ms())
    assert [action for action in actions if isinstance(action, Blocked)]
    status = observed_status(table, EMPTY, observed, actions, CLOCK.now_ms())
    assert any("tideline.timezone" in condition.message for condition in status.conditions)


@pytest.mark.parametrize(
    "spec", [{"timezone": KOLKATA.name}, {"properties": {TIMEZONE: KOLKATA.name}}]
)
def test_declared_in_the_spec_it_is_managed(see: See, spec: dict[str, Any]) -> None:
    observed = see(**spec)
    assert observed.table is not None
    assert observed.table.history.zone == KnownZone(KOLKATA, ZoneBasis.DECLARED)


def test_operations_declare_the_zone_to_the_engine() -> None:
    spec: dict[str, Any] = {"timezone": KOLKATA.name, **BY_HOURS}
    table = resolved(ingest=[], **spec)
    now_ms = CLOCK.now_ms()
    seen = Observed(replace(TABLE, history=written_at(now_ms, 9, 1, zone=KOLKATA)))
    (start,) = starts(plan(table, EMPTY, seen, now_ms))
    assert start.operation.table.write_properties[TIMEZONE] == KOLKATA.name
    assert start.operation.table.creation_properties[TIMEZONE] == KOLKATA.name
    assert isinstance(start.operation.work, RunService)
    assert start.operation.work.settings[TIMEZONE] == KOLKATA.name


def written_at(now_ms: int, *hours_ago: float, zone: TimelineZone) -> TableHistory:
    times = [zone.instant_at(round(now_ms - hours * HOUR_MS)) for hours in hours_ago]
    commits = tuple(Instant(time, Action.COMMIT, State.COMPLETED) for time in times)
    return TableHistory(ActiveTimeline(commits), zone=KnownZone(zone, ZoneBasis.DECLARED))


def needed(history: TableHistory, now_ms: int, **spec: Any) -> dict[str, tuple[bool, str]]:
    found = service_needs(
        resolved(ingest=[], **spec).spec, EMPTY, replace(TABLE, history=history), now_ms
    )
    return {need.name: (need.is_due, need.reason) for need in found}


@pytest.mark.parametrize("zone", [KOLKATA, TimelineZone.parse("America/Los_Angeles")])
def test_cleaning_by_hours_uses_the_zone(zone: TimelineZone) -> None:
    now_ms = CLOCK.now_ms()
    young = needed(written_at(now_ms, 3.5, 1, zone=zone), now_ms, **BY_HOURS)
    old = needed(written_at(now_ms, 4.5, 1, zone=zone), now_ms, **BY_HOURS)
    oldest: InstantTime = zone.instant_at(now_ms - HOUR_MS)
    assert str(zone.instant_at(round(now_ms - 3.5 * HOUR_MS))) in young["cleaning"][1]
    assert str(oldest) in old["cleaning"][1]


def test_with_an_unknown_zone_nothing_depends_on_age() -> None:
    now_ms = CLOCK.now_ms()
    history = written_at(now_ms, 300, 200, 100, zone=UTC_ZONE)
    unsure = replace(history, zone=KnownZone(UTC_ZONE, ZoneBasis.UNSURE))
    spec = {"services": {**BY_HOURS["services"], "partitionTtl": {"days": 1}}}
    assert needed(unsure, now_ms, **spec) == {
        "cleaning": (False, AGE_UNKNOWN),
        "partitionTtl": (False, AGE_UNKNOWN),
    }
    assert needed(history, now_ms, **spec)["partitionTtl"][0]
