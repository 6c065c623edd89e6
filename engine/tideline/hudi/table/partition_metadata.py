"""Partition metadata: the file that makes a directory a partition of the table.

Hudi reads no rows at all from a directory without one, silently, so it is written before the
first data file. `.hoodie_partition_metadata` is a properties file; tables with
`hoodie.partition.metafile.use.base.format` have `.hoodie_partition_metadata.parquet` instead.
Every reader accepts both, so Tideline writes the first.
Source: Hudi's HoodiePartitionMetadata, FileSystemBackedTableMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tideline.hudi.table.file_group import join_path, split_path
from tideline.hudi.table.java_properties import parse_properties
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.object_store import ObjectStore

PARTITION_METADATA = ".hoodie_partition_metadata"
METADATA_DIRECTORY = ".hoodie"

METADATA_NAMES = frozenset(
    {PARTITION_METADATA, f"{PARTITION_METADATA}.parquet", f"{PARTITION_METADATA}.orc"}
)


def write_partition_metadata(store: ObjectStore, partition: str, instant: InstantTime) -> None:
    """Make `partition` one of the table's, first written at `instant`; fine if it is already.

    Dying before leaves nothing. Dying after leaves an empty partition, which readers accept.
    """
    store.put_if_absent(
        join_path(partition, PARTITION_METADATA), encode_partition_metadata(partition, instant)
    )


def encode_partition_metadata(partition: str, instant: InstantTime) -> bytes:
    """The body of the file; its date is that of the instant's digits."""
    moment = datetime.fromtimestamp(instant.epoch_ms() / 1000, tz=UTC)
    depth = partition.count("/") + 1 if partition else 0
    lines = (
        "#partition metadata",
        f"#{moment:%a %b %d %H:%M:%S} {moment.year:04d}",
        f"commitTime={instant}",
        f"partitionDepth={depth}",
    )
    return ("\n".join(lines) + "\n").encode("ascii")


def read_creation_time(store: ObjectStore, partition: str) -> InstantTime | None:
    """The instant that first wrote to a partition; None when its metadata does not say.

    Raises ObjectNotFoundError where the metadata is a parquet or orc file, CorruptTableError when
    it cannot be read.
    """
    properties = parse_properties(store.get(join_path(partition, PARTITION_METADATA)))
    text = properties.get("commitTime", "")
    return InstantTime(text) if is_instant_time(text) else None


def find_partitions(paths: Iterable[str]) -> tuple[str, ...]:
    """The partitions among the paths of a whole table, sorted.

    Like Hudi it looks at nothing below a partition, nor into any `.hoodie`.
    """
    found = set()
    for path in paths:
        partition, name = split_path(path)
        if name in METADATA_NAMES and not is_table_metadata(path):
            found.add(partition)
    return tuple(sorted(partition for partition in found if not _is_nested(partition, found)))


def is_table_metadata(path: str) -> bool:
    """Whether a path lies within the `.hoodie` of this table or of one nested in it."""
    return METADATA_DIRECTORY in path.split("/")


def _is_nested(partition: str, partitions: set[str]) -> bool:
    parent = partition
    while parent:
        parent = split_path(parent)[0]
        if parent in partitions:
            return True
    return False
