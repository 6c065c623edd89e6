"""What a commit looks for in those before it: checkpoints to carry on, or the word that none is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tideline.hudi.commit.carried_metadata import CARRIES, NOTHING, carried_metadata
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.carried_value import carried_key
from tideline.hudi.write.write_operation import WriteOperation
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh
from tideline.testing.write_batch import InterruptedEngine, batch_engine, write_batch

KEY = carried_key("landing")
CHECKPOINT = json.dumps({"generation": 1})


def opened(small: SmallTable) -> HoodieTable:
    return open_fresh(small.location, clock=small.clock)


def newest_extra(small: SmallTable) -> dict[str, str]:
    table = opened(small)
    completed = table.timeline().completed().instants
    newest = max(completed, key=lambda instant: instant.completed_at or instant.time)
    return dict(table.timelines.read_commit(newest).extra_metadata)


@pytest.fixture(params=[6, 9])
def small(request: pytest.FixtureRequest) -> SmallTable:
    """A table with three commits of ours and no ingest."""
    made = SmallTable.in_memory(table_version=request.param)
    for v in range(1, 4):
        made.write("upsert", batch([0], v))
    return made


def write_with(small: SmallTable, number: int, extra: dict[str, str], **around: Any) -> None:
    lake = small.lake()
    engine = batch_engine(lake, batch([number], 1), WriteOperation.UPSERT)
    interrupted = InterruptedEngine(engine, **around)
    write_batch(lake, interrupted, WriteOperation.UPSERT, extra_metadata=extra)


def test_where_nothing_is_carried_one_commit_is_read(small: SmallTable) -> None:
    store = FaultyStore(small.store())
    table = open_fresh(small.location, store, small.clock)
    timeline = table.timeline()
    before = store.calls
    carried = carried_metadata(table, timeline)
    has_order = table.timelines.layout.has_completion_times
    assert carried == ({CARRIES: NOTHING} if has_order else {})
    assert store.calls - before == (1 if has_order else 3)
    assert (newest_extra(small).get(CARRIES) == NOTHING) is has_order


def test_a_checkpoint_is_carried_on_and_ends_the_word_that_there_is_none(small: SmallTable) -> None:
    write_with(small, 1, {KEY: CHECKPOINT})
    assert newest_extra(small)[KEY] == CHECKPOINT
    assert CARRIES not in newest_extra(small)
    small.write("upsert", batch([2], 6))
    assert newest_extra(small)[KEY] == CHECKPOINT
    assert CARRIES not in newest_extra(small)


def test_a_commit_that_completed_later_counts_although_it_was_requested_earlier() -> None:
    small = SmallTable.in_memory(table_version=9)
    small.write("insert", batch(range(4), 1, partitions=4))

    def another_is_faster() -> None:
        write_with(small, 2, {})

    write_with(small, 1, {KEY: CHECKPOINT}, before_files=another_is_faster)
    table = opened(small)
    timeline = table.timeline()
    last_requested = timeline.completed().instants[-1]
    assert table.timelines.read_commit(last_requested).extra_metadata[CARRIES] == NOTHING
    assert carried_metadata(table, timeline) == {KEY: CHECKPOINT}
