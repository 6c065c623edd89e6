"""`tideline install-jars`: what Spark needs for S3, once per machine."""

from __future__ import annotations

from pathlib import Path

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.options import json_option
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.spark.session.s3a_jars import find_s3a_jars, install_s3a_jars, s3a_jars_folder


@command("install-jars")
@click.option(
    "--cache",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The cache folder; otherwise that of the user.",
)
@dry_run_option("Show where they are or would be; download nothing.")
@json_option
def install_jars_command(cache: Path | None, dry_run: bool, as_json: bool) -> None:
    """Download the jars that Spark needs for s3:// tables (13 MB), and print their folder.

    They come from the Maven repository that this machine is set up for. Jars that are there already
    are left as they are.
    """
    folder = s3a_jars_folder(cache)
    was_there = find_s3a_jars(cache) is not None
    if not dry_run:
        with progress("downloading jars"):
            folder = install_s3a_jars(cache)
    if as_json:
        print_json({"dry_run": dry_run, "folder": str(folder), "was_there": was_there})
    elif dry_run and not was_there:
        print_line(f"Would download the jars into {folder}.")
    else:
        print_line(str(folder))
