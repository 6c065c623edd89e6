"""`tideline sql`: queries over tables, given on the command line, in a pipe or at a prompt."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tideline.cli.any_table import open_any
from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import json_option, limit_option, parse_pairs, storage_options
from tideline.cli.output import print_line, print_rows
from tideline.cli.progress import progress
from tideline.cli.query_engine import (
    TABLE_NAME,
    QueriedRows,
    engine_option,
    query_engine,
    rows_of_iceberg,
    rows_of_scan,
)
from tideline.cli.sql_prompt import Prompt
from tideline.errors import ConfigError
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.hoodie_table import HoodieTable

if TYPE_CHECKING:
    from tideline.iceberg.table.open_table import IcebergTable

_NAMED = re.compile(r"([^\W\d]\w*)=(.+)", re.DOTALL)


@command("sql")
@click.argument("tables", metavar="[NAME=]URI...", nargs=-1, required=True)
@click.option(
    "-c",
    "--command",
    "statements",
    metavar="SQL",
    multiple=True,
    help="Answer this and end; may be given several times.",
)
@engine_option
@limit_option("At most N rows of each answer, or all.")
@click.option("--meta", is_flag=True, help="With Hudi's own columns (_hoodie_commit_time, ...).")
@click.option(
    "--catalog",
    metavar="NAME|URI",
    help="The catalog that keeps tables given as namespace.name: its name in PyIceberg's "
    "configuration, or its URI.",
)
@click.option(
    "--catalog-option",
    "catalog_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="A property of the catalog, such as warehouse=s3://...; may be repeated.",
)
@storage_options
@json_option
def sql_command(
    tables: tuple[str, ...],
    statements: tuple[str, ...],
    engine: str | None,
    limit: int | None,
    meta: bool,
    catalog: str | None,
    catalog_options: tuple[str, ...],
    storage: dict[str, str],
    as_json: bool,
) -> None:
    """Answer queries over the tables at URI, or those of a catalog.

    A query calls a table by its NAME; one without is "t". Without -c statements come from standard
    input: from a pipe until it ends, on a terminal at a prompt. Each sees the newest commits. What
    statements create is gone at the end; tables are only read.
    """
    properties = parse_pairs(catalog_options, option="--catalog-option")
    opened = open_tables(tables, TableSource("", catalog, properties, storage))
    with closing(query_engine(engine)) as answering:

        def run(text: str) -> None:
            with progress("answering"):
                for answer in answering.answers(newest(opened, meta=meta), text, limit):
                    print_rows(answer, limit, as_json=as_json)

        if not statements and sys.stdin.isatty():
            Prompt(run, lambda: describe(opened)).read()
            return
        for text in statements or (sys.stdin.read(),):
            run(text)


def open_tables(given: Sequence[str], place: TableSource) -> dict[str, HoodieTable | IcebergTable]:
    """The tables by name: those with a slash are locations, where `place` has a catalog others are
    its own. Raises ConfigError for a name given twice, and as `open_any`."""
    found: dict[str, HoodieTable | IcebergTable] = {}
    for entry in given:
        parts = _NAMED.fullmatch(entry)
        name, uri = (parts[1], parts[2]) if parts else (TABLE_NAME, entry)
        if name in found:
            raise ConfigError("two tables have one name: write NAME=URI", value=name)
        has_location = place.catalog is not None and "/" in uri
        of = TableSource("", None, {}, place.storage) if has_location else place
        found[name] = open_any(replace(of, target=uri))
    return found


def newest(
    tables: Mapping[str, HoodieTable | IcebergTable], *, meta: bool
) -> dict[str, QueriedRows]:
    """The rows of the tables as of their newest commits."""
    return {
        name: rows_of_scan(table, plan_snapshot(table), meta=meta)
        if isinstance(table, HoodieTable)
        else rows_of_iceberg(table)
        for name, table in tables.items()
    }


def describe(tables: Mapping[str, HoodieTable | IcebergTable]) -> None:
    """Print which tables there are."""
    for name, table in tables.items():
        uri = table.uri if isinstance(table, HoodieTable) else table.io.location.uri
        print_line(f"{name}: {uri}")
