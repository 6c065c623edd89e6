"""A file that a task publishes when its instant is rolled back already, or just being."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

import pyarrow as pa
import pytest

from tideline.errors import ConflictError
from tideline.hudi.table.markers import delete_markers
from tideline.storage.object_store import ObjectStore
from tideline.testing.handle_case import FILE_ID_PREFIX, FIRST, HandleCase, handle_input

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]}, schema=SCHEMA)


@pytest.fixture
def case() -> HandleCase:
    return HandleCase.of(SCHEMA)


def data_files(case: HandleCase) -> set[str]:
    return {info.path for info in case.store.list() if info.path.endswith(".parquet")}


def while_undone(case: HandleCase) -> Iterator[pa.RecordBatch]:
    """The rows of a task; half-way through another process removes the instant's markers."""
    first, second = handle_input(ROWS).to_batches(1)
    yield first
    delete_markers(case.store, case.instants[-1])
    yield second


def test_a_task_whose_write_was_undone_removes_its_own_new_file(case: HandleCase) -> None:
    with pytest.raises(
        ConflictError, match="undone while one of its tasks was still writing"
    ) as error:
        case.create_from(while_undone(case))
    assert not data_files(case)
    assert str(FIRST) in str(error.value)
    assert FILE_ID_PREFIX in str(error.value)


def test_a_task_whose_write_was_undone_removes_its_merged_file_only(
    case: HandleCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base,) = case.create(ROWS)
    before = data_files(case)
    published = type(case.store).open_writer

    def open_writer(store: ObjectStore, path: str) -> AbstractContextManager[BinaryIO]:
        delete_markers(case.store, case.instants[-1])
        return published(store, path)

    monkeypatch.setattr(type(case.store), "open_writer", open_writer)
    with pytest.raises(ConflictError, match="undone"):
        case.merge(base, ROWS)
    assert data_files(case) == before


def test_a_task_that_is_not_undone_keeps_file_and_marker(case: HandleCase) -> None:
    (stat,) = case.create(ROWS)
    assert data_files(case) == {stat.path}
