"""What a dead writer of one engine leaves behind, the other engine's next write rolls back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import SCHEMA, typed_rows
from tideline.testing.interop_table import (
    METADATA_TABLE_OFF,
    METADATA_TABLE_ON,
    InteropLayout,
    InteropTable,
)

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

ALL_WRITTEN = typed_rows(range(10), version=1)
NEVER_COMPLETED = typed_rows(range(5, 30), version=2)
NEXT_WRITE = typed_rows(range(8, 12), version=3)


@pytest.fixture(params=[6, 9], ids="v{}".format)
def table(
    request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> InteropTable:
    layout = InteropLayout("crashed", version=request.param)
    return InteropTable(layout, tmp_path, spark, hudi_peer)


def take_back_commit(table: InteropTable, instant: str) -> set[Marker]:
    """Make a completed commit what its writer leaves when it dies just before completing it.

    Returns the markers that writer had made; their files are there, unfinished business.
    """
    hoodie = LakeTable.open(table.uri).hoodie_table
    found = hoodie.timeline().find(InstantTime(instant))
    assert found is not None
    commit = hoodie.timelines.read_commit(found)
    completed = table.path / hoodie.timelines.path(found)
    completed.unlink()
    completed.with_name(f".{completed.name}.crc").unlink(missing_ok=True)
    return {
        Marker(
            stat.partition_path or "",
            Path(stat.path or "").name,
            MarkerKind.CREATE if stat.prev_commit == "null" else MarkerKind.MERGE,
        )
        for stats in commit.partition_to_write_stats.values()
        for stat in stats
    }


def assert_undone(table: InteropTable, instant: str, markers: set[Marker]) -> None:
    left = {name for name in table.timeline_files() if name.startswith(instant)}
    assert left == set(), "the dead instant is still in the timeline"
    assert table.data_files().isdisjoint(marker.path for marker in markers)
    assert not (table.path / ".hoodie" / ".temp" / instant).exists()


@pytest.mark.parametrize("options", [METADATA_TABLE_OFF, METADATA_TABLE_ON], ids=["off", "on"])
def test_hudi_rolls_back_our_unfinished_commit(
    table: InteropTable, options: dict[str, str]
) -> None:
    table.create(SCHEMA)
    table.write("insert", ALL_WRITTEN)
    dead = _written_outside_the_model(table)
    markers = take_back_commit(table, dead)
    for marker in markers:
        create_marker(LakeTable.open(table.uri).hoodie_table.store, dead, marker)
    assert {marker.kind for marker in markers} >= {MarkerKind.MERGE}
    table.check()

    table.write_with_hudi("upsert", NEXT_WRITE, options)

    assert_undone(table, dead, markers)
    table.check()
    table.write("upsert", typed_rows(range(3, 9), version=4))
    table.check()


def test_hudi_rolls_back_a_write_of_ours_that_was_only_requested(table: InteropTable) -> None:
    table.create(SCHEMA)
    table.write("insert", ALL_WRITTEN)
    dead = _written_outside_the_model(table)
    markers = take_back_commit(table, dead)
    (table.timeline_folder / f"{dead}.inflight").unlink()
    for marker in markers:
        (table.path / marker.path).unlink()
    table.check()

    table.write_with_hudi("upsert", NEXT_WRITE, METADATA_TABLE_OFF)

    assert_undone(table, dead, markers)
    table.check()


@pytest.mark.parametrize("options", [METADATA_TABLE_OFF, METADATA_TABLE_ON], ids=["off", "on"])
def test_we_roll_back_hudis_unfinished_commit(table: InteropTable, options: dict[str, str]) -> None:
    table.write_with_hudi("insert", ALL_WRITTEN, options)
    dead = _written_outside_the_model_by_hudi(table, options)
    markers = take_back_commit(table, dead)
    _leave_timeline_server_markers(table, dead, markers)

    report = table.write("upsert", NEXT_WRITE)

    assert report.rolled_back == (dead,)
    assert_undone(table, dead, markers)
    table.check()
    table.write_with_hudi("upsert", typed_rows(range(3, 9), version=4), options)
    table.check()


def test_we_roll_back_a_write_of_hudi_that_was_only_requested(table: InteropTable) -> None:
    table.write_with_hudi("insert", ALL_WRITTEN, METADATA_TABLE_OFF)
    dead = _written_outside_the_model_by_hudi(table, METADATA_TABLE_OFF)
    markers = take_back_commit(table, dead)
    (table.timeline_folder / f"{dead}.inflight").unlink()
    for marker in markers:
        (table.path / marker.path).unlink()

    table.write("upsert", NEXT_WRITE)

    assert_undone(table, dead, markers)
    table.check()


def test_hudi_reads_what_our_rollback_recorded(table: InteropTable) -> None:
    table.create(SCHEMA)
    table.write("insert", ALL_WRITTEN)
    dead = _written_outside_the_model(table)
    markers = take_back_commit(table, dead)
    for marker in markers:
        create_marker(LakeTable.open(table.uri).hoodie_table.store, dead, marker)
    table.write("upsert", NEXT_WRITE)

    (rollback,) = table.peer.rollbacks(table.uri)

    assert rollback.instants == (dead,)
    deleted = {path.rpartition("/")[2] for path in rollback.deleted_files}
    assert deleted == {marker.file_name for marker in markers}


def test_hudi_cleans_and_archives_our_commits(table: InteropTable) -> None:
    table.create(SCHEMA)
    first = table.write("insert", ALL_WRITTEN).instant
    dead = _written_outside_the_model(table)
    markers = take_back_commit(table, dead)
    for marker in markers:
        create_marker(LakeTable.open(table.uri).hoodie_table.store, dead, marker)
    for version in range(3, 7):
        table.write("upsert", typed_rows(range(version, 15), version=version))
    assert_undone(table, dead, markers)
    keep_little = {
        **METADATA_TABLE_OFF,
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    before = table.data_files()

    for version in (7, 8):
        table.write_with_hudi("upsert", typed_rows(range(version), version=version), keep_little)

    assert before - table.data_files(), "Hudi cleaned nothing"
    left = {name for name in table.timeline_files() if name.startswith(first)}
    assert not left, "Hudi archived nothing"
    table.check()
    table.write("upsert", typed_rows(range(4), version=9))
    table.check()


def _written_outside_the_model(table: InteropTable) -> str:
    frame = table.spark.createDataFrame(NEVER_COMPLETED)
    return LakeTable.open(table.uri).write(frame, "upsert").instant


def _written_outside_the_model_by_hudi(table: InteropTable, options: dict[str, str]) -> str:
    described = {**table.layout.writing_options(), **options}
    table.peer.write(table.uri, NEVER_COMPLETED, operation="upsert", options=described)
    return max(instant.time for instant in table.peer.timeline(table.uri))


def _leave_timeline_server_markers(table: InteropTable, instant: str, markers: set[Marker]) -> None:
    """The form in which Hudi keeps markers by default; it ends without a newline."""
    directory = table.path / ".hoodie" / ".temp" / instant
    directory.mkdir(parents=True)
    (directory / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (directory / "MARKERS0").write_text("\n".join(sorted(item.marker_path for item in markers)))
