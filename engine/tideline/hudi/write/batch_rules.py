"""What a batch of incoming rows must have before it is written, the same for every engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from tideline.errors import (
    ConfigError,
    CorruptTableError,
    InvalidDataError,
    UnsupportedTableError,
)
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY, is_meta_column
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.write_operation import WriteOperation
from tideline.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

ARRIVAL = "_tideline_sequence"
"""Breaks ties between equal ordering values: later wins. Callers may supply it."""
DELETED_FLAG = "_hoodie_is_deleted"
"""Marks rows that delete. Stored only in a table that has it as a column, which is false in every
row; adding it to a table would make every later batch lack a column, for us and for Hudi."""
UNREADABLE_TIME = "a partition value that cannot be read as a time"
"""What a row without a partition path has."""
_META_PREFIX = "_hoodie_"


def refuse_reserved(names: Iterable[str]) -> None:
    """Raise InvalidDataError for a column that is named like Hudi's own and is none of them. Those
    are left out, for each write fills them itself: rows that were read from a table have them."""
    for name in names:
        is_like = name.lower().startswith(_META_PREFIX) and name.lower() != DELETED_FLAG
        if is_like and not is_meta_column(name):
            message = (
                f"column {name!r}: names that begin with {_META_PREFIX} are Hudi's own; rename it, "
                "or leave it out"
            )
            raise InvalidDataError(message, value=name)


def needed_ordering(config: TableConfig, operation: WriteOperation) -> tuple[str, ...]:
    """The ordering columns in which every row needs a value."""
    if operation is WriteOperation.DELETE:
        return ()
    # A value that decides nothing may be filled up like any other.
    decides = config.partial_updates is None or config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    return config.ordering_fields if decides else ()


def unique_columns(operation: WriteOperation, config: WriteConfig) -> tuple[str, ...]:
    """What is to be unique in the batch before it is written, if no bucket can see to it."""
    if config.index.type.is_global and (operation.tags_keys or config.combine_before_insert):
        return (RECORD_KEY,)
    is_bulk = operation is WriteOperation.BULK_INSERT and not config.index.type.places_by_hash
    return (RECORD_KEY, PARTITION_PATH) if is_bulk and config.combine_before_insert else ()


def check_columns(
    names: Collection[str], table: TableConfig, operation: WriteOperation, config: WriteConfig
) -> None:
    """Raise ConfigError for a column that the operation needs and the input lacks, InvalidDataError
    for one that no table has."""
    if operation is not WriteOperation.DELETE:
        refuse_reserved(names)
    _require(names, table.record_key_fields, "record key field")
    _require(names, table.partition_fields, "partition field")
    if operation is not WriteOperation.DELETE:
        _require(names, table.ordering_fields, "ordering field")
    columns = updated_columns(operation, config)
    if columns is None:
        return
    _require(names, columns, "column to update")
    if config.index.updates_partition_path:
        raise ConfigError(
            "a partial update cannot move rows to another partition; switch "
            f"{config.index.type.traits.moves_setting} off",
            value=",".join(columns),
        )


def require_typed(untyped: Iterable[str], keys: KeyGenerator, ordering: Iterable[str]) -> None:
    """Raise InvalidDataError for a column without a type that rows are found or ordered by."""
    left_out = {name.lower() for name in untyped}
    for name in (*keys.record_fields, *(part.field for part in keys.partition_fields), *ordering):
        steps = name.lower().split(".")
        if any(".".join(steps[: end + 1]) in left_out for end in range(len(steps))):
            raise InvalidDataError(f"column {name} has no value in any row", value=name)


def check_computed_keys(schema: pa.Schema, config: TableConfig, keys: KeyGenerator) -> None:
    """Raise UnsupportedTableError where the keys of stored rows are not computed as they were made:
    timestamps as text in a table without meta columns."""
    if config.populate_meta_fields or not keys.timestamps_as_text:
        return
    for name in keys.record_fields:
        kind: Iterable[pa.Field] | pa.DataType = schema
        for step in name.lower().split("."):
            kind = {item.name.lower(): item.type for item in kind}.get(step, ())
        if str(kind).startswith("timestamp"):
            raise UnsupportedTableError(
                "record keys with timestamps as text in a table without meta columns are not "
                "supported; rewrite the table with hoodie.populate.meta.fields=true",
                value=name,
            )


def require_stored_keys(missing: int) -> None:
    """Raise CorruptTableError where rows are stored without a record key or a partition path."""
    if missing:
        raise CorruptTableError(
            f"{counted(missing, 'stored row')} without a record key or a partition path; nothing "
            "was deleted"
        )


def named_partitions(paths: Collection[str | None], table: str) -> tuple[str, ...]:
    """The partitions that rows name, sorted. Raises InvalidDataError for a row without a path."""
    if None in paths:
        raise InvalidDataError(f"a row has {UNREADABLE_TIME}; nothing was deleted", table=table)
    return tuple(sorted(path for path in paths if path is not None))


def new_spellings(names: Collection[str], table: TableConfig) -> dict[str, str]:
    """Columns that differ from those that the table's properties name by case only.

    A table without a schema takes the properties' spelling.
    """
    fields = (*table.record_key_fields, *table.partition_fields, *table.ordering_fields)
    wanted = {name.split(".")[0] for name in fields}
    present = {name.lower(): name for name in names}
    missing = sorted(wanted - set(names))
    return {present[name.lower()]: name for name in missing if name.lower() in present}


def updated_columns(operation: WriteOperation, config: WriteConfig) -> tuple[str, ...] | None:
    """The columns that an update may change; None where it replaces whole rows."""
    return config.partial_update_columns if operation is WriteOperation.UPSERT else None


def missing_columns(operation: WriteOperation, config: WriteConfig) -> MissingColumns:
    """What becomes of columns that the input lacks."""
    is_partial = updated_columns(operation, config) is not None
    return MissingColumns.NULL if is_partial else config.missing_columns


def _require(names: Iterable[str], wanted: tuple[str, ...], role: str) -> None:
    present = {name.lower() for name in names}
    for name in wanted:
        if name.split(".")[0].lower() not in present:
            raise ConfigError(f"{role} {name!r} is not a column of the input", value=name)
