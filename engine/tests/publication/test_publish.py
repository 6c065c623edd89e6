"""What a publication is: ids, partitions, bounds, refusals, races and deaths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.manifest.manifest_reading import live_paths, manifests_of
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.lake_table import LakeTable
from tideline.publication.publish import publish_table
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.iceberg_peer import metadata_file
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

ROWS = pa.table({"id": ["a", "b"], "day": ["2026-01-01", "2026-01-02"], "v": [1, 2]})


def published(uri: Path) -> StaticTable:
    return StaticTable.from_metadata(metadata_file(str(uri)))


def create(folder: Path, **given: Any) -> LakeTable:
    return LakeTable.create(str(folder), record_key="id", partition_by="day", **given)


def test_a_repeat_finds_nothing_to_do_and_says_the_instant(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    assert table.publish().instant is None
    written = table.write(ROWS)
    preview = table.publish(dry_run=True)
    assert (preview.instant, preview.files_added, preview.is_new) == (written.instant, 2, False)
    assert not (tmp_path / "t" / "metadata").exists()
    first = table.publish()
    assert (first.instant, first.files_added, first.is_new) == (written.instant, 2, True)
    again = table.publish()
    assert (again.instant, again.is_new) == (written.instant, False)
    snapshot = published(tmp_path / "t").current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary["tideline.hudi.instant"] == written.instant
    assert snapshot.summary["tideline.publication"] == "snapshot"


def test_partitions_are_pruned_and_bounds_are_of_the_files(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.write(ROWS)
    table.publish()
    scan = published(tmp_path / "t").scan(row_filter="day = '2026-01-02'")
    (task,) = scan.plan_files()
    assert "2026-01-02" in task.file.file_path
    assert task.file.record_count == 1
    assert [row["id"] for row in scan.to_arrow().to_pylist()] == ["b"]
    assert list(published(tmp_path / "t").scan(row_filter="v > 2").plan_files()) == []


def test_paths_that_are_no_values_are_not_taken_for_any(tmp_path: Path) -> None:
    """A day as the key generator for times spells it is another text than its rows have."""
    properties = {
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    }
    table = create(tmp_path / "t", key_generator="TIMESTAMP", properties=properties)
    table.write(ROWS)
    table.publish()
    assert published(tmp_path / "t").spec().is_unpartitioned()
    assert published(tmp_path / "t").scan().to_arrow().num_rows == 2


def test_a_column_keeps_its_id_and_old_files_lack_it(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.write(ROWS)
    table.publish()
    before = {field.name: field.field_id for field in published(tmp_path / "t").schema().fields}
    table.write(pa.table({"id": ["c"], "day": ["2026-01-03"], "v": [3], "note": ["new"]}))
    table.publish()
    after = published(tmp_path / "t").schema()
    assert {field.name: field.field_id for field in after.fields} == before | {
        "note": max(field.field_id for field in after.fields)
    }
    rows = {
        row["id"]: row["note"] for row in published(tmp_path / "t").scan().to_arrow().to_pylist()
    }
    assert rows == {"a": None, "b": None, "c": "new"}


def test_another_table_in_the_folder_is_not_taken_over(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.write(ROWS)
    table.publish()
    newest = Path(metadata_file(str(tmp_path / "t")))
    document = json.loads(newest.read_text())
    del document["properties"]["tideline.hudi.table"]
    newest.write_text(json.dumps(document))
    with pytest.raises(UnsupportedTableError, match="not a publication"):
        table.publish()


def small_rows(table: SmallTable) -> int:
    loaded = FileSystemTable(table.location).load()
    snapshot = loaded.metadata.snapshot()
    return 0 if snapshot is None else int(snapshot.summary["total-records"])


def left_by_deaths(
    base: SmallTable, act: Callable[[HoodieTable], object], *, dies_after: bool, most: int
) -> Iterator[SmallTable]:
    """Copies of a table, each after `act` died of its first write, its second, and so on, until it
    ends well."""
    for number in range(1, most + 1):
        table = base.copy()
        plan = (
            FaultPlan(crash_after_write=number)
            if dies_after
            else FaultPlan(crash_before_write=number)
        )
        store = FaultyStore(table.location.open(), plan)
        try:
            act(open_fresh(table.location, store, table.clock))
        except SimulatedCrash:
            yield table
        else:
            return


@pytest.mark.parametrize("dies_after", [False, True])
def test_a_death_at_any_write_is_healed_by_the_next(dies_after: bool) -> None:
    base = SmallTable.in_memory({})
    base.write("insert", batch(range(6), 1))
    publish_table(open_fresh(base.location, None, base.clock))
    base.write("upsert", batch([0, 1, 8, 9], 2))
    deaths = 0
    for table in left_by_deaths(base, publish_table, dies_after=dies_after, most=29):
        deaths += 1
        publish_table(open_fresh(table.location, None, table.clock))
        assert small_rows(table) == 8
        assert not publish_table(open_fresh(table.location, None, table.clock)).is_new
        table.forget()
    assert deaths >= 4
    base.forget()


def needed_files(table: SmallTable) -> set[str]:
    """What the snapshots of the publication list, as paths in the table."""
    operations = FileSystemTable(table.location)
    metadata = operations.load().metadata
    return {
        path.removeprefix(f"{metadata.location}/")
        for snapshot in metadata.snapshots
        for manifest in manifests_of(operations.io, snapshot)
        for path in live_paths(operations.io, manifest)
    }


@pytest.mark.parametrize("dies_after", [False, True])
def test_a_clean_that_dies_at_any_write_leaves_no_snapshot_without_its_files(
    dies_after: bool,
) -> None:
    base = SmallTable.in_memory({})
    for value in range(1, 5):
        base.write("upsert", batch(range(6), value))
        publish_table(open_fresh(base.location, None, base.clock))
    options = {"hoodie.clean.commits.retained": "1"}
    snapshots = len(FileSystemTable(base.location).load().metadata.snapshots)
    deaths = 0

    def clean(opened: HoodieTable) -> None:
        LakeTable(opened).run("cleaning", options=options)

    for table in left_by_deaths(base, clean, dies_after=dies_after, most=59):
        deaths += 1
        files = table.location.open()
        assert all(files.head(path) for path in needed_files(table)), deaths
        table.fake_clock.advance(3_600)
        clean(open_fresh(table.location, None, table.clock))
        assert all(files.head(path) for path in needed_files(table)), deaths
        assert len(FileSystemTable(table.location).load().metadata.snapshots) < snapshots
        assert small_rows(table) == 6
        table.forget()
    assert deaths >= 6
    base.forget()
