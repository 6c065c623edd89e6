"""A controller whose tables are read in processes of their own, on a real API server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline_operator.api_objects import LAKE_TABLES
from tideline_operator.decide.observed import Observed
from tideline_operator.reading.access import Access
from tideline_operator.reading.reader_processes import ReaderProcesses
from tideline_operator.reading.table_reading import TableReading
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server

CLOCK = SystemClock()


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


@pytest.fixture
def reader() -> Iterator[ReaderProcesses]:
    given = {**os.environ, "TIDELINE_READER_MEMORY": "160Mi"}
    reader = ReaderProcesses(CLOCK, given, deadline_s=20.0)
    yield reader
    reader.stop()


def eats_memory(folder: Path) -> None:
    """A table whose newest commit is within the limits on metadata, and 300 MB in memory."""
    location = StoreLocation.of(f"file://{folder}")
    definition = TableDefinition(
        name="hungry", record_key=("id",), ordering=("ts",), table_version=6
    )
    create_table(location.open(), definition, CLOCK)
    hoodie = open_table(location, CLOCK)
    time = InstantTime.parse("20260101000000000")
    instant = hoodie.timelines.create_requested(time, Action.COMMIT)
    values = b"[" + b"[]," * 5_000_000 + b"[]]"
    body = b'{"partitionToWriteStats": {"a": ' + values + b"}}"
    hoodie.timelines.complete(hoodie.timelines.to_inflight(instant), body)


def test_a_table_that_eats_its_memory_has_a_condition_and_its_neighbour_is_served(
    case: ControllerCase, reader: ReaderProcesses
) -> None:
    eats_memory(case.folder / "hungry")
    case.declare("hungry")
    case.declare("people")
    case.start(reader=reader)
    case.cluster.carry_out(case.until_job("create"))
    case.until_ready("people")
    case.land("a.parquet")
    assert case.until_job("ingest")["metadata"]["labels"]["tideline.dev/table"] == "people"
    case.until(
        lambda: case.condition("Ready", "hungry").get("reason") == "ReadingFailed",
        "the table says so",
    )
    ready = case.condition("Ready", "hungry")
    assert ready["status"] == "False"
    assert "memory" in ready["message"]
    assert "reader.memoryPerNamespace" in ready["message"]
    assert case.condition("Ready")["status"] == "True"
    assert reader.set_aside.count == 1


def test_a_table_is_deleted_with_its_data_by_a_process_of_its_namespace(
    case: ControllerCase, reader: ReaderProcesses
) -> None:
    case.declare(deletionPolicy="Delete", ingest=None)
    case.start(reader=reader)
    case.cluster.carry_out(case.until_job("create"))
    case.until_ready()
    folder = case.folder / "people"
    assert any(path.is_file() for path in folder.rglob("*"))
    case.api.delete(LAKE_TABLES, "people", case.namespace)
    case.until(lambda: case.api.get(LAKE_TABLES, "people", case.namespace) is None, "it is deleted")
    assert not any(path.is_file() for path in folder.rglob("*"))
    assert "DataDeleted" in case.event_reasons()


class Raising(TableReading):
    """Reads in this process; looking at `hungry` raises what nobody expects."""

    def __init__(self, raises: Callable[[], None]) -> None:
        super().__init__(CLOCK)
        self._raises = raises

    def observe(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        if table.resource.metadata.name == "hungry":
            self._raises()
        return super().observe(access, table, status, running=running)


def exits() -> None:
    sys.exit(3)


def recurses() -> None:
    recurses()


def takes_memory() -> None:
    raise MemoryError


@pytest.mark.parametrize("raises", [exits, recurses, takes_memory])
def test_whatever_a_turn_raises_is_that_tables_trouble(
    case: ControllerCase, raises: Callable[[], None]
) -> None:
    case.declare("hungry")
    case.declare("people")
    controller = case.start(reader=Raising(raises), workers=2)
    case.until_event("ReconcileFailed", "hungry")
    case.until(
        lambda: case.measured("tideline_reconciles_total", result="error") >= 2, "it is repeated"
    )
    case.cluster.carry_out(case.until_job("create"))
    case.until_ready("people")
    assert controller.problems() == []
