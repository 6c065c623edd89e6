"""Tables that Hudi wrote: opened, viewed and described; other versions refused by name."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import KeyGeneratorKind, MergeMode, TableType
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import FIXTURES, expected, fixture_table

pytestmark = pytest.mark.fixtures

# The one table whose rows need its log files: base files alone show a deleted row.
MERGED_ON_READ = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
OVERWRITTEN = (
    "hudi-rs.mor-parquet.v6_simplekeygen_nonhivestyle_overwritetable/"
    "data/v6_simplekeygen_nonhivestyle_overwritetable"
)


@cache
def hudi_tables() -> dict[str, str]:
    """Version by path of all Hudi tables among the fixtures; none where they are absent."""
    file = FIXTURES / "expected.json"
    if not file.is_file():
        return {}
    tables = json.loads(file.read_text(encoding="utf-8"))["tables"]
    return {
        path: str(entry.get("table_version"))
        for path, entry in tables.items()
        if entry.get("format") == "hudi"
    }


def paths_of(*versions: str) -> list[str]:
    return [path for path, version in hudi_tables().items() if version in versions]


def table_of(path: str) -> HoodieTable:
    return open_table(StoreLocation.of(fixture_table(path)))


READABLE = [path for path in paths_of("6") if "core-testdata" not in path]


def test_there_are_fixtures() -> None:
    expected(MERGED_ON_READ)
    assert len(READABLE) >= 15


@pytest.mark.parametrize("path", READABLE)
def test_properties_say_what_hudi_set(path: str) -> None:
    config = table_of(path).config
    answer = expected(path)
    assert config.table_type is TableType(answer["table_type"])
    assert ",".join(config.record_key_fields) == (answer.get("record_key") or "")
    assert ",".join(config.partition_fields) == (answer.get("partition_fields") or "")
    assert ",".join(config.ordering_fields) == (answer.get("precombine") or "")
    assert ",".join(config.metadata_partitions) == (answer.get("mdt_partitions") or "")
    assert config.populate_meta_fields is (answer.get("populate_meta") != "false")
    assert isinstance(config.key_generator, KeyGeneratorKind)
    assert isinstance(config.merge_mode, MergeMode)


@pytest.mark.parametrize("path", READABLE)
def test_the_latest_base_files_hold_the_rows_of_the_table(path: str) -> None:
    table = table_of(path)
    view = table.files.view(table.timeline())
    rows = 0
    for partition in view.partitions:
        for base_file in view.latest_base_files(partition):
            file = fixture_table(path) / base_file.path
            assert file.stat().st_size == base_file.size_bytes
            rows += pq.read_metadata(file).num_rows
    deleted_in_logs = 1 if path == MERGED_ON_READ else 0
    assert rows == expected(path)["expected"]["rows"] + deleted_in_logs


@pytest.mark.parametrize("path", READABLE)
def test_the_schema_names_the_columns_of_the_files(path: str) -> None:
    table = table_of(path)
    schema = table.schemas.newest(table.timeline())
    assert schema is not None
    view = table.files.view(table.timeline())
    for partition in view.partitions:
        for base_file in view.latest_base_files(partition):
            columns = pq.read_schema(fixture_table(path) / base_file.path).names
            stored = [name for name in columns if not name.startswith("_hoodie_")]
            assert set(stored) <= set(schema.names)
            if not table.config.drop_partition_columns and len(stored) == len(schema.names):
                assert [name for name in schema.names if name in stored] == stored


@pytest.mark.parametrize("path", READABLE)
def test_partitions_are_those_the_latest_files_were_written_to(path: str) -> None:
    table = table_of(path)
    written = {
        partition
        for instant in table.timeline().writes().completed()
        for partition in table.timelines.read_commit(instant).partition_to_write_stats
    }
    assert written <= set(table.files.partitions())


def test_log_files_hang_on_their_slices() -> None:
    table = table_of(MERGED_ON_READ)
    view = table.files.view(table.timeline())
    with_logs = [
        file_slice
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        if file_slice.log_files
    ]
    assert with_logs
    for file_slice in with_logs:
        assert file_slice.base_file is not None
        assert {log.instant for log in file_slice.log_files} == {file_slice.base_instant}


def test_overwritten_groups_are_replaced() -> None:
    table = table_of(OVERWRITTEN)
    timeline = table.timeline()
    replaced = table.commits.replaced_groups(timeline)
    assert replaced
    view = table.files.view(timeline)
    live = {item.group for name in view.partitions for item in view.latest_base_files(name)}
    assert not live & set(replaced)
    before = min(replaced.values(), key=lambda time: time.value)
    earlier = {
        item.group
        for name in view.partitions
        for item in view.latest_base_files(name, as_of=timeline.before(before).newest_time())
    }
    assert earlier & set(replaced)


def test_plans_of_hudi_name_the_groups_they_are_about(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    shutil.copytree(fixture_table(MERGED_ON_READ), folder)
    finished = table_of(MERGED_ON_READ).timeline()
    plans = {
        file.name.partition(".")[0]: file.name.split(".")[1]
        for file in (folder / ".hoodie").glob("*.requested")
        if file.name.split(".")[1] in ("compaction", "replacecommit")
    }
    assert set(plans.values()) == {"compaction", "replacecommit"}
    for time, action in plans.items():
        for name in (f"{time}.{action}.inflight", f"{time}.{action}", f"{time}.commit"):
            (folder / ".hoodie" / name).unlink(missing_ok=True)
    table = open_table(StoreLocation.of(folder))
    timeline = table.timeline()
    assert len(timeline.pending()) == len(plans) > len(finished.pending())
    view = table.files.view(timeline)
    named = [*view.pending_compaction.items(), *view.pending_clustering.items()]
    assert {str(time) for _, time in named} == set(plans)
    groups = {group.id for name in view.partitions for group in view.all_file_groups(name)}
    assert {group for group, _ in named} <= groups


@pytest.mark.parametrize("name", ["table_props_invalid", "table_props_partial"])
def test_broken_properties_are_corrupt(name: str) -> None:
    with pytest.raises(CorruptTableError, match="lacks"):
        table_of(f"hudi-rs.core-testdata/data/{name}")
