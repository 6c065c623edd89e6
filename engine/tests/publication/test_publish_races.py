"""Publications beside others that publish and clean: what one has read is gone when it
continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tideline.hudi.table.table_config import PUBLISH_MERGE, TableType
from tideline.publication import expiry, follow
from tideline.publication.follow import make_way
from tideline.publication.published_table import PublishedTable
from tideline.publication.step import PublicationStep
from tideline.testing.small_table import ONCE, SmallTable, batch

TYPES = pytest.mark.parametrize("table_type", TableType, ids=str)


def made(table_type: TableType) -> SmallTable:
    table = SmallTable.in_memory({PUBLISH_MERGE: "true"}, table_type=table_type)
    table.write("insert", batch(range(6), 1))
    table.lake().publish()
    return table


def others_publish_and_clean(table: SmallTable) -> None:
    """The snapshot of before is dropped, with its manifests and files."""
    for v in (2, 3):
        table.write("upsert", batch(range(6), v))
        if table.lake().hoodie_table.config.table_type is TableType.MERGE_ON_READ:
            table.lake().run("compaction", options=ONCE)
        table.lake().publish()
    assert table.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"}).done


def once_after(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` once, right after the publication was read."""
    load, acts = PublishedTable.load, [act]

    def loaded(place: PublishedTable) -> Any:
        found = load(place)
        if acts:
            acts.pop()()
        return found

    monkeypatch.setattr(PublishedTable, "load", loaded)


@TYPES
def test_a_snapshot_that_is_dropped_while_it_is_read_is_a_lost_race(
    table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(table_type)
    table.write("upsert", batch(range(2), 1))
    once_after(monkeypatch, lambda: others_publish_and_clean(table))
    assert table.lake().publish().instant
    monkeypatch.undo()
    assert not table.lake().publish(dry_run=True).files_added
    assert table.lake().check(keys=True) == ()


@TYPES
def test_a_table_whose_files_are_cleaned_while_they_are_read_is_read_again(
    table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(table_type)
    table.write("upsert", batch(range(2), 1))
    changed, acts = PublicationStep._change, [lambda: others_publish_and_clean(table)]

    def changing(step: PublicationStep, partitions: Any) -> Any:
        found = changed(step, partitions)
        if acts:
            acts.pop()()
        return found

    monkeypatch.setattr(PublicationStep, "_change", changing)
    assert table.lake().publish().instant
    assert not table.lake().publish(dry_run=True).files_added
    assert table.lake().check(keys=True) == ()


@TYPES
def test_cleaning_makes_way_beside_another_that_drops_snapshots(
    table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(table_type)
    read, acts = expiry.snapshots_needing, [lambda: others_publish_and_clean(table)]

    def reading(*given: Any) -> Any:
        if acts:
            acts.pop()()
        return read(*given)

    monkeypatch.setattr(follow, "snapshots_needing", reading)
    make_way(table.lake().hoodie_table, ["p0/none.parquet"])
    assert table.lake().check(keys=True) == ()
