"""A day's stream leaves no more files than its settings say, whenever they are counted.

A topic of a real broker gets records every minute of a day whose hours pass at once: the clock of
this process is a fake one. What `tideline run` would do next is planned from what was observed, and
carried out here: ingests, and the services of the table with their defaults.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import tideline
from tideline.clock import SystemClock
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.operation import OperationKind
from tideline.ingest.operation.result import Outcome
from tideline.testing.fake_clock import FakeClock
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.people_ingest import no_session
from tideline.testing.topic_feed import values
from tideline_operator.decide.actions import Start
from tideline_operator.decide.planner import plan
from tideline_operator.local.table_files import TableFiles
from tideline_operator.observe.observation import Observer
from tideline_operator.report.status import (
    observed_status,
    operation_finished,
    operation_started,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.local_run import KEYED_VALUES, declare_table
from tideline_operator.testing.most_files import Most

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DAY_S, COMMIT_EVERY_S = 86_400, 300
RECORDS, KEYS = 6, 200
# What the settings of a table are where nobody says otherwise.
RETAIN, DELTA_COMMITS, KEEP_MAX = 10, 5, 30
PATIENCE = 5
"""For how many commits a service that is due may wait."""
SPEC = """
type: {kind}
tableVersion: {version}
properties: {{hoodie.metadata.enable: "true"}}
services: {services}
"""


@dataclass
class Day:
    """One table, the clock of its day, and what was done to it."""

    table: ResolvedTable
    folder: Path
    clock: FakeClock
    status: LakeTableStatus = field(default_factory=LakeTableStatus)
    most: Most = field(default_factory=Most)
    done: list[OperationKind] = field(default_factory=list)
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        self.observer = Observer(self.clock)

    def catch_up(self) -> None:
        """Do what is due until nothing is; files are counted after each."""
        while (start := self._next()) is not None:
            self.status = operation_started(
                self.status, start.operation, start.attempt, self.clock.now_ms()
            )
            result = execute_operation(
                start.operation, session_factory=no_session, clock=self.clock
            )
            assert result.outcome is not Outcome.FAILED, result.message
            self.status = operation_finished(self.status, result, self.clock.now_ms())
            self.done.append(start.operation.kind)
            self.most.look(self.folder / "table")

    def _next(self) -> Start | None:
        seen = self.observer.observe(self.table, self.status, running=frozenset())
        now_ms = self.clock.now_ms()
        actions = plan(self.table, self.status, seen, now_ms)
        self.status = observed_status(self.table, self.status, seen, actions, now_ms)
        return next((action for action in actions if isinstance(action, Start)), None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """That of everything in this process."""
    fake = FakeClock(SystemClock().now_ms())
    for name in ("now_ms", "monotonic_s", "sleep"):
        there = getattr(fake, name)
        monkeypatch.setattr(SystemClock, name, lambda _, *given, there=there: there(*given))
    return fake


@pytest.mark.parametrize(
    ("kind", "version", "services", "retained"),
    [
        ("MERGE_ON_READ", 9, "{}", RETAIN),
        (
            "MERGE_ON_READ",
            6,
            "{cleaning: {policy: KEEP_LATEST_BY_HOURS, retain: 1}}",
            3600 // COMMIT_EVERY_S,
        ),
        ("COPY_ON_WRITE", 9, "{}", RETAIN),
    ],
)
def test_files_are_bounded_all_day(
    kind: str,
    version: int,
    services: str,
    retained: int,
    kafka_broker: KafkaBroker,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = f"orders-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    every = f"{COMMIT_EVERY_S}s"
    declared = declare_table(
        tmp_path,
        f"{{format: kafka, brokers: '{kafka_broker.address}', topics: [{topic}], "
        f"commitEvery: {every}}}",
        KEYED_VALUES + SPEC.format(kind=kind, version=version, services=services),
        trigger=f"{{every: {every}}}",
    )
    monkeypatch.chdir(tmp_path)
    files = TableFiles((declared,), ca_bundle=None)
    files.look_for_tables(print)
    (table,) = files.tables
    day = Day(table, tmp_path, clock)
    turns = DAY_S // COMMIT_EVERY_S
    for turn in range(turns):
        first = turn * RECORDS
        rows = ((n % KEYS, n, f"v{n}") for n in range(first, first + RECORDS))
        kafka_broker.produce(topic, values(rows))
        day.catch_up()
        clock.advance(COMMIT_EVERY_S)
    most = day.most
    print({str(kind): day.done.count(kind) for kind in set(day.done)}, most)
    assert day.done.count(OperationKind.INGEST) == turns
    assert tideline.open(str(tmp_path / "table")).count() == KEYS
    # A slice for each commit that is kept, and what waits until cleaning is due again.
    slices = retained + PATIENCE + 1
    if kind == "MERGE_ON_READ":
        assert most.logs_of_slice <= DELTA_COMMITS + 1, most
        assert most.data_files <= 2 * (slices + DELTA_COMMITS), most
    else:
        assert most.data_files <= slices + 2, most
    # Of compactions as well as of ingests. Cleans are archived by the same numbers.
    assert most.commits <= KEEP_MAX + 2 * PATIENCE, most
    assert most.instants <= 2 * (KEEP_MAX + 2 * PATIENCE), most
    # Version 6 has a file for each archival, where they are not merged.
    history = day.done.count(OperationKind("archival")) if version == 6 else 30
    assert most.history <= history, most
    third = len(most.metadata_files) // 3
    middle, end = most.metadata_files[third : 2 * third], most.metadata_files[2 * third :]
    assert max(end) <= 1.1 * max(middle) < 200, most
