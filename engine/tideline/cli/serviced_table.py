"""The services of both formats by their names, and the tables that they are for."""

from __future__ import annotations

from tideline.cli.iceberg_table import TableSource
from tideline.errors import ConfigError, TableNotFoundError
from tideline.hudi.services import registry
from tideline.iceberg.services import registry as iceberg_registry
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.lake_table import LakeTable
from tideline.services.service import Service, named


def every_service() -> tuple[Service, ...]:
    """The services of Hudi tables, then those of Iceberg tables, in the order in which they run."""
    return (*registry.all_services(), *iceberg_registry.all_services())


def service_called(name: str) -> Service:
    """Raises ConfigError naming the known ones."""
    return named(name, every_service())


def services_for(table: LakeTable | IcebergLakeTable) -> tuple[Service, ...]:
    """The services for tables of its format."""
    is_iceberg = isinstance(table, IcebergLakeTable)
    return iceberg_registry.all_services() if is_iceberg else registry.all_services()


def open_serviced(source: TableSource, service: Service | None) -> LakeTable | IcebergLakeTable:
    """The table of this source, of the format that the service is for, or else the one that it is
    of; those of a catalog are Iceberg's.

    Raises TableNotFoundError when there is none, CorruptTableError, UnsupportedTableError, and
    ConfigError for a service of Hudi tables and a catalog.
    """
    of_iceberg = service is not None and service.table_format == "iceberg"
    if source.catalog is not None and service is not None and not of_iceberg:
        message = "the tables of a catalog are Iceberg tables, and the service is for Hudi tables"
        raise ConfigError(message, value=service.name)
    if source.is_of_catalog or of_iceberg:
        return IcebergLakeTable(source.open())
    try:
        return LakeTable.open(source.target, storage_options=source.storage)
    except TableNotFoundError as no_hudi_table:
        if service is not None:
            raise
        try:
            return IcebergLakeTable(source.open())
        except TableNotFoundError:
            raise no_hudi_table from None
