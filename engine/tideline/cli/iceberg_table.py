"""How the commands for Iceberg tables are given a table: a location, or a catalog's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from tideline.cli.options import json_option, parse_pairs, storage_options
from tideline.errors import ConfigError
from tideline.iceberg.table.catalog_name import catalog_named, with_catalogs

if TYPE_CHECKING:
    from tideline.iceberg.table.open_table import IcebergTable


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table as the command line names it."""

    target: str
    catalog: str | None
    catalog_properties: Mapping[str, str]
    storage: Mapping[str, str | bool]

    @property
    def is_of_catalog(self) -> bool:
        """Whether the options name a catalog, or properties that only one has."""
        return self.catalog is not None or bool(self.catalog_properties)

    def open(self) -> IcebergTable:
        """Raises ObjectNotFoundError when there is no such table, ConfigError, CorruptTableError,
        UnsupportedTableError and StorageUnavailableError."""
        # Takes a tenth of a second to import, which commands for Hudi tables need not wait for.
        from tideline.iceberg.table.open_table import IcebergTable

        if self.catalog is None:
            if self.catalog_properties:
                raise ConfigError("--catalog-option needs --catalog")
            return IcebergTable.open(self.target, self.storage)
        name, properties = catalog_named(self.catalog, dict(self.catalog_properties))
        with with_catalogs():
            return IcebergTable.from_catalog(
                name, self.target, properties=properties, storage_options=self.storage
            )


def iceberg_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add TABLE, the catalog and storage options and --json: the arguments `source`, `as_json`."""
    decorated = source_options(command, argument="table", keeps="TABLE", option=click.Option)
    return click.argument("table")(json_option(storage_options(decorated)))


def source_options(
    command: Callable[..., None], *, argument: str, keeps: str, option: type[click.Option]
) -> Callable[..., None]:
    """Add the catalog options: with the storage and the `argument` that names the table they become
    the argument `source`. `keeps` says what the catalog has."""

    @wraps(command)
    def gathered(*args: Any, place: TableSource, **kwargs: Any) -> None:
        command(*args, source=replace(place, target=kwargs.pop(argument)), **kwargs)

    return place_options(gathered, keeps=keeps, option=option)


def place_options(
    command: Callable[..., None], *, keeps: str, option: type[click.Option]
) -> Callable[..., None]:
    """Add the catalog options, for a command that names its tables in other arguments: with the
    storage they become the argument `place`, a source without a target."""

    @wraps(command)
    def gathered(
        *args: Any,
        catalog: str | None,
        catalog_options: tuple[str, ...],
        storage: dict[str, str | bool],
        **kwargs: Any,
    ) -> None:
        properties = parse_pairs(catalog_options, option="--catalog-option")
        command(*args, place=TableSource("", catalog, properties, storage), **kwargs)

    decorated = click.option(
        "--catalog-option",
        "catalog_options",
        cls=option,
        metavar="NAME=VALUE",
        multiple=True,
        help="A property of the catalog, such as warehouse=s3://...; may be repeated.",
    )(gathered)
    return click.option(
        "--catalog",
        cls=option,
        metavar="NAME|URI",
        help=f"The catalog that keeps {keeps}: its name in PyIceberg's configuration, or its URI.",
    )(decorated)
