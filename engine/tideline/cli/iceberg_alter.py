"""`tideline iceberg alter`: columns, partitions, order, properties and version of a table."""

from __future__ import annotations

from typing import Any

import click

from tideline.cli.command import TidelineCommand, WholeWordContext
from tideline.cli.iceberg_change import asked_change_options, change_options, run_change
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import parse_pairs
from tideline.errors import ConfigError
from tideline.iceberg.evolution.columns import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    SetDefault,
    SetDoc,
    SetIdentifier,
    SetRequired,
    WidenColumn,
)
from tideline.iceberg.evolution.partitioning import (
    AddPartitionField,
    RemovePartitionField,
    RenamePartitionField,
    SetSortOrder,
)
from tideline.iceberg.evolution.properties import (
    SetTableProperties,
    UnsetTableProperties,
    UpgradeFormat,
)


@click.group("alter")
def alter_command() -> None:
    """Change columns, partitions, order, properties and version of a table.

    No data file is rewritten. A column inside a struct is named place.zip; inside the elements of a
    list or the values of a map, by the column of the list or map.
    """


alter_command.context_class = WholeWordContext


def _placing(command: Any) -> Any:
    for option in (
        click.option("--before", metavar="COLUMN", help="Put it before this one of its struct."),
        click.option("--after", metavar="COLUMN", help="Put it after this one of its struct."),
        click.option("--first", is_flag=True, help="Put it first."),
    ):
        command = option(command)
    return command


@alter_command.command("add-column", cls=TidelineCommand)
@change_options
@click.argument("column")
@click.argument("type_text", metavar="TYPE")
@click.option("--comment", metavar="TEXT", help="What the column is.")
@click.option("--required", is_flag=True, help="Every row has a value; needs --default.")
@click.option(
    "--default", metavar="VALUE", help="What rows have that say nothing of it; version 3."
)
@_placing
def add_column_command(
    source: TableSource,
    column: str,
    type_text: str,
    comment: str | None,
    required: bool,
    default: str | None,
    first: bool,
    after: str | None,
    before: str | None,
    **how: Any,
) -> None:
    """Add COLUMN to TABLE, of a TYPE such as long, decimal(9,2) or struct<city: string>."""
    position = Position.of(first=first, after=after, before=before)
    run_change(source, AddColumn(column, type_text, comment, required, default, position), **how)


@alter_command.command("drop-column", cls=TidelineCommand)
@asked_change_options
@click.argument("column")
def drop_column_command(source: TableSource, column: str, **how: Any) -> None:
    """Drop COLUMN of TABLE; its values stay in files, and are not seen again."""
    question = f"Drop column {column} of {source.target}, whose values are not seen again?"
    run_change(source, DropColumn(column), question=question, **how)


@alter_command.command("rename-column", cls=TidelineCommand)
@change_options
@click.argument("column")
@click.argument("name")
def rename_column_command(source: TableSource, column: str, name: str, **how: Any) -> None:
    """Rename COLUMN of TABLE to NAME."""
    run_change(source, RenameColumn(column, name), **how)


@alter_command.command("change-type", cls=TidelineCommand)
@change_options
@click.argument("column")
@click.argument("type_text", metavar="TYPE")
def change_type_command(source: TableSource, column: str, type_text: str, **how: Any) -> None:
    """Widen COLUMN of TABLE: int to long, float to double, decimals to more digits."""
    run_change(source, WidenColumn(column, type_text), **how)


@alter_command.command("set-optional", cls=TidelineCommand)
@change_options
@click.argument("column")
def set_optional_command(source: TableSource, column: str, **how: Any) -> None:
    """Let rows of TABLE have no value of COLUMN."""
    run_change(source, SetRequired(column, required=False), **how)


@alter_command.command("set-comment", cls=TidelineCommand)
@change_options
@click.argument("column")
@click.argument("text", required=False)
def set_comment_command(source: TableSource, column: str, text: str | None, **how: Any) -> None:
    """Say what COLUMN of TABLE is; without TEXT, nothing."""
    run_change(source, SetDoc(column, text), **how)


@alter_command.command("set-default", cls=TidelineCommand)
@change_options
@click.argument("column")
@click.argument("value", required=False)
def set_default_command(source: TableSource, column: str, value: str | None, **how: Any) -> None:
    """Set what new rows of TABLE have that do not name COLUMN; without VALUE, null. Version 3."""
    run_change(source, SetDefault(column, value), **how)


@alter_command.command("move-column", cls=TidelineCommand)
@change_options
@click.argument("column")
@_placing
def move_column_command(
    source: TableSource,
    column: str,
    first: bool,
    after: str | None,
    before: str | None,
    **how: Any,
) -> None:
    """Put COLUMN of TABLE elsewhere in its struct."""
    position = Position.of(first=first, after=after, before=before)
    if position is None:
        raise ConfigError("say where: --first, --after or --before")
    run_change(source, MoveColumn(column, position), **how)


@alter_command.command("set-identifier-fields", cls=TidelineCommand)
@change_options
@click.argument("columns", nargs=-1, metavar="[COLUMN]...")
def set_identifier_command(source: TableSource, columns: tuple[str, ...], **how: Any) -> None:
    """Identify rows of TABLE by required columns; by none where none is named."""
    run_change(source, SetIdentifier(columns), **how)


@alter_command.command("add-partition-field", cls=TidelineCommand)
@change_options
@click.argument("term")
@click.option("--name", metavar="NAME", help="The field's name, else made of its term.")
def add_partition_command(source: TableSource, term: str, name: str | None, **how: Any) -> None:
    """File new files of TABLE by TERM as well, such as region, day(ts) or bucket(16,id)."""
    run_change(source, AddPartitionField(term, name), **how)


@alter_command.command("drop-partition-field", cls=TidelineCommand)
@change_options
@click.argument("field")
def drop_partition_command(source: TableSource, field: str, **how: Any) -> None:
    """File new files of TABLE no more by FIELD, a name or a term; others stay where they are."""
    run_change(source, RemovePartitionField(field), **how)


@alter_command.command("replace-partition-field", cls=TidelineCommand)
@change_options
@click.argument("field")
@click.argument("term")
@click.option("--name", metavar="NAME", help="The new field's name, else made of its term.")
def replace_partition_command(
    source: TableSource, field: str, term: str, name: str | None, **how: Any
) -> None:
    """File new files of TABLE by TERM instead of FIELD, as hour(ts) instead of day(ts)."""
    run_change(source, RemovePartitionField(field), AddPartitionField(term, name), **how)


@alter_command.command("rename-partition-field", cls=TidelineCommand)
@change_options
@click.argument("field")
@click.argument("name")
def rename_partition_command(source: TableSource, field: str, name: str, **how: Any) -> None:
    """Rename the partition FIELD of TABLE to NAME."""
    run_change(source, RenamePartitionField(field, name), **how)


@alter_command.command("set-sort-order", cls=TidelineCommand)
@change_options
@click.argument("order", default="")
def set_sort_order_command(source: TableSource, order: str, **how: Any) -> None:
    """Sort new files of TABLE by ORDER, such as "day(ts), id DESC NULLS LAST"; without, not."""
    run_change(source, SetSortOrder(order), **how)


@alter_command.command("set-properties", cls=TidelineCommand)
@change_options
@click.argument("properties", nargs=-1, required=True, metavar="NAME=VALUE...")
def set_properties_command(source: TableSource, properties: tuple[str, ...], **how: Any) -> None:
    """Set properties of TABLE."""
    given = parse_pairs(properties, option="NAME=VALUE")
    run_change(source, SetTableProperties(given), **how)


@alter_command.command("unset-properties", cls=TidelineCommand)
@change_options
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def unset_properties_command(source: TableSource, names: tuple[str, ...], **how: Any) -> None:
    """Forget properties of TABLE."""
    run_change(source, UnsetTableProperties(names), **how)


@alter_command.command("upgrade", cls=TidelineCommand)
@asked_change_options
@click.argument("version", type=int)
def upgrade_command(source: TableSource, version: int, **how: Any) -> None:
    """Continue TABLE in format VERSION 2 or 3. There is no way back."""
    question = f"Upgrade {source.target} to format version {version}, with no way back?"
    run_change(source, UpgradeFormat(version), question=question, **how)
