"""A new service is one folder and one line: one that is registered is planned, scheduled, executed
and reported wherever services are listed, with nothing else changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from tideline.cli.execute import execute_command
from tideline.cli.main import run as tideline_command
from tideline.clock import SystemClock
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services import registry
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.readable_settings import check_readable
from tideline.hudi.services.scheduler import SchedulerConfig, run_after_commit
from tideline.hudi.services.service import InlineStep, TableService
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.execute.run_service import execute_service
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, RunService, TableTarget
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.report import ServiceReport
from tideline.services.run import ServiceRun
from tideline.storage.location import StoreLocation
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch

PLAN, RESULT = ".hoodie/.counting/plan", ".hoodie/.counting/result"


@dataclass(frozen=True, slots=True)
class Counted:
    """How many instants the table had."""

    instants: int

    def report(self) -> ServiceReport:
        return ServiceReport(f"counted {self.instants} instants", files_written=1)

    def to_json_object(self) -> dict[str, Any]:
        return {"service": "counting", "instants": self.instants}


class Counting(TableService):
    """Counts the completed instants of a table, again whenever there are more."""

    name = "counting"
    permission = Permission.REPAIR
    inline_settings = ("hoodie.clustering.async.enabled",)
    wanted = InlineStep.RUN

    def settings(self, read: Settings) -> bool:
        return read.boolean("hoodie.clustering.async.enabled")

    def turns(self, read: Settings, *, compacts_by_default: bool) -> frozenset[InlineStep]:  # noqa: ARG002
        return frozenset({self.wanted} if read.boolean(self.inline_settings[0]) else ())

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:  # noqa: ARG002
        count = len(facts.timeline.completed())
        return Due(f"{count} instants to count") if count else NotDue("nothing to count")

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        due = self.due(context.facts(timeline), context.settings)
        return due if isinstance(due, NotDue) else Explanation(due.reason, (RESULT,))

    def schedule(self, context: ServiceContext, *, is_async: bool = False) -> Instant | NotDue:
        with context.planning(self.permission):
            context.table.store.put(PLAN, b"async" if is_async else b"")
        return Instant(InstantTime("20300101000000000"), Action.INDEXING, State.REQUESTED)

    def pending(self, table: HoodieTable, timeline: ActiveTimeline) -> tuple[Instant, ...]:
        if table.store.head(PLAN) is None:
            return ()
        time = timeline.newest_time() or InstantTime("20300101000000000")
        return (Instant(time, Action.INDEXING, State.REQUESTED),)

    def execute(self, context: ServiceContext) -> ServiceRun:
        counted = len(context.table.timeline().completed())
        context.table.store.put(RESULT, str(counted).encode())
        return ServiceRun(self, (Counted(counted),))


COUNTING = Counting()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setattr(registry, "SERVICES", (*registry.SERVICES, COUNTING))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[SmallTable]:
    small = SmallTable.create(StoreLocation.of(f"file://{tmp_path}/table"))
    small.write("insert", batch(range(4), 1))
    yield small


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_command_line_lists_plans_and_executes_it(
    table: SmallTable, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = table.location.uri
    assert tideline_command(["plan", uri, "--json"]) == 0
    # What is due comes first.
    due, *others = printed(capsys)["services"]
    assert (due["service"], due["due"], due["reason"], due["paths"]) == (
        "counting",
        True,
        "1 instants to count",
        [RESULT],
    )
    assert [plan["service"] for plan in others] == [
        table_service.name for table_service in registry.SERVICES[:-1]
    ]
    assert tideline_command(["plan", "counting", uri]) == 0
    assert "counting: due, 1 instants to count." in capsys.readouterr().out
    assert tideline_command(["execute", "counting", uri, "--json"]) == 0
    assert printed(capsys)["done"] == [{"service": "counting", "instants": 1}]
    assert table.store().get(RESULT) == b"1"
    (service, *_) = execute_command.params
    offered = service.shell_complete(click.Context(execute_command), "c")
    assert [completion_item.value for completion_item in offered] == [
        "cleaning",
        "compaction",
        "clustering",
        "counting",
    ]
    assert tideline_command(["execute", "vacuum", uri]) == 2
    assert "indexing, counting" in capsys.readouterr().err


def after_commit(table: SmallTable) -> list[dict[str, Any]]:
    services = local_services(table, {"hoodie.clustering.async.enabled": "true"})
    done = run_after_commit(services, SchedulerConfig.from_settings(services.context.settings))
    return [commit.to_json_object() for commit in done if commit.service == COUNTING]


def test_the_scheduler_runs_it_after_a_commit(table: SmallTable) -> None:
    (done,) = after_commit(table)
    assert done["done"] == [{"service": "counting", "instants": 1}]


def test_the_scheduler_leaves_its_plan_to_others_once(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "wanted", InlineStep.SCHEDULE)
    (scheduled,) = after_commit(table)
    assert scheduled["scheduled"] == "20300101000000000"
    assert table.store().get(PLAN) == b"async"
    assert after_commit(table) == []
    assert len(local_services(table, {}).plan(COUNTING).pending) == 1


def test_a_planned_operation_runs_it_and_reports_in_its_words(table: SmallTable) -> None:
    def no_session(_: Iterable[StoreLocation]) -> Any:
        raise AssertionError("it moves no rows")

    target = TableTarget("t", Location(table.location.uri), ("id",), ("part",))
    work = RunService(COUNTING, "")
    result = execute_service(
        Operation("count-1", target, work),
        work,
        session_factory=no_session,
        clock=SystemClock(),
        progress=lambda _: None,
    )
    assert (result.message, result.files_written) == ("counted 1 instants", 1)
    assert result.audit == ({"service": "counting", "instants": 1},)


def test_its_settings_are_read_before_a_table_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(Counting, "settings", lambda _, read: asked.append(read))
    check_readable({})
    assert len(asked) == 1
