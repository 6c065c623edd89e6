"""A new partition is one class and one line: one that is registered is made, kept at every commit,
compacted, checked, and dropped again with nothing else changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tideline.hudi.metadata_table import registry
from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.metadata_table.files_partition import FilesRecord, FileState
from tideline.hudi.metadata_table.partition import (
    Discrepancy,
    SeenTable,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
    group_number,
)
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import FILES, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.testing.small_table import SmallTable, batch

NAME = "file_sizes"


class FileSizes:
    """The size of every file that is live, by its name, in three file groups."""

    name = NAME
    file_id_prefix = "file-sizes"
    is_in_every_table = True
    may_be_empty = False
    may_lack_files = False

    def groups_for(self, records: int) -> int:  # noqa: ARG002
        return 3

    def initial(self, whole: WholeTable) -> list[MetadataRecord]:
        there = live_files(whole.table, whole.timeline)
        return [size_of(name, size) for name, size in there.items()]

    def changes(
        self,
        change: TableChange,
        stored: StoredRecords | None,  # noqa: ARG002
    ) -> list[MetadataRecord]:
        stats = change.written.write_stats if change.written is not None else ()
        gone = [MetadataRecord(split_path(path)[1], None) for path in change.deleted]
        written = {split_path(stat.path)[1]: stat for stat in stats if stat.path}
        return gone + [size_of(name, file.file_size_in_bytes) for name, file in written.items()]

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep:  # noqa: ARG002
        return Upkeep("nothing", "the size of each new file")

    def look_up(self, records: Iterable[MetadataRecord]) -> dict[str, int]:
        found: dict[str, int] = {}
        for record in map(FilesRecord.parse, records):
            if record.states is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.states[record.key].size_bytes
        return found

    def merged(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        return [size_of(name, size) for name, size in self.look_up(records).items()]

    def hashed(self, key: str) -> str:
        return key

    def replacing(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        return list({record.key: record for record in records}.values())

    def verify(self, records: Iterable[MetadataRecord], seen: SeenTable) -> Iterator[Discrepancy]:
        found = self.look_up(records)
        for partition in seen.view.partitions:
            for group in seen.view.all_file_groups(partition):
                for file in (file for file_slice in group.slices for file in file_slice.files):
                    if found.get(file.name) != file.size_bytes:
                        yield Discrepancy("has another size", file.path, file.instant)


PARTITION = FileSizes()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallTable]:
    monkeypatch.setattr(registry, "PARTITIONS", (*registry.PARTITIONS, PARTITION))
    table = SmallTable.in_memory(
        table_version=9,
        table_type=TableType.COPY_ON_WRITE,
        properties={"hoodie.metadata.enable": "true"},
    )
    table.write("insert", batch(range(6), 1))
    yield table
    table.forget()


def size_of(name: str, size_bytes: int) -> MetadataRecord:
    return FilesRecord(name, {name: FileState(size_bytes)}).stored()


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def live_files(table: HoodieTable, timeline: ActiveTimeline) -> dict[str, int]:
    view = table.files.view_of(table.files.listing(), timeline)
    groups = [group for partition in view.partitions for group in view.all_file_groups(partition)]
    files = [file for group in groups for file_slice in group.slices for file in file_slice.files]
    return {file.name: file.size_bytes for file in files}


def said(small: SmallTable) -> dict[str, int]:
    metadata = MetadataTable(small.store(), small.clock)
    return PARTITION.look_up(metadata.read(PARTITION))


def test_it_is_made_kept_and_compacted_in_all_its_file_groups(small: SmallTable) -> None:
    table = opened(small)
    assert table.config.metadata_partitions == (NAME, FILES)
    for number in range(2, 2 * COMMITS_PER_COMPACTION):
        small.write("upsert", batch([number % 6, number], number))
        assert said(small) == live_files(table, table.timeline())
    metadata = MetadataTable(small.store(), small.clock)
    timeline = metadata.timeline()
    assert timeline.of(Action.COMMIT).completed()
    stored = metadata.stored(PARTITION, timeline)
    slices = [metadata.read_slice(file[0], timeline) for file in stored.groups]
    keys = [[record.key for record in records] for records in slices]
    assert all(keys)
    assert all(
        {group_number(key, len(stored.groups)) for key in found} == {number}
        for number, found in enumerate(keys)
    )


def test_a_clean_deletes_its_records(small: SmallTable) -> None:
    for number in range(2, 6):
        small.write("upsert", batch(range(6), number))
    before = said(small)
    small.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    assert said(small) == live_files(opened(small), opened(small).timeline())
    assert len(said(small)) < len(before)


def test_check_compares_it_and_a_commit_without_it_drops_it(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [file for file in small.lake().check() if "metadata" in file.check]
    monkeypatch.setattr(PARTITION, "changes", lambda *_: [], raising=False)
    small.write("upsert", batch([0], 2))
    messages = [file.message for file in small.lake().check()]
    assert "has another size" in messages
    monkeypatch.setattr(registry, "PARTITIONS", registry.PARTITIONS[:-1])
    small.write("upsert", batch([1], 3))
    assert opened(small).config.metadata_partitions == (FILES,)
    assert not list(small.store().list(f".hoodie/metadata/{NAME}"))
