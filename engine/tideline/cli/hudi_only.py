"""Opening a table for a command that is for Hudi tables alone."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import TableNotFoundError
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.table_around import has_iceberg_metadata


def open_hudi(uri: str, storage: Mapping[str, str], *, of_iceberg: str) -> LakeTable:
    """The table at `uri`; `of_iceberg` says what serves an Iceberg table for that.

    Raises TableNotFoundError with these words where one is there, and as `LakeTable.open`.
    """
    try:
        return LakeTable.open(uri, storage_options=storage)
    except TableNotFoundError as error:
        if not has_iceberg_metadata(StoreLocation.of(uri, storage).open()):
            raise
        message = f"this is an Iceberg table, and the command is for Hudi tables: {of_iceberg}"
        raise TableNotFoundError(message, table=error.table) from error
