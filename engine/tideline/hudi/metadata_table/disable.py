"""Switching the metadata table off, as every writer must that does not keep it up to date.

A Hudi reader or writer with metadata on takes a stale metadata table without checking: commits
missing from it stay invisible, and its next write builds on outdated files. So before a commit
becomes visible, under the table lock (Hudi: maybeDeleteMetadataTable):

1. Clear `hoodie.table.metadata.partitions` and `...partitions.inflight`. From here on every reader
   lists files instead. Died before: nothing has changed and nothing of the commit is visible. A
   record index of the whole table says that keys are unique there. That is kept, as
   `tideline.index.type`, in the same update, or the next write would not know.
   Before that the definitions of indexes go that Hudi's queries believe without the list.
2. Delete `.hoodie/metadata`. Died before or halfway: what is left is ignored, since the property
   decides, and goes the next time; Hudi's next bootstrap replaces it as well.

The other order would leave a property without its table, which fails every Hudi write.
"""

from __future__ import annotations

from tideline.hudi.metadata_table.index_build import require_no_index_build
from tideline.hudi.metadata_table.index_definitions import drop_definitions
from tideline.hudi.metadata_table.record_index import has_global_record_index
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    INDEX_TYPE,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_TABLE_PATH,
)
from tideline.storage.lock import Guard, unguarded

_METADATA_TABLE = (METADATA_TABLE_PATH,)
_NOT_GLOBAL = ("", "SIMPLE", "BLOOM")


def disable_metadata_table(
    table: HoodieTable, guard: Guard = unguarded, *, is_current: bool = False
) -> bool:
    """Make sure no engine uses the metadata table any more; whether there was something to do.

    Call under the table lock, before the completed instant is published. Reads the properties
    again, unless they were under this very lock (`is_current`): another engine may have enabled it
    since the table was opened. Raises ConflictError while an index is built there.
    """
    properties = (table.config if is_current else table.properties.reload()).properties
    in_use = [
        key for key in (METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT) if properties.get(key)
    ]
    exists = next(iter(table.store.list(METADATA_TABLE_PATH)), None) is not None
    if in_use or exists:
        require_no_index_build(table, table.timeline())
    if in_use:
        drop_definitions(table, guard=guard)
        off = dict.fromkeys((METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT), "")
        table.properties.update(off | kept_index(table), guard)
    if exists:
        scope = table.files.delete_scope(
            "switching off the metadata table", control=_METADATA_TABLE
        )
        guard()
        scope.remove_below(METADATA_TABLE_PATH)
    return bool(in_use) or exists


def kept_index(table: HoodieTable) -> dict[str, str]:
    """The property that keeps what a record index says of the keys.

    A table that names a bucket index or a global one keeps that: a bucket is found in its partition
    regardless of other indexes, and a global index says the same.
    """
    declared = (table.config.index_type or "").upper()
    if declared not in _NOT_GLOBAL or not has_global_record_index(table):
        return {}
    return {INDEX_TYPE: "RECORD_INDEX"}
