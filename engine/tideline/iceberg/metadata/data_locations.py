"""Where new data and delete files of a table belong.

1. Below `write.data.path`, or one of its older names, or else `data` in the table's folder.
2. In folders of their partition.
3. With `write.object-storage.enabled` below twenty bits of a hash of their name, so that a store
   spreads them over its servers. A folder outside of the table's own may be for several tables:
   there the last two names of the table's location follow the hash. With
   `write.object-storage.partitioned-paths=false` there are no folders of partitions.

Readers never parse any of it. Source: Iceberg's `LocationProviders`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tideline.formats.murmur3 import murmur3
from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata

DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
"""The first that is given counts, the second only in the layout of object storage."""

_HASH_BITS, _FOLDER_BITS, _FOLDERS = 20, 4, 3


@dataclass(frozen=True, slots=True)
class DataLocations:
    """The layout of one table; picklable. `context` are the table's names in a folder that is not
    below its location, which in the layout of object storage may be several tables'."""

    folder: str
    is_spread: bool = False
    context: str = ""
    has_partitions: bool = True

    @classmethod
    def of(cls, metadata: TableMetadata) -> DataLocations:
        """As the table's properties are now."""
        properties = metadata.properties
        is_spread = properties.get("write.object-storage.enabled", "").lower() == "true"
        names = DATA_PATHS if is_spread else (DATA_PATHS[0], DATA_PATHS[2])
        chosen = next((properties[name] for name in names if properties.get(name)), None)
        folder = chosen.rstrip("/") if chosen else f"{metadata.location}/data"
        partitioned = properties.get("write.object-storage.partitioned-paths", "true").lower()
        return cls(
            folder,
            is_spread,
            "" if folder.startswith(metadata.location) else table_context(metadata.location),
            not is_spread or partitioned == "true",
        )

    def of_file(
        self, name: str, spec: PartitionSpec, partition: tuple[Any, ...], schema: Schema
    ) -> str:
        """The location of a new file of this name; `schema` knows the sources of the spec."""
        path = partition_path(spec, partition, schema) if self.has_partitions else ""
        below = f"{path}/{name}" if path else name
        if not self.is_spread:
            return f"{self.folder}/{below}"
        if self.context:
            return f"{self.folder}/{_spread(below)}/{self.context}/{below}"
        return f"{self.folder}/{_spread(below)}{'/' if self.has_partitions else '-'}{below}"


def table_context(location: str) -> str:
    """The last two names of a table's location."""
    return "/".join([part for part in location.split("/") if part][-2:])


def _spread(below: str) -> str:
    """The hash of a path in folders: `0101/1100/0011/10110010`."""
    bits = f"{murmur3(below.encode()) & 0xFFFFFFFF:032b}"[-_HASH_BITS:]
    cuts = [_FOLDER_BITS * number for number in range(_FOLDERS + 1)]
    folders = [bits[start : start + _FOLDER_BITS] for start in cuts[:-1]]
    return "/".join([*folders, bits[cuts[-1] :]])
