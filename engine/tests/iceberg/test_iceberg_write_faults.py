"""Writes of rows over a store that fails, and beside other writers: each row comes once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest

import tideline
from tideline.errors import StorageUnavailableError, UnknownOutcomeError
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.stepping_store import Step, SteppingStore

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.int64())])
BEFORE = [*range(6)]


def opened(uri: str, store: ObjectStore | None = None) -> IcebergLakeTable:
    clock = FakeClock()
    table = FileSystemTable(StoreLocation.of(uri), store=store, clock=clock)
    return IcebergLakeTable(IcebergTable(table), clock)


def prepared(version: int) -> str:
    uri = f"memory://{uuid.uuid4().hex}/table"
    table = tideline.create_iceberg(uri, COLUMNS, partition_by="part", format_version=version)
    table.write(rows(BEFORE))
    return uri


def rows(numbers: list[int]) -> pa.Table:
    return pa.table({"id": numbers, "part": [number % 2 for number in numbers]})


def append(table: IcebergLakeTable) -> None:
    table.write(rows([6, 7, 8]), token="the write")


Write = Callable[[IcebergLakeTable], None]
WRITES: dict[str, tuple[Write, list[int]]] = {"append": (append, [*range(9)])}


def ids(uri: str) -> list[int]:
    return sorted(opened(uri).to_arrow(["id"])["id"].to_pylist())


def faulty(uri: str, plan: FaultPlan | None = None) -> FaultyStore:
    return FaultyStore(StoreLocation.of(uri).open(), plan)


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_died_anywhere_is_repeated_by_its_token(name: str, version: int) -> None:
    write, after = WRITES[name]
    uri = prepared(version)
    store = faulty(uri)
    write(opened(uri, store))
    assert ids(uri) == after
    total = len(store.writes)
    assert total >= 5
    seen = set()
    for number in range(1, total + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            uri = prepared(version)
            with pytest.raises(SimulatedCrash):
                write(opened(uri, faulty(uri, plan)))
            found = ids(uri)
            seen.add(tuple(found))
            assert found in (BEFORE, after), plan
            write(opened(uri))
            assert ids(uri) == after, plan
            write(opened(uri))
            assert ids(uri) == after, plan
    assert seen == {tuple(BEFORE), tuple(after)}


@pytest.mark.parametrize("name", WRITES)
def test_any_call_may_fail_once(name: str) -> None:
    write, after = WRITES[name]
    uri = prepared(2)
    store = faulty(uri)
    write(opened(uri, store))
    for number in range(1, store.calls + 1):
        uri = prepared(2)
        plan = FaultPlan(unavailable_calls=frozenset([number]))
        with suppress(StorageUnavailableError, UnknownOutcomeError):
            write(opened(uri, faulty(uri, plan)))
        assert ids(uri) in (BEFORE, after), number
        write(opened(uri))
        assert ids(uri) == after, number


@pytest.mark.parametrize("reply", LostReply, ids=lambda reply: reply.value)
def test_a_lost_reply_is_no_lost_commit(reply: LostReply) -> None:
    uri = prepared(2)
    plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=reply)
    append(opened(uri, faulty(uri, plan)))
    assert ids(uri) == [*range(9)]


@pytest.mark.parametrize("token", ["the write", "another"])
def test_another_writer_that_is_faster_is_built_upon(token: str) -> None:
    uri = prepared(2)
    done: list[Step] = []

    def before(step: Step) -> None:
        if "metadata/v3" in step.path and not done:
            done.append(step)
            opened(uri).write(rows([6, 7, 8]), token=token)

    slower = opened(uri, SteppingStore(StoreLocation.of(uri).open(), before))
    report = slower.write(rows([6, 7, 8]), token="the write")
    assert done
    # Of two processes with one token one writes.
    assert report.is_repeat is (token == "the write")
    again = [] if report.is_repeat else [6, 7, 8]
    assert ids(uri) == sorted([*range(9), *again])
    data = [path for path, _ in slower.table.io.list(f"{slower.uri}/data")]
    assert sorted(data) == sorted(opened(uri).files()["file"].to_pylist())
