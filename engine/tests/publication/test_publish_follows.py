"""A table that asks for it is published by its commits and services, and never loses a file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.cli.main import run
from tideline.errors import ConfigError, StorageUnavailableError, UnsupportedTableError
from tideline.hudi.services.registry import service_named
from tideline.hudi.table.table_config import ICEBERG, PUBLISH
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, RunService, TableTarget
from tideline.ingest.operation.result import Outcome
from tideline.lake_table import LakeTable
from tideline.publication import follow
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_peer import metadata_file

MANUAL = {"hoodie.clean.automatic": "false", "hoodie.clean.commits.retained": "1"}


def create(folder: Path, **properties: str) -> LakeTable:
    return LakeTable.create(
        str(folder), record_key="id", properties={PUBLISH: ICEBERG, **MANUAL, **properties}
    )


def with_five_commits(folder: Path) -> LakeTable:
    """A table where a clean has something to delete."""
    table = create(folder)
    for v in range(1, 6):
        table.write(row(v))
    return table


def row(v: int) -> pa.Table:
    return pa.table({"id": ["a"], "v": [v]})


def newest(folder: Path) -> list[int]:
    scan = StaticTable.from_metadata(metadata_file(str(folder))).scan()
    return sorted(scan.to_arrow()["v"].to_pylist())


def test_every_commit_is_published_and_can_be_read_as_it_was(tmp_path: Path) -> None:
    table = create(tmp_path)
    for v in (1, 2, 3):
        report = table.write(row(v))
        assert any("published as Iceberg snapshot" in note for note in report.notes)
        assert newest(tmp_path) == [v]
    published = StaticTable.from_metadata(metadata_file(str(tmp_path)))
    seen = [
        published.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["v"].to_pylist()
        for snapshot in published.snapshots()
    ]
    assert seen == [[1], [2], [3]]


def test_a_failure_to_publish_is_said_and_made_up_for(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(row(1))
    lost = StorageUnavailableError("the store is away")
    with patch.object(follow, "publish_table", side_effect=lost):
        report = table.write(row(2))
    assert any("publishing as Iceberg failed" in note for note in report.notes)
    assert newest(tmp_path) == [1]
    table.write(row(3))
    assert newest(tmp_path) == [3]


def test_cleaning_drops_the_snapshots_that_need_its_files_first(tmp_path: Path) -> None:
    table = with_five_commits(tmp_path)
    assert len(snapshots(tmp_path)) == 5
    before = {path.name for path in (tmp_path / "metadata").glob("*.avro")}
    table.run("cleaning")
    published = StaticTable.from_metadata(metadata_file(str(tmp_path)))
    seen = [
        published.scan(snapshot_id=snapshot).to_arrow()["v"].to_pylist()
        for snapshot in snapshots(tmp_path)
    ]
    assert seen == [[4], [5]]
    after = {path.name for path in (tmp_path / "metadata").glob("*.avro")}
    assert after < before


def test_cleaning_deletes_nothing_while_it_cannot_publish(tmp_path: Path) -> None:
    table = with_five_commits(tmp_path)
    files = sorted(tmp_path.glob("*.parquet"))
    lost = StorageUnavailableError("the store is away")
    lost_here = patch.object(follow, "publish_table", side_effect=lost)
    with lost_here, pytest.raises(StorageUnavailableError):
        table.run("cleaning")
    assert sorted(tmp_path.glob("*.parquet")) == files
    table.run("cleaning")
    assert len(list(tmp_path.glob("*.parquet"))) < len(files)


def test_a_restore_takes_the_publication_back(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(row(1))
    saved = table.savepoint()
    table.write(row(2))
    table.write(row(3))
    table.restore(saved.instant)
    assert newest(tmp_path) == [1]
    published = StaticTable.from_metadata(metadata_file(str(tmp_path)))
    for snapshot in snapshots(tmp_path):
        assert published.scan(snapshot_id=snapshot).to_arrow()["v"].to_pylist() == [1]


def test_a_restore_takes_back_what_was_published_by_hand(tmp_path: Path) -> None:
    table = LakeTable.create(str(tmp_path), record_key="id", properties=MANUAL)
    table.write(row(1))
    saved = table.savepoint()
    table.write(row(2))
    table.publish()
    table.restore(saved.instant)
    assert newest(tmp_path) == [1]


def test_a_restore_to_before_a_column_became_wider_is_published(tmp_path: Path) -> None:
    """Such as pandas writes whole numbers."""
    table = create(tmp_path)
    table.write(pa.table({"id": ["a"], "v": pa.array([1], pa.int32())}))
    saved = table.savepoint()
    table.write(row(2))
    table.restore(saved.instant)
    table.write(pa.table({"id": ["b"], "v": pa.array([5], pa.int32())}))
    assert newest(tmp_path) == [1, 5]
    published = StaticTable.from_metadata(metadata_file(str(tmp_path)))
    assert str(published.schema().find_type("v")) == "long"
    assert published.scan(row_filter="v > 4").to_arrow()["v"].to_pylist() == [5]


def test_cleaning_lets_a_table_go_that_was_published_by_hand(tmp_path: Path) -> None:
    table = LakeTable.create(str(tmp_path), record_key="id", properties=MANUAL)
    table.write(row(0))
    table.publish()
    for v in range(1, 6):
        table.write(row(v))
    assert newest(tmp_path) == [0]
    table.run("cleaning")
    assert newest(tmp_path) == [5]
    assert len(snapshots(tmp_path)) == 1


def test_cleaning_names_what_can_no_longer_be_published(tmp_path: Path) -> None:
    table = with_five_commits(tmp_path)
    files = sorted(tmp_path.glob("*.parquet"))
    cannot = UnsupportedTableError("v was text before")
    refused = pytest.raises(
        UnsupportedTableError, match=r"v was text before; to give .* --stop --drop"
    )
    with patch.object(follow, "publish_table", side_effect=cannot), refused:
        table.run("cleaning")
    assert sorted(tmp_path.glob("*.parquet")) == files
    shutil.rmtree(tmp_path / "metadata")
    with patch.object(follow, "publish_table", side_effect=cannot):
        table.run("cleaning")
    assert len(list(tmp_path.glob("*.parquet"))) < len(files)


def test_another_iceberg_table_in_the_folder_is_not_in_the_way_of_cleaning(tmp_path: Path) -> None:
    """Such as Apache XTable's."""
    table = LakeTable.create(str(tmp_path), record_key="id", properties=MANUAL)
    table.write(row(0))
    table.publish()
    metadata = Path(metadata_file(str(tmp_path)))
    document = json.loads(metadata.read_text())
    del document["properties"]["tideline.hudi.table"]
    metadata.write_text(json.dumps(document))
    for v in range(1, 6):
        table.write(row(v))
    before = len(list(tmp_path.glob("*.parquet")))
    table.run("cleaning")
    assert len(list(tmp_path.glob("*.parquet"))) < before
    assert Path(metadata_file(str(tmp_path))) == metadata


def test_a_setting_of_the_write_or_service_asks_for_it_too(tmp_path: Path) -> None:
    """As a LakeTable gives it for a table that is there already."""
    asked = {PUBLISH: ICEBERG}
    table = LakeTable.create(str(tmp_path), record_key="id", properties=MANUAL)
    assert table.write(row(1)).notes == ()
    assert not (tmp_path / "metadata").exists()
    table.write(row(2), options=asked)
    assert newest(tmp_path) == [2]
    table.write(row(3))
    assert newest(tmp_path) == [2]
    target = TableTarget("t", Location(str(tmp_path)), ("id",))
    clustering = service_named("clustering")
    work = RunService(clustering, "", {**asked, **clustering.whenever_asked})
    done = execute_operation(
        Operation("x", target, work), session_factory=lambda _: pytest.fail("needs no Spark")
    )
    assert done.outcome is Outcome.SUCCEEDED, done.message
    assert newest(tmp_path) == [3]


def test_partitions_that_are_dropped_and_services_after_a_write_are_followed(
    tmp_path: Path,
) -> None:
    table = LakeTable.create(
        str(tmp_path),
        record_key="id",
        partition_by="day",
        properties={PUBLISH: ICEBERG, "hoodie.clean.automatic": "false"},
    )
    rows = pa.table({"id": ["a", "b"], "day": ["x", "y"], "v": [1, 2]})
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    report = table.write(rows, options=inline)
    table.write(rows, options=inline)
    assert newest(tmp_path) == [1, 2]
    assert any(done.run and done.run.done for done in report.services)
    assert len(report.notes) == 2
    table.delete_partitions("x")
    assert newest(tmp_path) == [2]


def test_every_commit_is_published_from_the_command_that_says_always(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = LakeTable.create(str(tmp_path), record_key="id", properties=MANUAL)
    table.write(row(1))
    assert run(["publish", str(tmp_path), "--always", "--dry-run"]) == 0
    assert "Would keep in the table" in capsys.readouterr().out
    LakeTable.open(str(tmp_path)).write(row(2))
    assert not (tmp_path / "metadata").exists()
    assert run(["publish", str(tmp_path), "--always"]) == 0
    assert "is published from now on" in capsys.readouterr().out
    assert newest(tmp_path) == [2]
    LakeTable.open(str(tmp_path)).write(row(3))
    assert newest(tmp_path) == [3]


def test_a_table_is_created_to_be_published(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    assert run(["create", folder, "--record-key", "id", "--publish", "iceberg"]) == 0
    assert LakeTable.open(folder).hoodie_table.config.properties[PUBLISH] == ICEBERG


def test_what_is_published_says_a_word_that_is_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tideline\.publish must be one of iceberg"):
        LakeTable.create(str(tmp_path), record_key="id", properties={PUBLISH: "delta"})


def snapshots(folder: Path) -> list[int]:
    loaded = FileSystemTable(StoreLocation.of(folder)).load()
    return [snapshot.snapshot_id for snapshot in loaded.metadata.snapshots]


@pytest.mark.parametrize("command", ["rewrite", "rewrite-deletes", "expire", "remove-orphans"])
def test_services_of_iceberg_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    create(tmp_path).write(row(1))
    before = sorted(tmp_path.rglob("*"))
    forced = ["--option", "rewrite-all=true"] if command.startswith("rewrite") else []
    assert run(["iceberg", command, str(tmp_path), *forced]) == ConfigError.exit_code
    assert "published as this one" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
