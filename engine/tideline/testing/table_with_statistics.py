"""A table in memory whose metadata table has statistics, as a writer of Hudi's would have made it.

Hudi begins them with empty file groups before a table's first write; from there on every commit
adds its rows. `rewritten_rows` puts others in their place, such as those of a file without
statistics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from tideline.hudi.metadata_table import file_ranges
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION, ColumnRow
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.index_definitions import DEFINED, INDEX_DEFINITIONS_PATH
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.read import file_pruning
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, METADATA_PARTITIONS
from tideline.storage.object_store import ObjectStore
from tideline.testing.stepping_store import Step, SteppingStore

_READS = ("get", "get_range", "get_versioned", "open_reader")
_CONTROL = ".hoodie/"


def keep_statistics(table: HoodieTable, columns: Iterable[str]) -> None:
    """Give a table without rows a metadata table with statistics of these columns of its own."""
    timeline = table.timeline()
    bootstrap_metadata_table(table, timeline)
    metadata = MetadataWriter(table).metadata.store
    for info in list(metadata.list()):
        if not info.path.endswith("hoodie.properties"):
            metadata.delete(info.path)
    initial: Mapping[MetadataPartition, Sequence[MetadataRecord]] = {
        COLUMN_STATS_PARTITION: (),
        FILES_PARTITION: FILES_PARTITION.initial(table, timeline),
        PARTITION_STATS_PARTITION: (),
    }
    MetadataWriter(table).first_commit(initial)
    definition = {
        "indexName": COLUMN_STATS,
        "indexType": COLUMN_STATS,
        "indexFunction": COLUMN_STATS,
        "sourceFields": [*META_COLUMNS, *columns],
        "indexOptions": {},
        "version": "V2" if table.layout.table_version >= 9 else "V1",
    }
    body = json.dumps({DEFINED: {COLUMN_STATS: definition}})
    table.store.put(INDEX_DEFINITIONS_PATH, body.encode())
    listed = {
        METADATA_PARTITIONS: ",".join(partition.name for partition in initial),
        "hoodie.table.index.defs.path": INDEX_DEFINITIONS_PATH,
    }
    table.properties.update(listed)


@contextmanager
def statistics_unused() -> Iterator[None]:
    """Within, reads leave no file out by statistics."""
    with mock.patch.object(file_pruning, "FILES_LOOKED_UP", 1 << 60):
        yield


@contextmanager
def rewritten_rows(rewritten: Callable[[ColumnRow], ColumnRow | None]) -> Iterator[None]:
    """Within, reads find these rows instead of those that are stored, None for no row."""

    def found(
        table: HoodieTable, columns: Collection[str], paths: Collection[str]
    ) -> file_ranges.FileRows:
        rows = file_ranges.ranges_of_files(table, columns, paths)
        return {
            path: {name: new for name, row in of_file.items() if (new := rewritten(row))}
            for path, of_file in rows.items()
        }

    with mock.patch.object(file_pruning, "ranges_of_files", found):
        yield


@dataclass
class OpenedFiles:
    """The data files that are opened through `store`, each counted once."""

    inner: ObjectStore
    paths: set[str] = field(default_factory=set)

    @property
    def store(self) -> SteppingStore:
        return SteppingStore(self.inner, self._seen)

    def _seen(self, step: Step) -> None:
        if step.method in _READS and not step.path.startswith(_CONTROL):
            self.paths.add(step.path)
