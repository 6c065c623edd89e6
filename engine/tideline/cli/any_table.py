"""How commands that read are given a table of either format: its location, or a catalog's name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from tideline.cli.command import SharedOption
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import parse_pairs, table_options
from tideline.errors import ConfigError, TableNotFoundError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from tideline.iceberg.table.open_table import IcebergTable


def any_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add URI, the catalog and storage options and --json: the arguments `source`, `as_json`."""

    @wraps(command)
    def gathered(
        *args: Any,
        uri: str,
        catalog: str | None,
        catalog_options: tuple[str, ...],
        storage: dict[str, str | bool],
        **kwargs: Any,
    ) -> None:
        properties = parse_pairs(catalog_options, option="--catalog-option")
        command(*args, source=TableSource(uri, catalog, properties, storage), **kwargs)

    decorated = click.option(
        "--catalog-option",
        "catalog_options",
        cls=SharedOption,
        metavar="NAME=VALUE",
        multiple=True,
        help="A property of the catalog, such as warehouse=s3://...; may be repeated.",
    )(gathered)
    decorated = click.option(
        "--catalog",
        cls=SharedOption,
        metavar="NAME|URI",
        help="The catalog that keeps the Iceberg table URI, then namespace.name: its name in "
        "PyIceberg's configuration, or its URI.",
    )(decorated)
    return table_options(decorated)


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
            raise no_hudi_table from None


def refuse_options(format_: str, **given: object) -> None:
    """Raise ConfigError for options that tables of a format have no use for."""
    names = ", ".join(f"--{name.replace('_', '-')}" for name, value in given.items() if value)
    if names:
        raise ConfigError(f"{format_} tables are read without: leave it out", value=names)
