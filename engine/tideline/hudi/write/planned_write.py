"""What a write is to do: its operation and its settings, from the caller's and the table's."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError
from tideline.hudi.index.bucket_recognition import names_layout
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.write.config import InsertDuplicates, OverwriteMode, WriteConfig
from tideline.hudi.write.write_operation import WriteOperation

OPERATION = "hoodie.datasource.write.operation"
_FAILED_WRITES_POLICY = "hoodie.clean.failed.writes.policy"
_DUPLICATES = (
    "hoodie.datasource.insert.dup.policy",
    "hoodie.datasource.write.insert.drop.duplicates",
)
_OVERWRITE_MODE = "hoodie.datasource.overwrite.mode"


def table_write_config(table: TableConfig, given: Mapping[str, str]) -> WriteConfig:
    """The table's own settings with those of a write, by their first names, over them.

    Raises ConfigError when one would place rows by another index than a table with a bucket index
    was built with, for columns to update in a table with partial updates, and for one that cannot
    be read.
    """
    settings = own_settings(table)
    merged = WriteConfig.from_properties({**settings, **given})
    if table.index_type == "BUCKET" and merged.index != WriteConfig.from_properties(settings).index:
        raise ConfigError(
            "the table has a bucket index; its type, bucket count and hash fields are fixed",
            table=table.table_uri or None,
            value=merged.index.type,
        )
    if merged.partial_update_columns is not None and table.partial_updates is not None:
        raise ConfigError(
            "rows of this table are filled up from the rows they replace; leave "
            "tideline.write.partial.update.columns out, and give nulls for what is to stay",
            table=table.table_uri or None,
            value=",".join(merged.partial_update_columns),
        )
    return merged


def own_settings(table: TableConfig) -> dict[str, str]:
    """The table's own settings, with the index and the policy that its properties imply.

    Not a record index, which says that keys are unique but not where rows lie; see IndexChoice.
    """
    settings = {**table.merge_settings, **table.properties}
    if names_layout(table):
        settings["hoodie.index.type"] = table.index_type or ""
    if table.single_writer and not Settings(settings).is_set(_FAILED_WRITES_POLICY):
        settings[_FAILED_WRITES_POLICY] = "EAGER"
    return settings


def wanted_operation(
    named: str | WriteOperation | None, given: Mapping[str, str], config: WriteConfig
) -> WriteOperation:
    """The operation; upsert where none is given. `given` are the write's options by first names.

    Options that only some operations know are refused with others; stored in the table they wait
    for theirs. Raises ConfigError for these, for two names that disagree and for an unknown one.
    """
    option = given.get(OPERATION)
    operation = WriteOperation.parse(named or option or WriteOperation.UPSERT.value)
    if option is not None and WriteOperation.parse(option) is not operation:
        raise ConfigError(f"{OPERATION} contradicts the operation {operation}", value=option)
    _check_duplicates(operation, given, config)
    is_static = config.overwrite_mode is OverwriteMode.STATIC
    if operation is WriteOperation.INSERT_OVERWRITE and is_static:
        return WriteOperation.INSERT_OVERWRITE_TABLE
    if _OVERWRITE_MODE in given and not (
        operation is WriteOperation.INSERT_OVERWRITE
        or (operation is WriteOperation.INSERT_OVERWRITE_TABLE and is_static)
    ):
        raise ConfigError(
            f"{_OVERWRITE_MODE} is for insert_overwrite, not for {operation}; leave it out",
            value=given[_OVERWRITE_MODE],
        )
    return operation


def _check_duplicates(
    operation: WriteOperation, given: Mapping[str, str], config: WriteConfig
) -> None:
    policy = config.insert_duplicates
    if policy is InsertDuplicates.NONE:
        return
    if operation is WriteOperation.INSERT and config.index.type.places_by_hash:
        raise ConfigError(
            f"{_DUPLICATES[0]} is not supported on a table with a bucket index, where an insert "
            "of a stored key is an update",
            value=policy.value,
        )
    name = next((name for name in _DUPLICATES if name in given), None)
    if operation is not WriteOperation.INSERT and name is not None:
        raise ConfigError(
            f"{name} is for the operation insert, not for {operation}; leave it out",
            value=given[name],
        )
