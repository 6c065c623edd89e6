"""What a completed instant adds to `files`, the partition of the metadata table that lists files.

A commit adds the files that it wrote, with the sizes they have now; what it replaced stays until it
is cleaned. A clean deletes files, and partitions that it emptied. A rollback adds nothing: what it
takes back is taken out of the metadata table instead.

Pure. Source: Hudi's HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.files_partition import key_of
from tideline.hudi.metadata_table.record import ALL_PARTITIONS, DELETED, FilesRecord, FileState
from tideline.hudi.table.file_group import split_path
from tideline.hudi.timeline.commit_metadata import CommitMetadata


def records_of_commit(metadata: CommitMetadata) -> tuple[FilesRecord, ...]:
    """The records of a commit, a compaction, a clustering or a replacement.

    Raises CorruptTableError for a file of unknown size.
    """
    names = sorted(metadata.partition_to_write_stats)
    records = [FilesRecord(ALL_PARTITIONS, {key_of(name): FileState(0) for name in names})]
    for name in names:
        sizes: dict[str, int] = {}
        for stat in metadata.partition_to_write_stats[name]:
            written = {stat.path: stat.file_size_in_bytes} if stat.path else {}
            for path, size_bytes in {**written, **(stat.cdc_stats or {})}.items():
                if size_bytes <= 0:
                    raise CorruptTableError("a commit wrote an empty file", path=path)
                file_name = split_path(path)[1]
                sizes[file_name] = max(size_bytes, sizes.get(file_name, 0))
        records.append(
            FilesRecord(key_of(name), {file: FileState(size) for file, size in sizes.items()})
        )
    return tuple(records)


def records_of_clean(deleted: Iterable[str], emptied: Iterable[str]) -> tuple[FilesRecord, ...]:
    """The records of a clean that deleted these paths, and emptied these partitions."""
    by_partition: dict[str, dict[str, FileState]] = {}
    for path in sorted(deleted):
        partition, name = split_path(path)
        by_partition.setdefault(partition, {})[name] = DELETED
    records = [FilesRecord(key_of(name), files) for name, files in by_partition.items()]
    gone = {key_of(name): DELETED for name in emptied}
    return (*records, FilesRecord(ALL_PARTITIONS, gone)) if gone else tuple(records)
