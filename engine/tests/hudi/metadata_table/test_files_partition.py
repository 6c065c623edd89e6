"""`files` of a metadata table: how records merge, and that Hudi's say what a listing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.errors import CorruptTableError, TableNotFoundError, UnsupportedTableError
from tideline.formats.log_block import BlockKind
from tideline.hudi.metadata_table.files_partition import (
    ALL_PARTITIONS,
    DELETED,
    FILES_PARTITION,
    FilesRecord,
    FileState,
    ListedFiles,
)
from tideline.hudi.metadata_table.partition import TableChange, group_number
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import (
    MetadataRecord,
    decode_record_block,
    decode_record_hfile,
    encode_record_hfile,
    record_schema_json,
)
from tideline.hudi.open_table import open_table
from tideline.hudi.table.table_config import FILES
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import fixture_table, require_fixtures, tables_of_versions
from tideline.testing.small_table import SmallTable

A, B = "a_0-0-0_20260101000000000.parquet", "b_0-0-0_20260101000000001.parquet"


def files(key: str, **states: FileState) -> FilesRecord:
    return FilesRecord(key, states)


def change(
    written: CommitMetadata | None = None,
    deleted: tuple[str, ...] = (),
    emptied: tuple[str, ...] = (),
) -> TableChange:
    """What a commit, or a clean, is about to change of a table without any."""
    table = open_table(SmallTable.in_memory().location)
    completed = Instant(InstantTime("20260101000000000"), Action.COMMIT, State.COMPLETED)
    return TableChange(table, completed, table.timeline(), written, deleted, emptied)


def changed(change: TableChange) -> tuple[FilesRecord, ...]:
    return tuple(map(FilesRecord.parse, FILES_PARTITION.changes(change)))


def test_records_merge_in_their_order() -> None:
    merged = ListedFiles.of(
        [
            files(ALL_PARTITIONS, p0=FileState(0), p1=FileState(0)),
            files("p0", a=FileState(10), b=FileState(5)),
            files("p1", c=FileState(7)),
            files("p0", a=FileState(8), b=DELETED, d=DELETED),
            files(ALL_PARTITIONS, p1=DELETED, p2=FileState(0)),
        ]
    )
    assert merged.partitions == ("p0", "p2")
    # Files only grow, so the larger size counts; a tombstone takes what it finds with it.
    assert merged.files("p0") == (("a", 10),)
    assert merged.states["p0"]["d"] == DELETED
    assert merged.listing() == {"p0": (("a", 10),), "p2": ()}
    assert merged.listing(["p1", "nowhere"]) == {"nowhere": (), "p1": (("c", 7),)}


def test_a_deleted_key_begins_anew() -> None:
    merged = ListedFiles.of(
        [files("p", a=FileState(1)), FilesRecord("p", None), files("p", b=FileState(2))]
    )
    assert merged.files("p") == (("b", 2),)


def test_what_is_compacted_says_the_same_without_what_is_gone() -> None:
    merged = ListedFiles.of(
        [
            files(ALL_PARTITIONS, **{".": FileState(0)}),
            files(".", a=FileState(3), gone=DELETED),
            files("left", x=DELETED),
        ]
    )
    again = tuple(merged.records())
    assert again == (
        FilesRecord(ALL_PARTITIONS, {".": FileState(0)}),
        FilesRecord(".", {"a": FileState(3)}),
    )
    assert ListedFiles.of(again).listing() == merged.listing() == {"": (("a", 3),)}


def test_hfiles_of_records_read_back() -> None:
    records = (
        FilesRecord(ALL_PARTITIONS, {"ä": FileState(0), "p": DELETED}),
        FilesRecord("p", {}),
        FilesRecord("ä", {A: FileState(2**40), B: DELETED}),
    )
    body = encode_record_hfile(record.stored() for record in records)
    assert tuple(map(FilesRecord.parse, decode_record_hfile(body))) == records
    block = decode_record_block(BlockKind.HFILE_DATA, "", body)
    assert tuple(map(FilesRecord.parse, block)) == records
    with pytest.raises(CorruptTableError, match="x_hfile"):
        decode_record_hfile(body[:-1], path="x_hfile")
    with pytest.raises(CorruptTableError, match="another kind"):
        decode_record_block(BlockKind.PARQUET_DATA, record_schema_json(), b"")


def test_a_commit_names_its_files_with_the_sizes_they_have_now() -> None:
    stats = (
        WriteStat(path=f"p/{A}", partition_path="p", file_size_in_bytes=10),
        WriteStat(path=f"p/{A}", partition_path="p", file_size_in_bytes=12),
        WriteStat(path=B, partition_path="", file_size_in_bytes=3, cdc_stats={".b.log.1.cdc": 4}),
        WriteStat(path=None, partition_path="q"),
    )
    metadata = CommitMetadata.of_stats(stats, operation_type="UPSERT", extra_metadata={})
    assert changed(change(written=metadata)) == (
        FilesRecord(ALL_PARTITIONS, dict.fromkeys((".", "p", "q"), FileState(0))),
        FilesRecord(".", {B: FileState(3), ".b.log.1.cdc": FileState(4)}),
        FilesRecord("p", {A: FileState(12)}),
        FilesRecord("q", {}),
    )
    empty = CommitMetadata.of_stats(
        [WriteStat(path=f"p/{A}", partition_path="p")], operation_type="UPSERT", extra_metadata={}
    )
    with pytest.raises(CorruptTableError, match="empty file"):
        changed(change(written=empty))


def test_a_clean_deletes_files_and_partitions() -> None:
    assert changed(change(deleted=(f"p/{A}", B), emptied=("p",))) == (
        FilesRecord(".", {B: DELETED}),
        FilesRecord("p", {A: DELETED}),
        FilesRecord(ALL_PARTITIONS, {"p": DELETED}),
    )
    assert changed(change()) == ()


def test_a_record_of_another_partition_is_refused_with_its_path() -> None:
    statistics = {"type": 3, "filesystemMetadata": None}
    with pytest.raises(CorruptTableError, match="another kind") as caught:
        FilesRecord.parse(MetadataRecord("p", statistics, "files/x"))
    assert caught.value.path == "files/x"
    with pytest.raises(CorruptTableError, match="not understood"):
        FilesRecord.parse(MetadataRecord("p", {"type": 2, "filesystemMetadata": {"a": {}}}))


def test_keys_belong_to_the_file_groups_that_hudi_gives_them() -> None:
    # Where Hudi 1.2 puts a secondary index of ten groups: by the whole key, and by its value.
    assert group_number("n1$k1", 10) == 1
    assert group_number("n1$", 10) == 5
    assert group_number("k1", 1) == 0


@pytest.mark.fixtures
@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_metadata_tables_of_hudi_list_what_is_there(version: str) -> None:
    require_fixtures()
    met = 0
    for path in tables_of_versions(version):
        folder = Path(fixture_table(path))
        try:
            table = open_table(StoreLocation.of(folder))
            listed = FILES_PARTITION.look_up(
                MetadataTable(table.store, SystemClock()).read(FILES_PARTITION)
            ).listing()
        except (TableNotFoundError, UnsupportedTableError):
            continue
        assert FILES in table.config.metadata_partitions
        timeline = table.timeline()
        assert table.files.view_of(listed, timeline) == table.files.view_of(
            table.files.listing(), timeline
        ), path
        assert table.files.read_view(timeline) == table.files.view_of(listed, timeline)
        met += 1
    assert met >= 1
