"""Writes of rows over a store that fails, and beside other writers: each row comes once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tideline
from tideline.errors import ConflictError, StorageUnavailableError, UnknownOutcomeError
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS
from tideline.iceberg.scan.plan import plan_files
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


def prepared(version: int, **properties: str) -> str:
    uri = f"memory://{uuid.uuid4().hex}/table"
    table = tideline.create_iceberg(
        uri,
        COLUMNS,
        key="id",
        partition_by="part",
        format_version=version,
        properties=properties,
    )
    table.write(rows(BEFORE))
    return uri


def rows(numbers: list[int]) -> pa.Table:
    return pa.table({"id": numbers, "part": [number % 2 for number in numbers]})


def append(table: IcebergLakeTable) -> None:
    table.write(rows([6, 7, 8]), token="the write")


def upsert(table: IcebergLakeTable) -> None:
    table.write(rows([4, 5, 6]), "upsert", token="the write")


def upsert_deleting(table: IcebergLakeTable) -> None:
    table.write(rows([4, 6]), "upsert", token="the write", options={"write.merge.mode": MERGE})


def delete(table: IcebergLakeTable) -> None:
    table.write(rows([1, 2, 9]).select(["id"]), "delete", token="the write")


def delete_where(table: IcebergLakeTable) -> None:
    options = {"write.delete.mode": MERGE}
    table.delete("id < 2 or part = 1", token="the write", options=options)


def overwrite(table: IcebergLakeTable) -> None:
    table.write(rows([7, 8]), "overwrite", token="the write")


def overwrite_where(table: IcebergLakeTable) -> None:
    table.write(rows([7, 8]), "overwrite", token="the write", where="id between 1 and 2")


def overwrite_partitions(table: IcebergLakeTable) -> None:
    table.write(rows([8]), "overwrite_partitions", token="the write")


def update(table: IcebergLakeTable) -> None:
    table.update("id < 2", {"part": pc.field("part") + LATER}, token="the write")


def update_deleting(table: IcebergLakeTable) -> None:
    changes, options = {"part": pc.field("part") + LATER}, {"write.update.mode": MERGE}
    table.update("id in (1, 4)", changes, token="the write", options=options)


LATER = 100
"""What an update makes of a part."""
MERGE = "merge-on-read"
Write = Callable[[IcebergLakeTable], None]
WRITES: dict[str, tuple[Write, list[int]]] = {
    "append": (append, [*range(9)]),
    "upsert": (upsert, [*range(7)]),
    "upsert deleting": (upsert_deleting, [*range(7)]),
    "delete": (delete, [0, 3, 4, 5]),
    "delete where": (delete_where, [2, 4]),
    "overwrite": (overwrite, [7, 8]),
    "overwrite where": (overwrite_where, [0, 3, 4, 5, 7, 8]),
    "overwrite partitions": (overwrite_partitions, [1, 3, 5, 8]),
    "update": (update, [2, 3, 4, 5, 100, 101]),
    "update deleting": (update_deleting, [0, 2, 3, 5, 101, 104]),
}


def ids(uri: str) -> list[int]:
    """Of rows that were updated in the hundreds, for each time once."""
    found = opened(uri).to_arrow(["id", "part"]).to_pylist()
    return sorted(row["id"] + row["part"] // LATER * LATER for row in found)


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
    assert total >= 4
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


def is_commit(step: Step) -> bool:
    """Whether all files are written, and the table is about to have them."""
    return step.method == "put_if_absent" and step.path.endswith("metadata.json")


@pytest.mark.parametrize("token", ["the write", "another"])
def test_another_writer_that_is_faster_is_built_upon(token: str) -> None:
    uri = prepared(2)
    done: list[Step] = []

    def before(step: Step) -> None:
        if is_commit(step) and not done:
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


def stored(table: IcebergLakeTable) -> set[str]:
    return {path for path, _ in table.table.io.list(f"{table.uri}/data")}


def listed(table: IcebergLakeTable, snapshot: Snapshot) -> Iterator[str]:
    for task in plan_files(table.table.io, table.metadata, snapshot):
        yield from (file.file_path for file in (task.data_file, *task.deletes))


def of_others(table: IcebergLakeTable) -> None:
    """Rows that each of the writes has to take notice of."""
    table.write(rows([4]), "upsert")
    table.write(rows([1]), "delete")


@pytest.mark.parametrize("name", [name for name in WRITES if name != "append"])
@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_what_others_changed_first_is_looked_at_again(name: str, version: int) -> None:
    write, _ = WRITES[name]
    alone = prepared(version)
    of_others(opened(alone))
    write(opened(alone))
    uri = prepared(version)
    done: list[Step] = []

    def before(step: Step) -> None:
        if is_commit(step) and not done:
            done.append(step)
            of_others(opened(uri))

    slower = opened(uri, SteppingStore(StoreLocation.of(uri).open(), before))
    write(slower)
    assert done
    assert ids(uri) == ids(alone)
    assert stored(slower) == {
        path for ref in slower.refresh().snapshots for path in listed(slower, ref)
    }


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_rows_that_come_meanwhile_match_unless_they_are_to_be_left(level: str) -> None:
    uri = prepared(2, **{"write.delete.isolation-level": level})
    done: list[Step] = []

    def before(step: Step) -> None:
        if is_commit(step) and not done:
            done.append(step)
            opened(uri).write(rows([10]))

    opened(uri, SteppingStore(StoreLocation.of(uri).open(), before)).delete("id > 3")
    assert done
    assert ids(uri) == ([0, 1, 2, 3] if level == "serializable" else [0, 1, 2, 3, 10])


def test_rows_that_come_in_a_column_of_another_type_match_as_well() -> None:
    uri = f"memory://{uuid.uuid4().hex}/table"
    tideline.create_iceberg(uri, pa.schema([("id", pa.int32()), ("part", pa.int64())])).write(
        rows(BEFORE)
    )
    done: list[Step] = []

    def before(step: Step) -> None:
        if is_commit(step) and not done:
            done.append(step)
            opened(uri).alter().change_type("id", "long").commit()
            opened(uri).write(rows([2, 1 << 40]))

    opened(uri, SteppingStore(StoreLocation.of(uri).open(), before)).delete("id > 3")
    assert done
    assert ids(uri) == [0, 1, 2, 2, 3]


def test_a_writer_that_is_never_first_says_so_and_leaves_no_file() -> None:
    uri = prepared(2)
    number = iter(range(100, 1000))

    def before(step: Step) -> None:
        if is_commit(step):
            opened(uri).write(rows([next(number)]))

    slower = opened(uri, SteppingStore(StoreLocation.of(uri).open(), before))
    with pytest.raises(ConflictError, match="other writers were always first"):
        slower.delete("id >= 0")
    assert stored(slower) == set(opened(uri).files()["file"].to_pylist())


def test_a_commit_that_a_short_log_has_no_more_is_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = prepared(2, **{"write.metadata.previous-versions-max": "1"})
    plain = FileSystemTable._is_followed_up

    def late(*given: Any) -> bool:
        monkeypatch.setattr(FileSystemTable, "_is_followed_up", plain)
        for number in (6, 7):
            opened(uri).write(rows([number]))
        return plain(*given)

    monkeypatch.setattr(FileSystemTable, "_is_followed_up", late)
    opened(uri).write(rows([8]), options={"commit.retry.num-retries": "0"})
    assert sorted(opened(uri).to_arrow(["id"])["id"].to_pylist()) == [*BEFORE, 6, 7, 8]
