"""The checkpoint protects an ingest whose commit may have taken place: no file goes in twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConflictError, UnknownOutcomeError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.execute_operation import failed_result
from tideline.ingest.execute.table_checkpoints import current_checkpoints, require_generation
from tideline.ingest.location import Location
from tideline.ingest.sources.checkpoint import INGEST_KEY, Checkpoint, checkpoint_metadata
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.storage.object_store import ObjectStore
from tideline.testing.file_ingests import checkpoint_after, ingest_of_files
from tideline.testing.going_away_store import GoingAway
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.write_batch import batch_engine, write_batch

LONG_S = 3600.0
NAME = "landing"
FILES = (ArrivedFile("1.csv", 10, 1_000),)
ROWS = batch([10, 11], 2)


@pytest.fixture
def table() -> Iterator[SmallTable]:
    small = SmallTable.in_memory()
    small.write("insert", batch([0], 1))
    yield small
    small.forget()


def checkpoint(table: SmallTable) -> Checkpoint | None:
    return current_checkpoints(table.lake(), NAME).get(NAME)


def ingest(table: SmallTable, generation: int, store: ObjectStore | None = None) -> None:
    """What `execute_ingest` does once it has rows: an insert that takes the files in."""
    lake = table.lake(store)
    work = ingest_of_files(NAME, Location("memory://landing"), FileFormat.CSV, FILES, generation)
    advanced = checkpoint_after(checkpoint(table), FileListing(FILES), FILES)
    write_batch(
        lake,
        batch_engine(lake, ROWS, WriteOperation.INSERT),
        WriteOperation.INSERT,
        {**checkpoint_metadata({NAME: advanced}), INGEST_KEY: NAME},
        require=lambda now: require_generation(lake, now, work),
    )


@pytest.mark.parametrize("takes_place", [True, False])
def test_it_is_never_doubled(table: SmallTable, takes_place: bool) -> None:
    with pytest.raises(UnknownOutcomeError) as caught:
        ingest(table, 0, GoingAway(table.store(), takes_place=takes_place))
    result = failed_result("feed-ingest-1", caught.value)
    assert (result.exit_code, result.is_safe_to_retry) == (5, True)
    assert result.instant == str(caught.value.instant)
    table.fake_clock.advance(LONG_S)
    table.lake().recover()
    found = checkpoint(table)
    assert (found is not None) is takes_place, "what a new plan begins with says what became of it"
    if found is None:
        ingest(table, 0)
    else:
        with pytest.raises(ConflictError, match="has committed"):
            ingest(table, 0)
    assert [key for key, _ in table.values()] == ["k000", "k010", "k011"]
