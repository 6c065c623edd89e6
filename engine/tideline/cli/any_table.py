"""How commands are given a table of either format: its location, or a catalog's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tideline.cli.command import SharedOption
from tideline.cli.iceberg_table import TableSource, place_options, source_options
from tideline.cli.options import storage_options, table_options
from tideline.errors import ConfigError, TableNotFoundError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.location import StoreLocation
from tideline.storage.missing_table import missing_table

if TYPE_CHECKING:
    from tideline.iceberg.table.open_table import IcebergTable

_KEEPS = "the Iceberg table URI, then namespace.name"


def any_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add URI, the catalog and storage options and --json: the arguments `source`, `as_json`."""
    decorated = source_options(command, argument="uri", keeps=_KEEPS, option=SharedOption)
    return table_options(decorated)


def any_place_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the catalog and storage options, the argument `place`; the target is to be filled in."""
    return storage_options(place_options(command, keeps=_KEEPS, option=SharedOption))


def open_any(source: TableSource) -> HoodieTable | IcebergTable:
    """The Hudi table at a location, or else the Iceberg table there; a catalog's are Iceberg's.

    Raises TableNotFoundError when there is none, and as either is opened.
    """
    if source.catalog is not None:
        return source.open()
    try:
        return open_table(StoreLocation.of(source.target, source.storage))
    except TableNotFoundError as no_hudi_table:
        try:
            return source.open()
        except TableNotFoundError:
            uri = no_hudi_table.table
            message = f"no Hudi table and no Iceberg table here{missing_table(str(uri))}"
            raise TableNotFoundError(message, table=uri) from None


def refuse_options(format_: str, *, verb: str = "read", **given: object) -> None:
    """Raise ConfigError for options for which tables of a format have no use."""
    names = ", ".join(f"--{name.replace('_', '-')}" for name, value in given.items() if value)
    if names:
        raise ConfigError(f"{format_} tables are {verb} without: leave it out", value=names)
