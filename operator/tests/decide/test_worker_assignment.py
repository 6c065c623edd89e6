"""Which worker an operation gets: tables of workers, limits and waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.ingest.location import Location
from tideline.ingest.operation.assignment import NO_STAY, Stay
from tideline.ingest.operation.operation import (
    CreateTable,
    IngestRange,
    Operation,
    RunService,
    TableTarget,
    Work,
)
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.testing.file_ingests import ingest_of_files
from tideline_operator.decide.worker_assignment import (
    PATIENCE_MS,
    STAY_MS,
    AwaitWorker,
    KnownWorker,
    NewWorker,
    OwnJob,
    TakeWorker,
    Wanted,
    WorkerChoice,
    assign,
    stay_of,
    too_large,
    warm_of,
)
from tideline_operator.resources.lake_store import LakeStoreSpec
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus, TableStatus
from tideline_operator.resources.warm import StoreEngine, Warm
from tideline_operator.testing.table_states import EMPTY, NOW_MS, resolved

MIB = 1024 * 1024
WANTED = Wanted("a", 1_000 * MIB)
IDLE = KnownWorker("w1", "a", 1_000 * MIB, worked_ms=10)
BUSY = replace(IDLE, name="w2", holder="lake/people")
OTHER = replace(IDLE, name="w3", kind="b")


def chosen(*workers: KnownWorker, waited_ms: int = 0, **limits: Any) -> WorkerChoice:
    return assign(replace(WANTED, waited_ms=waited_ms), workers, Warm(**limits), NOW_MS)


def test_without_workers_one_starts() -> None:
    assert chosen() == NewWorker()


def test_the_idle_worker_that_worked_last_is_taken() -> None:
    later = replace(IDLE, name="w0", worked_ms=20)
    assert chosen(IDLE, later, BUSY) == TakeWorker("w0")


def test_a_busy_worker_does_not_keep_another_from_starting() -> None:
    assert chosen(BUSY) == NewWorker()


@pytest.mark.parametrize("unfit", [OTHER, replace(IDLE, is_ending=True)])
def test_a_worker_of_another_kind_or_one_that_ends_is_not_taken(unfit: KnownWorker) -> None:
    assert chosen(unfit) == NewWorker()


def test_at_the_limit_it_waits_for_a_busy_one_and_then_gets_a_job() -> None:
    waits = chosen(BUSY, max_workers=1, waited_ms=5_000)
    assert isinstance(waits, AwaitWorker)
    assert waits.until_ms == NOW_MS + PATIENCE_MS - 5_000
    late = chosen(BUSY, max_workers=1, waited_ms=PATIENCE_MS)
    assert late == OwnJob("the namespace has 1 of 1 warm worker")


def test_at_the_limit_an_idle_one_of_another_kind_is_replaced() -> None:
    older = replace(OTHER, name="w4", worked_ms=1)
    assert chosen(OTHER, older, max_workers=2) == NewWorker(replaced="w4")
    busy = replace(OTHER, holder="lake/orders")
    assert isinstance(chosen(busy, max_workers=1), OwnJob)


def test_memory_is_a_limit_as_well() -> None:
    assert chosen(BUSY, max_memory="2000Mi") == NewWorker()
    assert isinstance(chosen(BUSY, max_memory="1999Mi"), AwaitWorker)
    assert chosen(OTHER, max_memory="1500Mi") == NewWorker(replaced="w3")
    assert chosen(max_memory="10Mi") == OwnJob("warm workers would ask for 1.0 GB of 10.5 MB")


def test_a_worker_that_is_ending_still_counts() -> None:
    ending = replace(OTHER, is_ending=True)
    assert isinstance(chosen(ending, max_workers=1), OwnJob)


def operation(work: Work) -> Operation:
    return Operation("x", TableTarget("people", Location("memory://table"), ("id",)), work)


def ingest(*sizes: int) -> IngestRange:
    files = tuple(ArrivedFile(f"f{at}", size, at) for at, size in enumerate(sizes))
    return ingest_of_files(
        "landing", Location("memory://in"), FileFormat.PARQUET, files, generation=0
    )


BIG = replace(EMPTY, table=TableStatus(bytes=257 * MIB))


@pytest.mark.parametrize(
    ("work", "status", "is_large"),
    [
        (ingest(128 * MIB, 128 * MIB), BIG, False),
        (ingest(128 * MIB, 128 * MIB + 1), EMPTY, True),
        (RunService(COMPACTION, ""), EMPTY, False),
        (RunService(COMPACTION, ""), BIG, True),
        (RunService(CLEANING, ""), BIG, False),
        (CreateTable(), BIG, False),
    ],
)
def test_what_may_read_much_is_not_for_workers(
    work: Work, status: LakeTableStatus, is_large: bool
) -> None:
    assert (too_large(operation(work), status, Warm()) is not None) is is_large


def test_workers_are_those_of_the_store_that_the_table_names() -> None:
    warm = Warm(max_workers=7)
    stores = {
        "one": LakeStoreSpec(engine=StoreEngine(warm=warm)),
        "two": LakeStoreSpec(),
    }
    table = replace(resolved(storeRef="one"), stores=stores)
    assert warm_of(table) == warm
    assert warm_of(replace(resolved(storeRef="two"), stores=stores)) is None
    assert warm_of(resolved()) is None


def topic_ingest(every: str) -> tuple[Operation, ResolvedTable]:
    """An ingest of records of a topic, by a table with that trigger."""
    table = resolved({"every": every})
    source = DeclaredKafka(brokers="b:9092", topics=("people",), schema=())
    return operation(IngestRange("landing", source, KafkaRange(), 0)), table


def test_a_worker_stays_on_a_table_of_topics_that_is_looked_at_often() -> None:
    assert stay_of(*topic_ingest("1s"), 1.0) == Stay(STAY_MS, 1_000)
    assert stay_of(*topic_ingest("1s"), 0.5) == Stay(STAY_MS // 2, 1_000)
    assert stay_of(*topic_ingest("1s"), 0.1) == NO_STAY
    assert stay_of(*topic_ingest("1s"), 0.0) == NO_STAY
    assert stay_of(*topic_ingest("1m"), 1.0) == NO_STAY


def test_a_worker_stays_for_nothing_else() -> None:
    table = resolved({"every": "1s"})
    for work in (CreateTable(), ingest(3)):
        assert stay_of(operation(work), table, 1.0) == NO_STAY
