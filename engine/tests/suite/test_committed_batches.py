"""What two live writers must leave: batches by their completion, with one exception."""

from __future__ import annotations

from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.concurrent_table import Batch, CommittedBatch


def commit(
    operation: str, *keys: int, value: int, began: int, completed: int, files: str
) -> CommittedBatch:
    begin, end = (InstantTime.from_epoch_ms(1_800_000_000_000 + ms) for ms in (began, completed))
    return CommittedBatch(Batch(operation, keys, value), begin, end, frozenset(files))


def left_by(*commits: CommittedBatch) -> dict[str, int]:
    rows: dict[str, CommittedBatch] = {}
    for each in sorted(commits, key=lambda each: each.completed):
        each.apply(rows)
    return {key: row.made.value for key, row in rows.items()}


def test_the_last_to_complete_decides() -> None:
    first = commit("upsert", 1, 2, value=1, began=0, completed=1, files="a")
    update = commit("upsert", 1, value=2, began=2, completed=5, files="a")
    delete = commit("delete", 1, 2, value=3, began=3, completed=4, files="a")
    assert left_by(first, update) == {"k001": 2, "k002": 1}
    assert left_by(first, delete) == {}
    assert left_by(first, update, delete) == {"k001": 2}


def test_a_delete_beside_an_insert_stands_before_it_unless_they_share_a_file_group() -> None:
    insert = commit("upsert", 1, value=1, began=2, completed=3, files="b")
    for files, left in (("a", {"k001": 1}), ("", {"k001": 1}), ("b", {}), ("ab", {})):
        assert (
            left_by(insert, commit("delete", 1, value=2, began=1, completed=4, files=files)) == left
        )
    later = commit("delete", 1, value=2, began=4, completed=5, files="a")
    assert left_by(insert, later) == {}
