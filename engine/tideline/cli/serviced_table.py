"""The services of both formats by their names, and the tables that they are for."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import TableNotFoundError
from tideline.hudi.services import registry
from tideline.iceberg.services import registry as iceberg_registry
from tideline.iceberg_lake_table import IcebergLakeTable, open_iceberg
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


def open_serviced(
    uri: str, service: Service | None, storage: Mapping[str, str]
) -> LakeTable | IcebergLakeTable:
    """The table at `uri`, of the format that the service is for, or else the one that it is of.

    Raises TableNotFoundError when there is none, CorruptTableError and UnsupportedTableError.
    """
    if service is not None and service.table_format == "iceberg":
        return open_iceberg(uri, storage_options=storage)
    try:
        return LakeTable.open(uri, storage_options=storage)
    except TableNotFoundError as no_hudi_table:
        if service is not None:
            raise
        try:
            return open_iceberg(uri, storage_options=storage)
        except TableNotFoundError:
            raise no_hudi_table from None
