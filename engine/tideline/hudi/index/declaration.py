"""Declaring the index of a table that exists, so that every writer and every check uses it.

1. Under the table lock, with the properties read again.
2. Not where the table shows that another index places or finds its rows.
3. In one update of the properties. A death before it leaves the table as it was, a death after it a
   declared one; both times declaring again ends in the same.

That keys are unique is a promise of later writers. `check --keys` finds out whether they are now.
"""

from __future__ import annotations

from tideline.errors import ConfigError
from tideline.hudi.index.bucket_recognition import recognise_buckets
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.uniqueness import declared_index, global_index
from tideline.hudi.metadata_table.record_index import has_global_record_index
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import INDEX_TYPE
from tideline.lock_timing import LockTiming


def undeclarable(table: HoodieTable, kind: IndexType) -> str | None:
    """Why this index cannot be declared of the table, going by the properties as they were read.

    Raises ConfigError for an index in the properties that does not exist, CorruptTableError for
    index definitions that cannot be read.
    """
    declared = declared_index(table.config)
    is_bucket = declared is not None and declared.places_by_hash
    if is_bucket or recognise_buckets(table, table.timeline()).layout is not None:
        return "the table has a bucket index, which places every row"
    if not kind.is_global and has_global_record_index(table):
        return (
            "the table has a record index, which Hudi cannot build again once a key is in two "
            "partitions; drop it with Hudi first"
        )
    return None


def require_declarable(table: HoodieTable, kind: IndexType) -> None:
    """Raise ConfigError where `undeclarable` says why not, or raises it itself."""
    reason = undeclarable(table, kind)
    if reason is not None:
        raise ConfigError(f"{kind} cannot be declared: {reason}", table=table.uri)


def keep_unique(table: HoodieTable, kind: IndexType, timing: LockTiming) -> bool:
    """Declare a global index where nothing says yet that keys are unique; whether it was done now.

    Nothing is done where there are no partitions, or where it cannot be declared. Takes the table
    lock only if there is something to do. Raises as `undeclarable`.
    """
    if not _lacks(table, kind):
        return False
    with table.lock(timing).acquire():
        table.properties.reload()
        if not _lacks(table, kind) or undeclarable(table, kind) is not None:
            return False
        table.properties.update({INDEX_TYPE: kind.value})
    return True


def _lacks(table: HoodieTable, kind: IndexType) -> bool:
    has_partitions = bool(table.config.partition_fields)
    return kind.is_global and has_partitions and global_index(table) is None
