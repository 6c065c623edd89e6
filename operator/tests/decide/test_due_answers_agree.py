"""The operator's triggers and the engine's give the same answer about the same table, by service.

The histories are written instant by instant, so that they hold what is rare: a delta commit that
completes after a compaction which began later, dead and living writers, leftovers of undone writes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tideline.formats.avro import encode_container
from tideline.hudi.services.registry import all_services, service_named
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.services.stored_facts import StoredFacts
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.services.explanation import Due, NotDue
from tideline.storage.heartbeat import heartbeat_path
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable
from tideline_operator.decide.observed import ObservedTable
from tideline_operator.decide.observed_facts import ObservedFacts
from tideline_operator.decide.service_settings import service_settings
from tideline_operator.observe.observation import Observer
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.table_states import EMPTY, resolved

VERSIONS = (6, 9)
EAGER_SERVICES = {
    "compaction": {"trigger": {"deltaCommits": 2}},
    "logCompaction": {"enabled": True, "blocks": 2},
    "clustering": {"enabled": True, "everyCommits": 2},
    "cleaning": {"retain": 1},
    "archiving": {"minCommits": 2, "maxCommits": 3},
    "partitionTtl": {"days": 1},
}
COMPACTION_PLAN: dict[str, Any] = {
    "operations": [], "extraMetadata": {}, "version": 2, "strategy": None,
    "preserveHoodieMetadata": False, "missingSchedulePartitions": None,
}  # fmt: skip
CLUSTERING_PLAN: dict[str, Any] = {
    "operationType": "CLUSTER", "extraMetadata": {}, "version": 1,
    "clusteringPlan": {
        "inputGroups": [], "strategy": None, "extraMetadata": {}, "version": 1,
        "preserveHoodieMetadata": True, "missingSchedulePartitions": None,
    },
}  # fmt: skip
COMPLETED = {
    "commit": (Action.COMMIT, "UPSERT"),
    "delta": (Action.DELTACOMMIT, "UPSERT"),
    "compaction": (Action.COMMIT, "COMPACT"),
    "logcompact": (Action.DELTACOMMIT, "LOG_COMPACT"),
    "replace": (Action.REPLACECOMMIT, "INSERT_OVERWRITE"),
}
OF_LOGS = ("delta", "compaction", "logcompact", "late", "dead", "?compaction")
OF_BOTH = (
    *("cluster", "replace", "clean", "emptyclean", "rollback", "savepoint", "trace", "alive"),
    "?cluster",
)

HISTORIES = {
    TableType.COPY_ON_WRITE: [
        "",
        "commit",
        "commit commit commit",
        "commit commit commit clean",
        "commit commit clean commit emptyclean commit commit commit",
        "commit commit cluster commit",
        "commit cluster commit commit",
        "commit commit replace commit commit commit commit",
        "commit savepoint commit commit commit commit commit",
        "commit commit commit commit commit trace commit",
        "commit trace commit commit commit commit",
        "commit schema cluster cluster cluster cluster",
        "commit commit commit commit dead",
        "alive commit commit commit commit",
        "rollback rollback rollback rollback rollback",
        "commit ?cluster commit commit",
    ],
    TableType.MERGE_ON_READ: [
        "delta",
        "delta delta",
        "delta delta compaction delta",
        "delta delta late",
        "delta delta late delta",
        "delta delta logcompact delta delta",
        "delta delta dead",
        "alive delta delta",
        "delta delta ?compaction delta delta",
        "delta delta compaction clean delta delta delta delta",
        "delta delta ?cluster delta delta",
    ],
}


class History:
    """A table without rows whose instants are written by hand, a minute apart."""

    def __init__(self, kind: TableType, version: int) -> None:
        self.small = SmallTable.in_memory(table_type=kind, table_version=version)
        declared = resolved(
            ingest=[],
            type=kind.value,
            partitionBy=["part"],
            ordering=[],
            services=EAGER_SERVICES,
            indexes=["column_stats"],
        )
        place = Location(self.small.location.uri)
        self.resource: ResolvedTable = replace(declared, location=place)
        self.observer = Observer(self.small.fake_clock)

    @property
    def table(self) -> HoodieTable:
        return self.small.lake().hoodie_table

    def write(self, words: str) -> None:
        for word in words.split():
            self.small.fake_clock.advance(60)
            self._write(word)
        self.small.fake_clock.advance(7200)
        for time in self.alive:
            self.table.store.put(heartbeat_path(str(time)), b"")

    @property
    def alive(self) -> list[InstantTime]:
        pending = self.table.timeline().of(Action.DELTACOMMIT).pending()
        return [instant.time for instant in pending if instant.state is State.REQUESTED]

    def see(self) -> ObservedTable:
        observed = self.observer.observe(self.resource, EMPTY)
        assert observed.table is not None, observed.problem or observed.refused
        return observed.table

    def _write(self, word: str) -> None:
        table = self.table
        timelines, time = table.timelines, table.instants.next_time()
        if word == "cluster":
            self._complete(time, timelines.layout.clustering, "CLUSTER")
        elif word == "?cluster":
            plan = encode_container("HoodieRequestedReplaceMetadata", CLUSTERING_PLAN)
            timelines.create_requested(time, timelines.layout.clustering, plan)
        elif word == "?compaction":
            plan = encode_container("HoodieCompactionPlan", COMPACTION_PLAN)
            timelines.create_requested(time, Action.COMPACTION, plan)
        elif word in COMPLETED:
            self._complete(time, *COMPLETED[word])
        elif word == "schema":
            self._complete(time, Action.COMMIT, "UPSERT", latest_schema='{"version_id": 1}')
        elif word == "late":
            instant = timelines.to_inflight(timelines.create_requested(time, Action.DELTACOMMIT))
            self.small.fake_clock.advance(60)
            self._complete(table.instants.next_time(), *COMPLETED["compaction"])
            self.small.fake_clock.advance(60)
            self._finish(instant, timelines.layout.encode_commit(CommitMetadata({}, "UPSERT", {})))
        elif word == "dead":
            timelines.to_inflight(timelines.create_requested(time, Action.DELTACOMMIT))
        elif word == "alive":
            timelines.create_requested(time, Action.DELTACOMMIT)
        elif word in ("clean", "emptyclean"):
            body = b"" if word == "emptyclean" else self._clean_body()
            instant = timelines.create_requested(time, Action.CLEAN)
            self._finish(timelines.to_inflight(instant), body)
        elif word == "rollback":
            instant = timelines.create_requested(time, Action.ROLLBACK)
            self._finish(timelines.to_inflight(instant), b"x")
        elif word == "savepoint":
            self._savepoint()
        elif word == "trace":
            table.store.put(heartbeat_path(str(time)), b"")
        else:
            raise AssertionError(word)

    def _complete(self, time: InstantTime, action: Action, operation: str, **extra: str) -> None:
        timelines = self.table.timelines
        inflight = timelines.to_inflight(timelines.create_requested(time, action))
        body = timelines.layout.encode_commit(CommitMetadata({}, operation, extra))
        self._finish(inflight, body)

    def _finish(self, inflight: Instant, body: bytes) -> None:
        table = self.table
        table.timelines.publish(table.instants.completed_now(inflight), body)

    def _clean_body(self) -> bytes:
        last = self.table.timeline().of(*COMMIT_ACTIONS).completed().last()
        record = {
            "startCleanTime": "", "timeTakenInMillis": 1, "totalFilesDeleted": 0,
            "earliestCommitToRetain": str(last.time) if last else "",
            "lastCompletedCommitTimestamp": str(last.time) if last else "",
            "partitionMetadata": {}, "version": 2, "bootstrapPartitionMetadata": {},
            "extraMetadata": {},
        }  # fmt: skip
        return encode_container("HoodieCleanMetadata", record)

    def _savepoint(self) -> None:
        last = self.table.timeline().of(*COMMIT_ACTIONS).completed().last()
        if last is not None:
            timelines = self.table.timelines
            inflight = timelines.to_inflight(Instant(last.time, Action.SAVEPOINT, State.INFLIGHT))
            self._finish(inflight, Savepoint(last.time).encode())


def random_histories() -> Iterator[tuple[TableType, str]]:
    draw = random.Random(13)
    for _ in range(40):
        kind = draw.choice(list(TableType))
        words = (*OF_BOTH, *(OF_LOGS if kind is TableType.MERGE_ON_READ else ()))
        writes = "delta" if kind is TableType.MERGE_ON_READ else "commit"
        picked = [draw.choice((*words, writes, writes, writes, writes)) for _ in range(9)]
        # A savepoint is made once for each commit.
        once = [word for n, word in enumerate(picked) if word != "savepoint" or
                "savepoint" not in picked[:n]]  # fmt: skip
        yield kind, " ".join(once)


CASES = [
    *((kind, words) for kind, histories in HISTORIES.items() for words in histories),
    *random_histories(),
]


def answers(history: History) -> dict[str, tuple[Due | NotDue, Due | NotDue]]:
    """By service: the answer from the operator's facts, and from those that the engine reads."""
    seen, table = history.see(), history.table
    spec = service_settings(history.resource.spec)
    services = local_services(history.small, spec)
    read = Settings({**seen.history.properties, **spec})
    assert read.properties == services.context.settings.properties
    observed = ObservedFacts(seen, history.small.clock.now_ms())
    stored = StoredFacts(table, table.timeline(), services.context.policy)
    return {
        service.name: (service.due(observed, read), service.due(stored, read))
        for service in all_services()
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("kind", "words"), CASES, ids=lambda value: str(value).replace(" ", "-"))
def test_operator_and_engine_agree(kind: TableType, words: str, version: int) -> None:
    history = History(kind, version)
    history.write(words)
    for name, (operator, engine) in answers(history).items():
        assert type(operator) is type(engine), name
        if isinstance(engine, Due) or name != "archival":
            assert operator == engine, name
    history.small.forget()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("kind", "words"), CASES, ids=lambda value: str(value).replace(" ", "-"))
def test_what_is_not_due_to_the_operator_the_engine_does_not_plan(
    kind: TableType, words: str, version: int
) -> None:
    history = History(kind, version)
    history.write(words)
    services = local_services(history.small, service_settings(history.resource.spec))
    for name, (operator, _) in answers(history).items():
        if isinstance(operator, NotDue):
            assert isinstance(services.plan(service_named(name)).outcome, NotDue), name
    history.small.forget()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_histories_say_yes_and_no_to_every_service(version: int) -> None:
    """Otherwise the agreement would prove little."""
    yes: Counter[str] = Counter()
    for kind, words in CASES:
        history = History(kind, version)
        history.write(words)
        yes.update(name for name, (value, _) in answers(history).items() if isinstance(value, Due))
        history.small.forget()
    assert all(2 <= yes[service.name] <= len(CASES) - 2 for service in all_services()), yes


@pytest.mark.parametrize("version", VERSIONS)
def test_a_delta_commit_that_completed_after_the_compaction_counts(version: int) -> None:
    """By its time alone it is older than the compaction, whose plan could not see it."""
    history = History(TableType.MERGE_ON_READ, version)
    history.write("delta late delta")
    operator, engine = answers(history)["compaction"]
    assert operator == engine
    assert isinstance(operator, Due)
    assert operator.reason.startswith("2 of 2 delta commits")
    history.small.forget()
