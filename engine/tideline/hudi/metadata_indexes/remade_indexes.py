"""Indexes of a metadata table that is made again, as a restore, a change of the version or a repair
do: those that were there before are made of what is there now.

All of it happens under the lock of the table. Died in between, and where one cannot be made any
more, an index is gone: no list names it, and `tideline index create` makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec

from tideline.errors import CorruptTableError
from tideline.hudi.commit.compared_keys import RememberedKeys
from tideline.hudi.file_group.stored_contents import StoredContents
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.metadata_table.index_making import (
    NOT_MADE,
    initial_records,
    make_partition,
    require_makeable,
)
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS, indexable_columns
from tideline.hudi.metadata_table.partition import MetadataPartition, WholeTable
from tideline.hudi.metadata_table.record_index import has_partitioned_record_index
from tideline.hudi.metadata_table.registry import kept_partitions
from tideline.hudi.metadata_table.secondary_index import (
    SecondaryIndexPartition,
    new_secondary_index,
)
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, RECORD_INDEX
from tideline.storage.lock import Guard, unguarded

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexesThere:
    """The indexes that a table has, and the columns that statistics are made of, None without."""

    partitions: tuple[MetadataPartition, ...] = ()
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, table: HoodieTable) -> IndexesThere:
        """Those that commits keep; none where their definitions cannot be read."""
        if not table.properties.reload().keeps_metadata_table:
            return cls()
        try:
            found = kept_partitions(table).values()
            defined = read_definitions(table).get(COLUMN_STATS)
        except CorruptTableError as error:
            _log.warning("indexes are not made again, for they are not understood: %s", error)
            return cls()
        fields = defined.get("sourceFields") if isinstance(defined, Mapping) else None
        columns = [name for name in fields or () if name not in META_COLUMNS]
        ordered = sorted(found, key=lambda item: (len(needed_by(item.name)), item.name))
        # What is made is one of the whole table.
        is_other = has_partitioned_record_index(table)
        others = (
            item
            for item in ordered
            if not item.is_in_every_table and not (is_other and item.name == RECORD_INDEX)
        )
        return cls(tuple(others), tuple(columns) or None)

    def make_again(self, table: HoodieTable, guard: Guard = unguarded) -> None:
        """Make them, as far as that is possible, in a metadata table that has none of them."""
        if self.partitions and find_spec("pyarrow") is None:
            _log.warning("indexes are not made again: that needs Arrow")
            return
        for before in self.partitions:
            partition = _as_made_now(table, before)
            whole = WholeTable(
                table,
                table.timeline(),
                StoredContents(table.store),
                compare_keys=RememberedKeys(table),
            )
            try:
                table.properties.reload()
                whole = replace(whole, columns=self._columns_now(whole))
                require_makeable(partition, whole)
                make_partition(partition, initial_records(partition, whole), whole, guard)
            except NOT_MADE as error:
                _log.warning("%s is not made again: %s", partition.name, error)

    def _columns_now(self, whole: WholeTable) -> tuple[str, ...] | None:
        """Those that are there now, in the version that the table has now."""
        if self.columns is None or whole.schema_json is None:
            return self.columns
        there = indexable_columns(whole.table, whole.schema_json)
        return tuple(name for name in self.columns if name in there) or self.columns


def _as_made_now(table: HoodieTable, before: MetadataPartition) -> MetadataPartition:
    """The partition in the version that the table's own version has."""
    if isinstance(before, SecondaryIndexPartition) and before.column is not None:
        return new_secondary_index(table, before.name, (before.column,))
    return before
