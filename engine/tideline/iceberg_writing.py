"""Writing Iceberg tables by the words of the facade: what callers give, and the report they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tideline.clock import Clock
from tideline.commit_report import CommitReport, report_iceberg_write
from tideline.errors import ConfigError
from tideline.hudi.table.location_conflict import refuse_table_conflict
from tideline.hudi.table.names import column_names
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.table.catalog_name import catalog_named
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.carried_variants import with_carried_variants
from tideline.iceberg.write.create import create_in_catalog, create_table
from tideline.iceberg.write.execute import write_rows
from tideline.iceberg.write.given_rows import GivenRows, StreamedRows, row_stream
from tideline.iceberg.write.table_definition import IcebergDefinition
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.in_process.dict_rows import dict_rows
from tideline.resource_usage import ResourceUsage
from tideline.storage.location import StoreLocation

Options = Mapping[str, str] | None


def new_iceberg_table(
    uri: str,
    definition: IcebergDefinition,
    clock: Clock,
    *,
    catalog: str | None,
    location: str | None,
    catalog_properties: Options,
    storage_options: Mapping[str, str | bool] | None,
) -> IcebergTable:
    """See `create_iceberg`."""
    if catalog is not None:
        name, named_properties = catalog_named(catalog, catalog_properties)
        return create_in_catalog(
            name,
            uri,
            definition,
            clock,
            location=location,
            properties=named_properties,
            storage_options=storage_options,
        )
    place = StoreLocation.of(uri, storage_options)
    refuse_table_conflict(place)
    return create_table(place, definition, clock)


def table_definition(
    schema: Any,
    *,
    key: str | Sequence[str],
    partition_by: str | Sequence[str],
    sort_by: str | Sequence[str],
    format_version: int,
    properties: Options,
) -> IcebergDefinition:
    """What `create_iceberg` is given, as a definition. Raises ConfigError."""
    if not isinstance(schema, pa.Schema):
        message = "the columns of an Iceberg table are given as a pyarrow schema"
        raise ConfigError(message, value=type(schema).__name__)
    return IcebergDefinition(
        schema,
        _terms(partition_by),
        _terms(sort_by),
        column_names(key),
        format_version,
        properties or {},
    )


def write_iceberg(
    table: IcebergTable, rows: Any, write: IcebergWrite, clock: Clock
) -> CommitReport:
    """See `IcebergLakeTable.write`."""
    return write_given(table, _given(rows, table), write, clock)


def change_iceberg(table: IcebergTable, write: IcebergWrite, clock: Clock) -> CommitReport:
    """See `IcebergLakeTable.delete` and `update`. Raises ConfigError without a condition."""
    if write.where is None:
        raise ConfigError("name the rows that are meant, by a condition")
    return write_given(table, StreamedRows(), write, clock)


def write_given(
    table: IcebergTable, rows: GivenRows, write: IcebergWrite, clock: Clock
) -> CommitReport:
    """The same for rows in one of the forms that are written."""
    before, started_ms = ResourceUsage.so_far(), clock.now_ms()
    done = write_rows(table, rows, write, clock=clock)
    seconds = (clock.now_ms() - started_ms) / 1000
    return report_iceberg_write(done, seconds, ResourceUsage.so_far().since(before))


def _given(rows: Any, table: IcebergTable) -> GivenRows:
    if type(rows).__module__.startswith("pyspark.") and hasattr(rows, "mapInArrow"):
        from tideline.spark.iceberg.frame_rows import FrameRows

        return FrameRows(rows)
    return StreamedRows((row_stream(_listed(rows, table)),))


def _listed(rows: Any, table: IcebergTable) -> Any:
    """Rows given as a list of dicts, as a table of Arrow; all others as they are."""
    if not isinstance(rows, (list, tuple)):
        return rows
    columns = arrow_schema(with_carried_variants(table.metadata).schema().fields)
    found = dict_rows(rows, columns)
    return rows if found is None else found


def _terms(given: str | Sequence[str]) -> str:
    return given if isinstance(given, str) else ", ".join(given)
