"""`tideline verify`: whether a table has what its source says."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tideline.cli.command import command
from tideline.cli.declared_ingest import declaration_option, declared_ingests
from tideline.cli.options import json_option, limit_option
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import progress
from tideline.ingest.verify.verification import Verification
from tideline.ingest.verify.verify_ingest import verify_ingests
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@command("verify")
@click.argument("table", required=False)
@declaration_option("--source")
@limit_option("Name at most N rows that differ, or all.")
@json_option
def verify_command(table: str | None, path: Path, limit: int | None, as_json: bool) -> None:
    """Compare TABLE with the sources it is made of, at the positions that it has read to.

    TABLE is the name of a LakeTable in FILE, or its location; it may be left out where there is
    one. A table of a LakeSource is named as on its server. A topic is read again up to the position
    in the table's newest commit, and what it comes down to is compared with the table's rows. So
    are the files of a landing prefix that the table has taken in, csv and JSON by Spark. A table of
    Postgres is read as it is, and the log says what it had at that position. Several ingests of a
    table are compared together. Missing and extra rows and other values are named by their keys.
    Nothing is changed, and a stream may run meanwhile. Rows that records or files which are gone
    may have made are counted, and not called wrong.

    Exit code 0 where no row differs, 1 where one does, 2 where they cannot be compared. Credentials
    come from the environment.
    """
    operations = declared_ingests(path, table)
    with progress("comparing the table with its source"):
        found = verify_ingests(
            operations,
            session_factory=_open_session,
            progress=lambda _: None,
            rows_max=sys.maxsize if limit is None else limit,
        )
    if as_json:
        print_json(found.to_json_object(), are_rows=True)
    else:
        _print(found)
    if not found.found.is_equal:
        raise click.exceptions.Exit(1)


def _open_session(locations: Iterable[StoreLocation]) -> SparkSession:
    # What this process reads needs no Spark.
    from tideline.spark.session.spark_session import spark_session

    return spark_session("tideline verify", locations=list(locations))


def _print(found: Verification) -> None:
    for line in found.lines():
        print_line(line)
    if found.found.first:
        print_line()
        print_table(("row", "key", "partition", "source -> table"), _rows(found), are_rows=True)


def _rows(found: Verification) -> Iterator[tuple[str, str, str, str]]:
    for row in found.found.first:
        changes = (f"{name}: {old!s} -> {new!s}" for name, (old, new) in row.columns.items())
        yield row.kind.value, row.key, row.partition, ", ".join(changes)
