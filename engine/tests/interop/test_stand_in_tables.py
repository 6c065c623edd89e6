"""Tables that Hudi made here: every file of theirs is understood, and made again as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tideline.errors import UnsupportedTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.formats.bloom import BloomFilter
from tideline.formats.log_block import (
    BlockKind,
    HeaderKey,
    encode_block,
    rollback_command_block,
)
from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.hudi.log.data_block import decode_data_block, encode_data_block
from tideline.hudi.log.delete_block import decode_delete_block, encode_delete_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.services.clustering.plan import ClusteringPlan
from tideline.hudi.services.compaction.plan import CompactionPlan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.log_blocks import blocks_of, content_of, frames_of
from tideline.testing.stand_in_tables import answer, recipes, stand_in
from tideline.testing.table_audit import open_fresh, read_rows

pytestmark = pytest.mark.interop

READABLE = [name for name, recipe in recipes().items() if recipe.version == 6]
WITH_META = [name for name in READABLE if name != "without_meta_columns"]
MERGE_ON_READ, OVERWRITTEN, ROLLED_BACK = "merge_on_read", "overwritten", "rolled_back"

RECORDS = {
    "clean.requested": "HoodieCleanerPlan",
    "clean": "HoodieCleanMetadata",
    "compaction.requested": "HoodieCompactionPlan",
    "replacecommit.requested": "HoodieRequestedReplaceMetadata",
    "rollback.requested": "HoodieRollbackPlan",
    "rollback": "HoodieRollbackMetadata",
}


def table_of(name: str) -> HoodieTable:
    return open_fresh(StoreLocation.of(stand_in(name)))


def timeline_files(name: str) -> list[Path]:
    files = (stand_in(name) / ".hoodie").iterdir()
    return sorted(file for file in files if is_instant_time(file.name.partition(".")[0]))


def base_files(name: str) -> list[Path]:
    files = stand_in(name).rglob("*.parquet")
    return sorted(file for file in files if ".hoodie" not in file.parts)


@pytest.mark.parametrize("name", READABLE)
def test_properties_say_what_hudi_set(name: str) -> None:
    recipe, config = recipes()[name], table_of(name).config
    appends = recipe.options.get("hoodie.datasource.write.table.type") == "MERGE_ON_READ"
    assert config.table_type is (TableType.MERGE_ON_READ if appends else TableType.COPY_ON_WRITE)
    assert tuple(config.record_key_fields) == recipe.layout.record_key
    assert tuple(config.partition_fields) == recipe.layout.partition_by
    assert tuple(config.ordering_fields) == ("ts",)
    assert config.populate_meta_fields is (name != "without_meta_columns")
    assert ("files" in config.metadata_partitions) is (name == MERGE_ON_READ)


@pytest.mark.parametrize("name", READABLE)
def test_the_rows_are_those_that_hudi_reads(name: str) -> None:
    table = table_of(name)
    rows = [dict(row) for row in read_rows(table)]
    expected = answer(name)
    assert len(rows) == expected.num_rows
    keys = sorted((row["id"], row["ts"]) for row in rows)
    assert keys == sorted(zip(expected["id"].to_pylist(), expected["ts"].to_pylist(), strict=True))


@pytest.mark.parametrize("name", READABLE)
def test_nothing_is_wrong_with_them(name: str) -> None:
    assert LakeTable.open(str(stand_in(name))).check(keys=name in WITH_META) == ()


@pytest.mark.parametrize("name", READABLE)
def test_the_schema_names_the_columns_of_the_files(name: str) -> None:
    schema = table_of(name).schemas.newest(table_of(name).timeline())
    assert schema is not None
    for file in base_files(name):
        columns = [item for item in pq.read_schema(file).names if not item.startswith("_hoodie_")]
        assert columns == list(schema.names)


@pytest.mark.parametrize("name", READABLE)
def test_every_commit_reads_and_wrote_to_known_partitions(name: str) -> None:
    table = table_of(name)
    commits = [
        table.timelines.read_commit(instant) for instant in table.timeline().writes().completed()
    ]
    assert commits
    written = {partition for commit in commits for partition in commit.partition_to_write_stats}
    assert written <= set(table.files.partitions())


@pytest.mark.parametrize("name", READABLE)
def test_every_instant_file_is_recognised(name: str) -> None:
    for file in timeline_files(name):
        instant = LAYOUT_V1.parse(file.name)
        assert instant is not None, file.name
        assert LAYOUT_V1.file_name(instant) == file.name


@pytest.mark.parametrize("name", READABLE)
def test_no_statistic_of_a_commit_is_lost(name: str) -> None:
    bodies = [file.read_bytes() for file in timeline_files(name)]
    commits = [body for body in bodies if b'"partitionToWriteStats"' in body]
    assert commits
    for body in commits:
        again = json.loads(CommitMetadata.decode(body, path=name).encode())
        for stats, written in zip(
            json.loads(body)["partitionToWriteStats"].values(),
            again["partitionToWriteStats"].values(),
            strict=True,
        ):
            for stat, stat_again in zip(stats, written, strict=True):
                assert stat == {key: stat_again[key] for key in stat}


def test_plans_and_reports_decode_and_encode_to_the_same_record() -> None:
    seen = set()
    for name in READABLE:
        for file in timeline_files(name):
            record_name = RECORDS.get(file.name.partition(".")[2])
            if record_name is None or not file.stat().st_size:
                continue
            record = decode_container(file.read_bytes(), record_name)
            assert decode_container(encode_container(record_name, record)) == record
            seen.add(record_name)
    assert seen == set(RECORDS.values())


def test_plans_of_services_are_written_as_they_were() -> None:
    plans = {"compaction": 0, "clustering": 0}
    for file in timeline_files(MERGE_ON_READ):
        if file.name.endswith(".compaction.requested"):
            record = decode_container(file.read_bytes(), "HoodieCompactionPlan")
            again = CompactionPlan.from_avro(record, path=file.name).to_avro()
            # Hudi 0.14 wrote null for no partitions, 1.2 an empty list.
            assert again.pop("missingSchedulePartitions") in (None, [])
            assert not record.pop("missingSchedulePartitions")
            assert again == record
            plans["compaction"] += 1
        elif file.name.endswith(".replacecommit.requested"):
            record = decode_container(file.read_bytes(), "HoodieRequestedReplaceMetadata")
            plan = ClusteringPlan.from_avro(record, path=file.name)
            first = record["clusteringPlan"]["inputGroups"][0]["slices"][0]
            uri = first["dataFilePath"].partition(f"/{first['partitionPath']}/")[0]
            again = plan.to_avro(uri)
            assert not again["clusteringPlan"].pop("missingSchedulePartitions")
            assert not record["clusteringPlan"].pop("missingSchedulePartitions")
            assert again == record
            plans["clustering"] += 1
    assert all(plans.values()), plans


def test_pending_plans_name_the_groups_they_are_about(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stand_in(MERGE_ON_READ), tmp_path / "table"))
    plans = {}
    for file in (folder / ".hoodie").glob("*.requested"):
        time, action, _ = file.name.split(".")
        if action in ("compaction", "replacecommit"):
            plans[time] = action
            for name in (f"{time}.{action}.inflight", f"{time}.{action}", f"{time}.commit"):
                (folder / ".hoodie" / name).unlink(missing_ok=True)
    assert set(plans.values()) == {"compaction", "replacecommit"}
    table = open_fresh(StoreLocation.of(folder))
    view = table.files.view(table.timeline())
    named = [*view.pending_compaction.items(), *view.pending_clustering.items()]
    assert {str(time) for _, time in named} == set(plans)


def test_log_files_hang_on_their_slices() -> None:
    table = table_of(MERGE_ON_READ)
    view = table.files.view(table.timeline())
    slices = [file_slice for name in view.partitions for file_slice in view.latest_slices(name)]
    with_logs = [file_slice for file_slice in slices if file_slice.log_files]
    assert with_logs
    for file_slice in with_logs:
        assert {log.instant for log in file_slice.log_files} == {file_slice.base_instant}


def test_overwritten_groups_are_replaced() -> None:
    table = table_of(OVERWRITTEN)
    timeline = table.timeline()
    replaced = table.commits.replaced_groups(timeline)
    view = table.files.view(timeline)
    live = {item.group for name in view.partitions for item in view.latest_base_files(name)}
    assert replaced
    assert not live & set(replaced)
    before = timeline.before(min(replaced.values(), key=lambda time: time.value)).newest_time()
    earlier = {
        item.group
        for name in view.partitions
        for item in view.latest_base_files(name, as_of=before)
    }
    assert earlier & set(replaced)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (MERGE_ON_READ, {BlockKind.AVRO_DATA, BlockKind.DELETE}),
        (ROLLED_BACK, {BlockKind.PARQUET_DATA, BlockKind.COMMAND, BlockKind.DELETE}),
    ],
)
def test_log_blocks_are_read_and_made_again(name: str, kinds: set[BlockKind]) -> None:
    seen = set()
    for frame, whole, content in blocks_of(stand_in(name)):
        seen.add(frame.kind)
        assert encode_block(frame.kind, frame.headers, content) == whole
        schema = frame.headers.get(HeaderKey.SCHEMA, "")
        instant = frame.headers[HeaderKey.INSTANT_TIME]
        if frame.kind is BlockKind.AVRO_DATA:
            rows = decode_data_block(frame.kind, content, schema)
            made = encode_data_block(LogFormat.AVRO, rows, schema, InstantTime(instant))
            assert content_of(made) == content
        elif frame.kind is BlockKind.PARQUET_DATA:
            assert decode_data_block(frame.kind, content, schema).num_rows > 0
        elif frame.kind is BlockKind.DELETE:
            (deleted,) = decode_delete_block(content)
            partition = deleted.partitions[0].as_py()
            made = encode_delete_block(
                deleted.keys, partition, deleted.ordering, InstantTime(instant), schema
            )
            assert content_of(made) == content
        elif frame.kind is BlockKind.COMMAND:
            target = frame.headers[HeaderKey.TARGET_INSTANT_TIME]
            assert frames_of(rollback_command_block(instant, target))[0].kind is frame.kind
    assert seen >= kinds


@pytest.mark.parametrize("name", WITH_META)
def test_filters_and_ranges_of_files_are_those_of_their_keys(name: str) -> None:
    for file in base_files(name):
        footer = read_footer(pq.read_metadata(file))
        keys = pq.read_table(file, columns=["_hoodie_record_key"]).column(0)
        stored = sorted(keys.to_pylist())
        assert (footer.min_key, footer.max_key) == (stored[0], stored[-1])
        assert footer.bloom is not None
        assert footer.bloom.might_contain(keys).all()
        rebuilt = BloomFilter(
            footer.bloom.kind,
            footer.bloom.bit_count,
            footer.bloom.hash_count,
            footer.bloom.keys_per_row,
            100_000,
        )
        rebuilt.add_keys(keys)
        assert rebuilt.to_base64() == footer.bloom.to_base64()


def test_files_without_meta_columns_have_nothing_in_their_footers() -> None:
    for file in base_files("without_meta_columns"):
        assert read_footer(pq.read_metadata(file)) == BaseFileFooter()


def test_the_archive_is_read_newest_first() -> None:
    archived = table_of(MERGE_ON_READ).commits.archive()
    times = [entry.instant.time for entry in archived.completed()]
    assert times
    assert times == sorted(times, reverse=True)
    assert all(commit.commit_metadata().operation_type for commit in archived.commits())
    active = table_of(MERGE_ON_READ).timeline()
    assert not set(times) & {instant.time for instant in active.completed()}
    assert all(active.is_committed(entry.instant.time) for entry in archived.commits())


def test_switching_the_metadata_table_off_changes_only_that(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stand_in(MERGE_ON_READ), tmp_path / "table"))
    before = dict(open_fresh(StoreLocation.of(folder)).config.properties)
    assert disable_metadata_table(open_fresh(StoreLocation.of(folder))) is True
    after = dict(open_fresh(StoreLocation.of(folder)).config.properties)
    off = {"hoodie.table.metadata.partitions": "", "hoodie.table.metadata.partitions.inflight": ""}
    assert after == before | off
    assert not (folder / ".hoodie/metadata").exists()


@pytest.mark.parametrize("version", ["8", "9"])
def test_tables_of_later_versions_have_the_rows_that_hudi_reads(version: str) -> None:
    table = table_of(f"version_{version}")
    rows = answer(f"version_{version}")
    names = [name for name in rows.column_names if not name.startswith("_hoodie_")]
    wanted = rows.select(names).to_pylist()
    assert len(read_rows(table)) == len(wanted)
    assert sorted(map(str, read_rows(table))) == sorted(map(str, wanted))


@pytest.mark.parametrize("version", ["2", "7"])
def test_other_table_versions_are_refused_by_name(version: str, tmp_path: Path) -> None:
    made_by_hudi = f"version_{version}" in recipes()
    folder = stand_in(f"version_{version}" if made_by_hudi else OVERWRITTEN)
    if not made_by_hudi:  # This release of Hudi writes none of these: only the number is theirs.
        folder = Path(shutil.copytree(folder, tmp_path / "table"))
        properties = folder / ".hoodie" / "hoodie.properties"
        text = properties.read_text().replace("table.version=6", f"table.version={version}")
        properties.write_text(text)
    with pytest.raises(UnsupportedTableError, match=f"table version {version} ") as caught:
        open_fresh(StoreLocation.of(folder))
    assert str(folder) in str(caught.value)
