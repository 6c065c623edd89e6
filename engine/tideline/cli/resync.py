"""`tideline resync`: have a table copied again from its source, into itself."""

from __future__ import annotations

from pathlib import Path

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.declared_ingest import declaration_option, declared_ingest
from tideline.cli.options import json_option
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.ingest.execute.copy_again import plan_again, read_again


@command("resync")
@click.argument("table", required=False)
@declaration_option()
@dry_run_option("Say what would be copied again; change nothing.")
@json_option
def resync_command(table: str | None, path: Path, dry_run: bool, as_json: bool) -> None:
    """Have TABLE copied again from its source, into the same rows.

    TABLE is the name of a LakeTable in FILE, or its location; it may be left out where there is
    one. A table of a LakeSource is named as on its server. For a table of Postgres whose log is
    lost to it: the slot is gone, another server was promoted, the table was made again or
    truncated. A commit without rows says so; the next ingests (`tideline run`) make a slot where
    none is left, copy all rows over those that are there, delete those that the source has no more,
    and continue with the log. Until then readers see old rows and new ones; an Iceberg table is
    copied into a branch, and they see the old ones. A copy that is under way begins again.
    """
    operation = declared_ingest(path, table)
    if dry_run:
        source = plan_again(operation).ingest.source
        place = {"table": operation.table.location.uri, "source": source.uri}
        if as_json:
            print_json({**place, "dry_run": True})
        else:
            print_line(f"Would copy {place['source']} again into {place['table']}.")
        return
    with progress("beginning a copy"):
        result = read_again(operation)
    if as_json:
        print_json(result.to_json_object())
    else:
        print_line(result.message or "The next ingests copy the table again: tideline run.")
    if result.exit_code:
        raise click.exceptions.Exit(result.exit_code)
