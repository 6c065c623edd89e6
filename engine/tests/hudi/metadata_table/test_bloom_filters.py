"""Bloom filters of keys after writes and services: the row of a base file is its footer's."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import UnsupportedTableError
from tideline.formats.avro import encode_records
from tideline.formats.stored_filter import StoredFilter
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.bloom_filters import (
    BLOOM_FILTERS_PARTITION,
    FilterRow,
    key_of,
)
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord, record_schema_json
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import BaseFile, split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    TableType,
)
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing.kept_statistics import begin_statistics, stored_filters
from tideline.testing.small_table import SmallTable, batch, memory_place
from tideline.testing.table_audit import stale_listing
from tideline.testing.work_at_random import work_at_random

NO_FILTERS = {"hoodie.parquet.bloom.filter.enabled": "false", "hoodie.index.type": "SIMPLE"}
T = InstantTime("20261125223126385")


@pytest.fixture(params=[TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ], ids=str)
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = with_filters(request.param)
    yield table
    table.forget()


def with_filters(table_type: TableType, version: int = 9) -> SmallTable:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_type=table_type, table_version=version)
    begin_statistics(opened(small), ["v"], "V2" if version == 9 else "V1")
    return small


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def base_files(small: SmallTable) -> dict[str, BaseFile]:
    """All that are there, by the keys of their rows."""
    infos = [info for info in small.store().list() if not info.path.startswith(".hoodie/")]
    found = [BaseFile.parse(*split_path(info.path), info.size_bytes) for info in infos]
    return {key_of(file): file for file in found if file is not None}


def in_footer(small: SmallTable, file: BaseFile) -> StoredFilter:
    """The filter of a file, as Arrow reads its footer."""
    with small.store().open_reader(file.path) as stream:
        entries = pq.read_metadata(stream).metadata or {}
    code = entries[b"hoodie_bloom_filter_type_code"].decode()
    return StoredFilter(code, entries[b"org.apache.hudi.bloomfilter"])


def assert_right(small: SmallTable) -> None:
    """Each base file that is there has its row, and no other has one."""
    assert BLOOM_FILTERS in opened(small).config.metadata_partitions
    files = base_files(small)
    assert files
    expected = {key: FilterRow(in_footer(small, file), file.instant) for key, file in files.items()}
    assert stored_filters(opened(small)) == expected
    looked_up = MetadataTable(small.store(), small.clock).look_up(BLOOM_FILTERS_PARTITION, files)
    assert {record.key for record in looked_up if not record.is_deleted} == files.keys()
    assert stale_listing(opened(small)) == []


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("table_type", list(TableType), ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_footers_after_random_work(
    table_type: TableType, version: int, seed: int
) -> None:
    chance = random.Random(seed)
    small = with_filters(table_type, version)
    small.write("insert", batch(range(12), 0, partitions=3))
    work_at_random(small, chance, assert_right, writes_max=30)
    small.forget()


def test_a_clean_takes_the_rows_of_the_files_that_it_deletes(small: SmallTable) -> None:
    for v in range(5):
        small.write("insert_overwrite", batch(range(6), v))
    before = stored_filters(opened(small)).keys()
    small.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    after = stored_filters(opened(small)).keys()
    assert after < before
    assert after == base_files(small).keys()


def test_a_file_without_a_filter_ends_them_and_the_report_says_why(small: SmallTable) -> None:
    small.write("insert", batch(range(6), 0))
    report = small.write("insert_overwrite", batch([1], 1), options=NO_FILTERS)
    kept = opened(small).config.metadata_partitions
    assert kept == (COLUMN_STATS, FILES, PARTITION_STATS)
    assert any(BLOOM_FILTERS in note and "no bloom filter" in note for note in report.notes)
    left = {info.path for info in small.store().list(f".hoodie/metadata/{BLOOM_FILTERS}")}
    assert left == set()
    small.write("upsert", batch([2], 2))
    assert stale_listing(opened(small)) == []


def test_a_log_needs_none() -> None:
    small = with_filters(TableType.MERGE_ON_READ)
    small.write("insert", batch(range(6), 0))
    before = stored_filters(opened(small))
    small.write("upsert", batch([1], 1), options=NO_FILTERS)
    assert stored_filters(opened(small)) == before
    assert_right(small)


def test_more_than_is_read_of_one_object_ends_them(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_METADATA_BYTES_MAX", "64Ki")
    large = {
        "hoodie.index.bloom.num_entries": "8192",
        "hoodie.bloom.index.filter.dynamic.max.entries": "8192",
    }
    keys = [f"{number:08}" for number in range(12288)]
    rows = pa.table({"id": keys, "part": ["p0", "p1", "p2"] * 4096, "v": list(range(len(keys)))})
    small.write("insert", rows.slice(0, 5), options=large)
    assert BLOOM_FILTERS in opened(small).config.metadata_partitions
    report = small.write("bulk_insert", rows, options=large)
    assert BLOOM_FILTERS not in opened(small).config.metadata_partitions
    assert any("more than is read of one object" in note for note in report.notes)


@pytest.mark.parametrize("wrong", ["missing", "text", "type"])
def test_check_finds_a_row_that_is_not_the_files(small: SmallTable, wrong: str) -> None:
    small.write("insert", batch([0], 0))
    (key, row), *others = stored_filters(opened(small)).items()
    assert not others
    assert [found.check for found in check_table(opened(small))] == []
    if wrong == "missing":
        record = MetadataRecord(key, None)
    else:
        text = base64.b64encode(b"0" + base64.b64decode(row.filter.text)[1:])
        of_text = StoredFilter(row.filter.type_code, text)
        other = of_text if wrong == "text" else StoredFilter("SIMPLE", row.filter.text)
        record = FilterRow(other, row.instant).stored(key)
    table = opened(small)
    time, at = table.instants.next_time(), table.instants.next_time()
    requested = table.timelines.create_requested(time, Action.COMMIT)
    completed = requested.in_state(State.COMPLETED, at)
    said: dict[MetadataPartition, list[MetadataRecord]] = {BLOOM_FILTERS_PARTITION: [record]}
    MetadataWriter(table).commit(completed, said, table.timeline())
    found = [str(item) for item in check_table(opened(small)) if item.check == "bloom filters"]
    assert len(found) == 1
    assert ("has no row" if wrong == "missing" else "is not that of its footer") in found[0]


def test_a_compaction_keeps_the_newest_row_of_a_key() -> None:
    def record(text: bytes) -> MetadataRecord:
        return FilterRow(StoredFilter("DYNAMIC_V0", text), T).stored("k")

    deleted = MetadataRecord("k", None)
    merged = BLOOM_FILTERS_PARTITION.merged
    assert merged([record(b"a"), record(b"b")]) == [record(b"b")]
    assert merged([record(b"a"), deleted]) == []
    assert merged([record(b"a"), deleted, record(b"b")]) == [record(b"b")]


def test_a_row_has_the_bytes_and_the_key_of_hudis() -> None:
    row = FilterRow(StoredFilter("DYNAMIC_V0", b"/////wAA"), T)
    name = "6ad83949-cc09-4190-9296-5e48fb487531-0_0-31-41_20261125223126385.parquet"
    file = BaseFile.parse("p0", name)
    assert file is not None
    record = row.stored(key_of(file))
    assert record.key == "Z+KNMU8CLlo=5xMlwZIeb9BqFu6xfT2ktQ=="
    assert record.content is not None
    [stored] = encode_records(record_schema_json(), [{"key": "", **record.content}])
    text = b"\x14DYNAMIC_V0" + b"\x22" + str(T).encode() + b"\x10/////wAA"
    assert stored == bytes.fromhex("0000000000 00 08 00 02") + text + bytes(4)


def test_what_a_dead_process_was_writing_in_any_partition_goes(tmp_path: Path) -> None:
    small = SmallTable.create(StoreLocation.of(tmp_path / "t"), table_version=9)
    begin_statistics(small.lake().hoodie_table, ["v"])
    metadata = tmp_path / "t" / ".hoodie" / "metadata"
    for name in small.lake().hoodie_table.config.metadata_partitions:
        (metadata / name / ".tmp-1").write_bytes(b"half")
    assert len([*metadata.rglob(".tmp-*")]) == 4
    small.lake().recover()
    assert not [*metadata.rglob(".tmp-*")]


@pytest.mark.parametrize("table_type", list(TableType), ids=str)
def test_they_are_made_of_a_table_that_has_none(table_type: TableType) -> None:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_type=table_type, table_version=9)
    small.write("insert", batch(range(6), 1))
    small.write("upsert", batch([1, 7], 2))
    made = small.lake().indexes().create(BLOOM_FILTERS)
    assert made.records == len(base_files(small))
    expected = {key: in_footer(small, file) for key, file in base_files(small).items()}
    assert {key: row.filter for key, row in stored_filters(opened(small)).items()} == expected
    small.write("upsert", batch([2, 9], 3))
    assert stored_filters(opened(small)).keys() == base_files(small).keys()
    assert stale_listing(opened(small)) == []
    small.lake().indexes().drop(BLOOM_FILTERS)
    small.lake().write(batch([2], 4), "insert_overwrite", options=NO_FILTERS)
    with pytest.raises(UnsupportedTableError, match="has no bloom filter of its keys"):
        small.lake().indexes().create(BLOOM_FILTERS)
    small.forget()
