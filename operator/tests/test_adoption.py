"""Tables that the operator finds are asked what they are before anything is done to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.ingest.operation import Place
from tideline.storage.location import StoreLocation
from tideline.table.create import TableDefinition, create_table
from tideline.table.hoodie_table import HoodieTable
from tideline.table.table_config import CDC_ENABLED, PAYLOAD_CLASS, TIMELINE_TIMEZONE
from tideline.timeline.commit_metadata import CommitMetadata
from tideline.timeline.instant import Action
from tideline.timeline.instant_time import InstantTime
from tideline_operator.actions import Action as Planned
from tideline_operator.actions import Blocked
from tideline_operator.observation import Observer
from tideline_operator.operation import create_operation
from tideline_operator.planner import plan
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import (
    Condition,
    ConditionType,
    LakeTableStatus,
    OperationPhase,
    Truth,
)
from tideline_operator.status import observed_status, operation_started, with_entry
from tideline_operator.testing.table_states import EMPTY, resolved, starts

CLOCK = SystemClock()
LOCAL = {TIMELINE_TIMEZONE: "LOCAL"}


class Turns:
    """A location with or without a table, and what the operator makes of it turn by turn."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        self.location = StoreLocation.of(f"file://{folder}/table")
        self.declared = replace(resolved(**spec), location=Place(self.location.uri))
        self.declared = replace(
            self.declared, landings={"landing": Place(f"file://{folder}/landing")}
        )
        self.observer = Observer(CLOCK)
        self.status = EMPTY
        self.actions: tuple[Planned, ...] = ()

    def make(self, changes: Mapping[str, str] | None = None) -> HoodieTable:
        definition = TableDefinition("people", ("id",), ("city",), ordering=("ts",))
        create_table(self.location.open(), definition, CLOCK)
        table = HoodieTable.open(self.location, CLOCK)
        table.update_properties(dict(changes or {}))
        return table

    def turn(self) -> Condition:
        now_ms = CLOCK.now_ms()
        observed = self.observer.observe(self.declared, self.status)
        self.actions = plan(self.declared, self.status, observed, now_ms)
        self.status = observed_status(self.declared, self.status, observed, self.actions, now_ms)
        return adopted(self.status)

    def restart(self) -> None:
        self.observer = Observer(CLOCK)


def adopted(status: LakeTableStatus) -> Condition:
    return next(item for item in status.conditions if item.type is ConditionType.ADOPTED)


def leave_a_dead_write(table: HoodieTable, time: str) -> None:
    instant = table.timelines.create_requested(InstantTime(time), Action.COMMIT)
    table.timelines.to_inflight(instant)


def test_a_table_of_the_operator_is_known(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    assert (place.turn().status, place.turn().reason) == (Truth.UNKNOWN, "NoTable")
    operation = create_operation(place.declared)
    place.status = operation_started(place.status, operation, 1, CLOCK.now_ms() + 1)
    place.make()
    made = place.turn()
    assert (made.status, made.reason) == (Truth.TRUE, "TableMade")
    place.restart()
    place.status = replace(place.status, operations=())
    assert place.turn().reason == "TableMade"


def test_a_table_that_somebody_made_meanwhile_is_asked(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    place.turn()
    operation = create_operation(place.declared)
    started = operation_started(place.status, operation, 1, CLOCK.now_ms() + 1)
    lost = replace(started.operations[-1], phase=OperationPhase.FAILED)
    place.status = with_entry(started, lost)
    place.make()
    assert place.turn().reason == "Verified"


def test_a_table_that_ran_before_is_asked_and_goes_on(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    table = place.make()
    place.turn()
    # As an operator left it that knew no such condition.
    kept = tuple(one for one in place.status.conditions if one.type is not ConditionType.ADOPTED)
    place.status = replace(place.status, conditions=kept)
    place.restart()
    leave_a_dead_write(table, "20260101000000000")
    assert place.turn().reason == "Verified"
    assert [start.operation.kind.value for start in starts(place.actions)] == ["rollback"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({CDC_ENABLED: "true"}, "CDC"),
        ({PAYLOAD_CLASS: "com.acme.OurPayload"}, "merged in a custom way"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "not supported"),
    ],
)
def test_a_table_that_the_spec_asks_too_much_of_is_left_alone(
    tmp_path: Path, changes: Mapping[str, str], says: str
) -> None:
    place = Turns(tmp_path)
    leave_a_dead_write(place.make(changes), "20260101000000000")
    refused = place.turn()
    assert (refused.status, refused.reason) == (Truth.FALSE, "Refused")
    assert says in refused.message
    assert not starts(place.actions)
    assert [one.reason for one in place.actions if isinstance(one, Blocked)] == ["NotAdopted"]
    assert place.status.owned is None
    # Services alone are no write: what dead writers left is rolled back.
    alone = replace(place.declared.resource, spec=replace(place.declared.spec, ingest=()))
    place.declared = ResolvedTable(alone, place.declared.location, {})
    assert place.turn().reason == "Verified"
    assert len(starts(place.actions)) == 1


def test_a_zone_is_declared_in_the_spec_and_then_the_table_is_adopted(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    table = place.make(LOCAL)
    table.declare_zone("Asia/Karachi")
    instant = table.timelines.create_requested(table.next_time(), Action.COMMIT)
    table.timelines.complete(table.timelines.to_inflight(instant), CommitMetadata({}).encode())
    refused = place.turn()
    assert (refused.status, refused.reason) == (Truth.FALSE, "Refused")
    assert refused.message.endswith("declare spec.timezone")
    zoned = resolved(timezone="Asia/Karachi").resource
    place.declared = ResolvedTable(zoned, place.declared.location, place.declared.landings)
    assert place.turn().reason == "Verified"


def test_of_an_unsure_zone_it_is_said_and_work_goes_on(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    leave_a_dead_write(place.make(LOCAL), "20260101000000000")
    unsure = place.turn()
    assert (unsure.status, unsure.reason) == (Truth.TRUE, "Unsure")
    assert "tideline.timezone" in unsure.message
    assert starts(place.actions)


def test_a_table_that_others_change_is_judged_anew(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    table = place.make()
    instant = table.timelines.create_requested(InstantTime("20260101000000000"), Action.COMMIT)
    stats = CommitMetadata({}, "UPSERT", {"schema": "{}"})
    table.timelines.complete(table.timelines.to_inflight(instant), stats.encode())
    assert place.turn().reason == "Verified"
    table.update_properties({CDC_ENABLED: "true"})
    assert place.turn().reason == "Refused"
    table.update_properties({CDC_ENABLED: "false"})
    assert place.turn().reason == "Verified"
