"""Merge-on-read tables whose logs are published: deletes of positions, and rows of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.hudi.table.table_config import ICEBERG, PUBLISH, PUBLISH_MERGE, TableType
from tideline.iceberg.commit.exchange_files import commit_exchange
from tideline.lake_table import LakeTable
from tideline.publication.publish import publish_table
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.iceberg_peer import metadata_file
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

MERGED = {PUBLISH: ICEBERG, PUBLISH_MERGE: "true"}
MANUAL = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}


def create(folder: Path, **properties: str) -> LakeTable:
    return LakeTable.create(
        str(folder),
        record_key="id",
        partition_by="day",
        table_type="MERGE_ON_READ",
        properties={**MANUAL, **MERGED, **properties},
    )


def rows(**values: int) -> pa.Table:
    return pa.table(
        {
            "id": list(values),
            "day": [f"2026-01-0{1 + ord(key) % 2}" for key in values],
            "v": list(values.values()),
        }
    )


def published(folder: Path) -> StaticTable:
    return StaticTable.from_metadata(metadata_file(str(folder)))


def values(folder: Path, snapshot_id: int | None = None) -> dict[str, int]:
    found = published(folder).scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


def own_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "metadata" / "merged").rglob("*.parquet")}


def test_what_logs_replace_and_delete_is_published(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(a=1, b=2, c=3, d=4))
    assert own_files(tmp_path) == set()
    table.write(rows(a=10))
    assert len(own_files(tmp_path)) == 2
    table.write(rows(b=0), "delete")
    assert len(own_files(tmp_path)) == 3
    seen = [
        values(tmp_path, candidate.snapshot_id) for candidate in published(tmp_path).snapshots()
    ]
    assert seen == [
        {"a": 1, "b": 2, "c": 3, "d": 4},
        {"a": 10, "b": 2, "c": 3, "d": 4},
        {"a": 10, "c": 3, "d": 4},
    ]
    snapshot = published(tmp_path).current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary["tideline.publication"] == "snapshot"
    (task,) = published(tmp_path).scan(row_filter="day = '2026-01-02' and v = 10").plan_files()
    assert task.file.record_count == 1


def test_only_slices_that_a_commit_wrote_to_are_merged(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(a=1, b=2))
    table.write(rows(a=10, b=20))
    before = own_files(tmp_path)
    table.write(rows(a=11))
    after = own_files(tmp_path)
    assert before < after
    assert len(after - before) == 2
    assert not table.publish().is_new


def test_files_for_logs_go_with_compaction_and_cleaning(tmp_path: Path) -> None:
    table = create(tmp_path, **{"hoodie.clean.commits.retained": "1"})
    table.write(rows(a=1, b=2))
    table.write(rows(a=10, b=20))
    assert len(own_files(tmp_path)) == 4
    table.run("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
    assert values(tmp_path) == {"a": 10, "b": 20}
    table.write(rows(a=11))
    table.run("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.run("cleaning")
    for snapshot in published(tmp_path).snapshots():
        assert values(tmp_path, snapshot.snapshot_id)
    assert len(own_files(tmp_path)) < 4
    table.stop_publishing(drop=True)
    assert own_files(tmp_path) == set()


def test_a_table_changes_its_mind(tmp_path: Path) -> None:
    table = create(tmp_path, **{PUBLISH_MERGE: "false"})
    table.write(rows(a=1, b=2))
    table.write(rows(a=10))
    assert values(tmp_path) == {"a": 1, "b": 2}
    table.write(rows(b=20), options={PUBLISH_MERGE: "true"})
    assert values(tmp_path) == {"a": 10, "b": 20}
    table.write(rows(c=3))
    assert values(tmp_path) == {"a": 10, "b": 20, "c": 3}
    table.write(rows(c=30), options={PUBLISH_MERGE: "false"})
    assert values(tmp_path) == {"a": 1, "b": 2, "c": 3}


def test_what_a_lost_race_wrote_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path)
    table.write(rows(a=1, b=2))
    raced: list[int] = []

    def after_another(*args: Any, **given: Any) -> Any:
        if not raced:
            raced.append(1)
            publish_table(LakeTable.open(str(tmp_path)).hoodie_table)
        return commit_exchange(*args, **given)

    monkeypatch.setattr("tideline.publication.step.commit_exchange", after_another)
    table.write(rows(a=10))
    assert raced
    assert values(tmp_path) == {"a": 10, "b": 2}
    assert len(own_files(tmp_path)) == 2


@pytest.mark.parametrize("dies_after", [False, True])
def test_a_death_at_any_write_is_healed(dies_after: bool) -> None:
    base = SmallTable.in_memory(MERGED, table_type=TableType.MERGE_ON_READ)
    base.write("insert", batch(range(6), 1))
    publish_table(open_fresh(base.location, None, base.clock))
    base.write("upsert", batch([0, 1, 8, 9], 2))
    deaths = 0
    for number in range(1, 30):
        table = base.copy()
        plan: dict[str, Any] = {"crash_after_write" if dies_after else "crash_before_write": number}
        store = FaultyStore(table.location.open(), FaultPlan(**plan))
        try:
            publish_table(open_fresh(table.location, store, table.clock))
        except SimulatedCrash:
            deaths += 1
            publish_table(open_fresh(table.location, None, table.clock))
            again = publish_table(open_fresh(table.location, None, table.clock))
            assert not again.is_new
            table.forget()
        else:
            break
    assert deaths >= 5
    base.forget()
