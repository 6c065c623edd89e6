"""Within what a write keeps a key from being stored twice, and whether the table needs more.

Source of the table's side: tideline.hudi.index.uniqueness.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.errors import ConflictError, CorruptTableError
from tideline.hudi.commit.conflict import UniqueKeys
from tideline.hudi.index.uniqueness import global_index, says_unique
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.write_operation import WriteOperation


def unique_keys(operation: WriteOperation, config: WriteConfig) -> UniqueKeys:
    """Within what the operation promises that no key is stored twice.

    A bucket index keeps the promise by comparing buckets. With a key that is unique in the whole
    table, overwriting some partitions can double one of another partition.
    """
    index = config.index.type
    inserts = operation is WriteOperation.INSERT and not config.allows_duplicate_inserts
    if index.places_by_hash:
        return UniqueKeys.NOWHERE
    if operation is WriteOperation.UPSERT or inserts:
        return UniqueKeys.TABLE if index.is_global else UniqueKeys.PARTITION
    if operation.replaces_file_groups and index.is_global:
        return UniqueKeys.TABLE
    return UniqueKeys.NOWHERE


def require_agreed_uniqueness(
    table: HoodieTable, operation: WriteOperation, config: WriteConfig
) -> None:
    """Raise ConflictError when keys became unique in the whole table since the write was planned.

    Hudi may have made a record index since, or another process may have declared a global index.
    Call under the table lock, before the commit completes; reads the properties again.
    """
    if unique_keys(operation, config) is not UniqueKeys.PARTITION:
        return
    table.properties.reload()
    if global_index(table) is not None:
        raise ConflictError(
            f"keys became unique in the whole table ({says_unique(table)}) while this write "
            f"looked for them in their partitions ({config.index.type}); write again",
            table=table.uri,
        )


def reported_uniqueness(
    table: TableConfig, operation: WriteOperation, config: WriteConfig
) -> UniqueKeys | None:
    """Within what the keys of an upsert are unique; None where there is nothing to report.

    In a table without partitions there is no difference, and other operations look no keys up.
    """
    if operation is not WriteOperation.UPSERT or not table.partition_fields:
        return None
    return UniqueKeys.TABLE if config.index.type.is_global else UniqueKeys.PARTITION


def undeclared_index(
    table: HoodieTable, operation: WriteOperation, config: WriteConfig
) -> tuple[str, ...]:
    """A note for an upsert by a global index that the table does not keep."""
    if reported_uniqueness(table.config, operation, config) is not UniqueKeys.TABLE:
        return ()
    if global_index(table) is not None:
        return ()
    return (
        f"keys were looked up in the whole table because this write names {config.index.type}; one "
        f"that does not would store a moved row twice. `tideline declare {table.uri} --index "
        f"{config.index.type}` keeps it",
    )


def stored_twice(key: str, partitions: Iterable[str], table: str) -> CorruptTableError:
    """What to raise for a key that a record index has once and several partitions have."""
    places = sorted(partitions)
    return CorruptTableError(
        f"key {key!r} is stored in {len(places)} partitions "
        f"({', '.join(map(repr, places))}), but keys are unique in the whole table "
        "by its record index; `tideline check --keys` names all such keys. Delete them "
        "with hoodie.index.type=GLOBAL_SIMPLE, which finds every row, and write one row of "
        "each again. If keys are unique in their partitions only, drop the record index "
        "with Hudi and declare it with `tideline declare --index SIMPLE`",
        table=table,
        value=key,
    )
