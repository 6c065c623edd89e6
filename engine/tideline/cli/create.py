"""`tideline create`: an empty table."""

from __future__ import annotations

import click

from tideline.cli.options import complete_settings, parse_pairs, split_names, table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.schema_file import read_schema_file
from tideline.cli.show import describe_table
from tideline.lake_table import LakeTable
from tideline.settings.setting import Place


@click.command("create")
@table_options
@click.option("--record-key", required=True, metavar="COLUMNS", help="What identifies a row.")
@click.option("--partition-by", metavar="COLUMNS", help="What decides a row's folder.")
@click.option(
    "--ordering", metavar="COLUMNS", help="Of two versions of a row the higher value wins."
)
@click.option(
    "--type",
    "table_type",
    type=click.Choice(["COPY_ON_WRITE"]),
    default="COPY_ON_WRITE",
    show_default=True,
    help="Hudi's table type.",
)
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="An Avro schema (.avsc, .json) or a parquet file with the columns; "
    "without it the first write decides.",
)
@click.option("--name", help="The table's name; otherwise the last part of the URI.")
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    shell_complete=complete_settings(Place.TABLE),
    help="A Hudi setting that every later writer shall find (hoodie.*); may be repeated.",
)
def create_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    record_key: str,
    partition_by: str | None,
    ordering: str | None,
    table_type: str,
    schema_path: str | None,
    name: str | None,
    properties: tuple[str, ...],
) -> None:
    """Create an empty table at URI.

    COLUMNS are names separated by commas.
    """
    table = LakeTable.create(
        uri,
        record_key=split_names(record_key),
        partition_by=split_names(partition_by),
        ordering=split_names(ordering),
        table_type=table_type,
        schema=read_schema_file(schema_path) if schema_path else None,
        name=name,
        properties=parse_pairs(properties, option="--property"),
        storage_options=storage,
    )
    description = describe_table(table.hoodie_table)
    if as_json:
        print_json(description)
    else:
        print_line(f"Created the {description['type']} table {description['name']}.")
        print_line(f"Fill it: tideline write {uri} --source PATH --format parquet")
