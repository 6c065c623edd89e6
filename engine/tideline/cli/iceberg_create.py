"""`tideline create --format iceberg`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from tideline.cli.iceberg_show import describe_table
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import parse_pairs
from tideline.cli.output import print_json, print_line
from tideline.cli.schema_file import read_schema_file
from tideline.errors import ConfigError
from tideline.iceberg.table.catalog_name import catalog_named, with_catalogs
from tideline.iceberg_lake_table import IcebergLakeTable, create_iceberg


def create_iceberg_table(
    source: TableSource, asked: Mapping[str, Any], *, dry_run: bool, as_json: bool
) -> None:
    """Create the table that the options describe. Raises as `tideline.create_iceberg`."""
    if not asked["schema_path"]:
        raise ConfigError("an Iceberg table needs --schema: its columns")
    wanted: dict[str, Any] = {
        "key": asked["record_key"] or (),
        "partition_by": asked["partition_by"] or (),
        "sort_by": asked["sort_by"] or (),
        "format_version": int(asked["format_version"] or 2),
        "properties": parse_pairs(asked["properties"], option="--property"),
    }
    schema = read_schema_file(asked["schema_path"])
    if dry_run:
        # As it would be, made in memory.
        table = create_iceberg(f"memory://{uuid4().hex}", schema, **wanted)
    else:
        table = _created(source, schema, asked["location"], wanted)
    description = describe_table(table.table)
    if as_json:
        place = {"uri": source.target, "metadata": None} if dry_run else {}
        print_json({**description, **place, "dry_run": dry_run})
        return
    print_line(f"{'Would create' if dry_run else 'Created'} the Iceberg table {source.target}.")
    if not dry_run:
        print_line(f"Fill it: tideline write {_named(source)} --source PATH")


def _created(
    source: TableSource, schema: Any, location: str | None, wanted: Mapping[str, Any]
) -> IcebergLakeTable:
    if source.catalog is None:
        if location is not None:
            raise ConfigError("--location needs --catalog: URI says where the table goes")
        return create_iceberg(source.target, schema, storage_options=source.storage, **wanted)
    name, properties = catalog_named(source.catalog, dict(source.catalog_properties))
    with with_catalogs():
        return create_iceberg(
            source.target,
            schema,
            catalog=name,
            catalog_properties=properties,
            location=location,
            storage_options=source.storage,
            **wanted,
        )


def _named(source: TableSource) -> str:
    catalog = () if source.catalog is None else ("--catalog", source.catalog)
    return shlex.join((source.target, *catalog))
