"""Base files and stores that fail half-way."""

from __future__ import annotations

import gc
import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import StorageUnavailableError
from tideline.hudi.file_group.base_file_writer import BaseFileWriter
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.table.markers import list_markers
from tideline.storage.memory.store import MemoryStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.handle_case import HandleCase, base_file

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.string())])


def rows(count: int, value: str = "x") -> pa.Table:
    ids = pa.array([f"k{number:04d}" for number in range(count)], pa.string())
    return pa.table({"id": ids, "v": pa.array([value] * count, pa.string())})


class FullDisk(io.BytesIO):
    """A stream that refuses everything past `capacity_bytes`."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__()
        self._capacity_bytes = capacity_bytes

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self._capacity_bytes:
            raise StorageUnavailableError("disk full")
        return super().write(data)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("capacity_bytes", [0, 4, 500, 2_000, 5_000])
def test_a_full_disk_surfaces_as_the_store_s_error(capacity_bytes: int) -> None:
    case = HandleCase.of(SCHEMA, parquet=ParquetSettings(row_group_rows_max=50))
    ctx = replace(case.ctx, populate_meta_fields=False)
    writer = BaseFileWriter(ctx, FullDisk(capacity_bytes), "f.parquet", "p/f.parquet")
    with pytest.raises(StorageUnavailableError, match="disk full"):
        for number in range(100):
            (batch,) = rows(50, f"value {number}").to_batches()
            writer.write(batch)
        writer.finish()
    writer.abandon()
    del writer
    gc.collect()


def parquet_files(store: MemoryStore) -> set[str]:
    return {info.path for info in store.list("day=1") if info.path.endswith(".parquet")}


def test_a_merge_cut_anywhere_leaves_the_old_file_whole_and_the_new_one_marked() -> None:
    case = HandleCase.of(SCHEMA)
    inner = case.store
    assert isinstance(inner, MemoryStore)
    (base,) = case.create(rows(20))
    body = inner.get(base.path or "")
    counting = FaultyStore(inner)
    case.store = counting
    case.merge(base, rows(5, "y"))
    assert len(counting.writes) == 3
    for write in range(1, len(counting.writes) + 1):
        for plan in (FaultPlan(crash_before_write=write), FaultPlan(crash_after_write=write)):
            case.store = FaultyStore(inner, plan)
            known = parquet_files(inner)
            with pytest.raises(SimulatedCrash):
                case.merge(base, rows(5, "y"))
            assert inner.get(base.path or "") == body
            marked = {marker.path for marker in list_markers(inner, case.ctx.instant)}
            assert parquet_files(inner) - known <= marked


def test_an_unreachable_store_is_reported_as_such_and_the_write_can_be_repeated() -> None:
    case = HandleCase.of(SCHEMA)
    inner = case.store
    (base,) = case.create(rows(20))
    counting = FaultyStore(inner)
    case.store = counting
    case.merge(base, rows(5, "y"))
    for call in range(1, counting.calls + 1):
        case.store = FaultyStore(inner, FaultPlan(unavailable_calls=frozenset({call})))
        with pytest.raises(StorageUnavailableError):
            case.merge(base, rows(5, "y"))
    case.store = inner
    stat = case.merge(base_file(base), rows(5, "y"))
    assert [row["v"] for row in case.rows(stat)] == ["y"] * 5 + ["x"] * 15
