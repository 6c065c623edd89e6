"""The table an operation is about: opening it, or creating it as declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tideline.clock import Clock
from tideline.errors import ObjectNotFoundError
from tideline.hudi.table.table_config import TIMEZONE
from tideline.iceberg_lake_table import IcebergLakeTable, open_iceberg
from tideline.ingest.locate import locate
from tideline.ingest.operation.operation import HUDI, CatalogEntry, Operation, TableTarget
from tideline.lake_table import LakeTable
from tideline.services.service import Service
from tideline.storage.location import StoreLocation
from tideline.storage.refusals import MissingBucketError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATION_PROPERTY = "tideline.operation-id"
"""In the summary of an Iceberg table's snapshot: the operation that made it."""

SessionFactory = Callable[[Iterable[StoreLocation]], "SparkSession"]
"""Gives the warm Spark session, connected to the locations."""

Progress = Callable[[str], None]
"""Hears, in words, what is being done."""


def open_table(target: TableTarget, writer: str = "") -> LakeTable | None:
    """The table, or None when there is none; `writer` is what its heartbeats call this process.

    Raises ConfigError when there is no bucket either, unless creating the table may create it, and
    for a time zone that cannot be declared of this table.
    """
    options = dict(target.location.options)
    try:
        table = LakeTable.open(target.location.uri, storage_options=options)
    except ObjectNotFoundError:
        return None
    except MissingBucketError:
        if locate(target.location).creates_bucket:
            return None
        raise
    table.hoodie_table.writer = writer
    table.hoodie_table.instants.declare_zone(target.write_properties.get(TIMEZONE))
    return table


def open_serviced(
    operation: Operation, service: Service, clock: Clock
) -> LakeTable | IcebergLakeTable | None:
    """The table that a service is to run on, or None when there is none. Raises as `open_table`."""
    if service.table_format == HUDI:
        return open_table(operation.table, operation.writer)
    try:
        table = open_declared_iceberg(operation.table, clock)
    except ObjectNotFoundError:
        return None
    table.summary = {OPERATION_PROPERTY: operation.id}
    return table


def open_declared_iceberg(target: TableTarget, clock: Clock) -> IcebergLakeTable:
    """The Iceberg table in its folder or its catalog. Raises as `open_iceberg`."""
    entry = target.catalog or CatalogEntry("", target.location.uri)
    return open_iceberg(
        entry.table,
        catalog=entry.catalog or None,
        catalog_properties=dict(entry.properties),
        storage_options=dict(target.location.options),
        clock=clock,
    )


def create_declared_table(target: TableTarget, writer: str = "") -> LakeTable:
    """Create the table; without a declared schema the first write decides it."""
    from tideline.ingest.arrow_schema import arrow_schema

    table = LakeTable.create(
        target.location.uri,
        name=target.name,
        record_key=target.record_key,
        schema=arrow_schema(target.schema) if target.schema else None,
        partition_by=target.partition_by,
        ordering=target.ordering,
        table_type=target.table_type,
        table_version=target.table_version,
        properties=target.creation_properties,
        storage_options=dict(target.location.options),
    )
    table.hoodie_table.writer = writer
    return table
