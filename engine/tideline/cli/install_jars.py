"""`tideline install-jars`: what Spark needs for a kind of store, once per machine."""

from __future__ import annotations

from pathlib import Path

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.options import json_option
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.spark.session.connector_jars import find_jars, install_jars, jars_folder
from tideline.spark.session.connectors import CONNECTORS, S3A


@command("install-jars")
@click.option(
    "--store",
    type=click.Choice(tuple(CONNECTORS)),
    default=S3A.name,
    show_default=True,
    help="The kind of store that they are for.",
)
@click.option(
    "--cache",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The cache folder; otherwise that of the user.",
)
@dry_run_option("Show where they are or would be; download nothing.")
@json_option
def install_jars_command(store: str, cache: Path | None, dry_run: bool, as_json: bool) -> None:
    """Download the jars that Spark needs for a kind of store, and print their folder.

    13 MB for s3://, 1 MB for abfss://, 37 MB for gs://. What works without Spark needs none.

    They come from the Maven repository that this machine is set up for. Jars that are there already
    are left as they are.
    """
    connector = CONNECTORS[store]
    folder = jars_folder(connector, cache)
    was_there = find_jars(connector, cache) is not None
    if not dry_run:
        with progress("downloading jars"):
            folder = install_jars(connector, cache)
    if as_json:
        print_json({"dry_run": dry_run, "folder": str(folder), "was_there": was_there})
    elif dry_run and not was_there:
        print_line(f"Would download the jars into {folder}.")
    else:
        print_line(str(folder))
