"""The partition `bloom_filters`: the bloom filter of the record keys of every base file.

A row is the filter that the footer of a base file has, as text. Hudi's writers with a bloom index
and `hoodie.bloom.index.use.metadata` look keys up in it: a key that a filter leaves out is stored a
second time, and where a file has no row the write fails. So every base file gets its row with the
commit that adds it, or the partition is dropped. That is so where a footer has no filter.

Filters are read from the footers of the new files, several at a time. What a commit replaced keeps
its rows until a clean deletes the files. Logs have none.

Source: Hudi's HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords (1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import SETTING, read_limits
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.stored_filter import StoredFilter, read_stored_filter
from tideline.hudi.metadata_table.hash_id import file_id_hash, partition_id
from tideline.hudi.metadata_table.optional_partition import OptionalPartition
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import PARQUET, BaseFile, split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import BLOOM_FILTERS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.wording import counted, size_text

_FILTER_RECORD = 4
_FIELD = "BloomFilterMetadata"
_THREADS = 16
_UNREADABLE = (CorruptTableError, UnsupportedTableError, ObjectNotFoundError)


@dataclass(frozen=True, slots=True)
class FilterRow:
    """The filter of one base file, written by the commit of an instant."""

    filter: StoredFilter
    instant: InstantTime

    @classmethod
    def parse(cls, record: MetadataRecord) -> FilterRow | None:
        """None where the row is deleted. Raises CorruptTableError for a record of another form."""
        content = record.content
        if content is None:
            return None
        with faults_named("records of a metadata table are not understood", path=record.path):
            said = content[_FIELD]
            if said["isDeleted"]:
                return None
            found = StoredFilter(said["type"], said["bloomFilter"])
            return cls(found, InstantTime(said["timestamp"]))

    def stored(self, key: str) -> MetadataRecord:
        """As it is written under a key."""
        said = {
            "type": self.filter.type_code,
            "timestamp": str(self.instant),
            "bloomFilter": self.filter.text,
            "isDeleted": False,
        }
        content = {"type": _FILTER_RECORD, "filesystemMetadata": None, _FIELD: said}
        return MetadataRecord(key, content)


class BloomFiltersPartition(OptionalPartition):
    """`bloom_filters`."""

    name = BLOOM_FILTERS
    file_id_prefix = "bloom-filters"
    groups_made = 4
    may_lack_files = True

    def initial(self, whole: WholeTable) -> list[MetadataRecord] | CannotFollow:
        """The filters of all base files, old slices among them."""
        table, timeline = whole.table, whole.timeline
        newest = timeline.completed().last()
        view = table.files.view(timeline)
        files = [
            file
            for partition in view.partitions
            for group in view.all_file_groups(partition)
            for file in group.base_files
        ]
        found = _filters_of(table, files)
        if isinstance(found, CannotFollow) or newest is None:
            return found if isinstance(found, CannotFollow) else []
        return [FilterRow(each, newest.time).stored(key_of(file)) for file, each in found.items()]

    def changes(
        self,
        change: TableChange,
        stored: StoredRecords | None = None,  # noqa: ARG002 -- no row depends on others
    ) -> list[MetadataRecord] | CannotFollow:
        found = _filters_of_new_files(change)
        if isinstance(found, CannotFollow):
            return found
        gone = [MetadataRecord(key_of(file), None) for file in _base_files(change.deleted)]
        time = change.completed.time
        return gone + [FilterRow(each, time).stored(key_of(file)) for file, each in found.items()]

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep:  # noqa: ARG002
        mean_bytes = sizes.index_bytes // max(1, sizes.base_files)
        return Upkeep(
            "the filter in the footer of each new base file",
            f"that filter once more: {size_text(mean_bytes)} are stored for each base file now",
        )


BLOOM_FILTERS_PARTITION = BloomFiltersPartition()


def key_of(file: BaseFile) -> str:
    """The key of a file's row."""
    return partition_id(file.partition) + file_id_hash(file.name)


def filter_of(table: HoodieTable, file: BaseFile) -> StoredFilter | None:
    """The filter in the footer of a base file, None where it has none.

    Raises CorruptTableError and UnsupportedTableError where the footer cannot be read,
    ObjectNotFoundError where the file is gone.
    """

    def read_range(offset: int, length: int) -> bytes:
        return table.store.get_range(file.path, offset=offset, length=length)

    if file.extension != PARQUET:
        return None
    return read_stored_filter(read_range, file.size_bytes, path=file.path)


def _base_files(paths: Iterable[str]) -> Iterator[BaseFile]:
    found = (BaseFile.parse(*split_path(path)) for path in paths)
    return (file for file in found if file is not None)


def _filters_of_new_files(change: TableChange) -> dict[BaseFile, StoredFilter] | CannotFollow:
    """The filters of the base files that a change adds, or why rows end with it."""
    stats = change.written.write_stats if change.written is not None else ()
    named = (
        BaseFile.parse(*split_path(stat.path), stat.file_size_in_bytes)
        for stat in stats
        if stat.path
    )
    return _filters_of(change.table, [file for file in named if file is not None])


def _filters_of(
    table: HoodieTable, files: Sequence[BaseFile]
) -> dict[BaseFile, StoredFilter] | CannotFollow:
    """The filters of files, or why they are not to be had of all."""
    found: dict[BaseFile, StoredFilter] = {}
    room_bytes = read_limits().object_bytes_max
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            filters = pool.map(lambda file: filter_of(table, file), files)
            for file, each in zip(files, filters, strict=True):
                if each is None:
                    return CannotFollow(f"{file.path} has no bloom filter of its keys")
                room_bytes -= len(each.text)
                if room_bytes < 0:
                    return CannotFollow(
                        f"the bloom filters of {counted(len(files), 'file')} are more than is read "
                        f"of one object ({SETTING})"
                    )
                found[file] = each
        except _UNREADABLE as error:
            return CannotFollow(f"the bloom filter of a file cannot be read: {error}")
        finally:
            pool.shutdown(cancel_futures=True)
    return found
