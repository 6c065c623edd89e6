"""`tideline iceberg erase`: rows leave every file of an Iceberg table, with a proof."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.erase import (
    landing_options,
    print_landing,
    print_proof,
    refuse_without_landing,
)
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.erasure.iceberg_rows import IcebergErasure, erase_iceberg_rows
from tideline.erasure.source_files import LandingRequest
from tideline.wording import counted


@command("erase")
@iceberg_table_options
@click.option(
    "--where", required=True, metavar="CONDITION", help="Which rows, in SQL: \"email = 'x@y.org'\"."
)
@click.option(
    "--prove",
    is_flag=True,
    help="Count the rows in every file, before and after; reads all files twice.",
)
@landing_options
@dry_run_option("Show what matches; change nothing.")
@yes_option
def erase_command(
    source: TableSource,
    as_json: bool,
    where: str,
    prove: bool,
    landing: tuple[str, ...],
    delete_landing_files: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Erase rows of TABLE: from its newest snapshot and from every older file.

    Files that hold such rows are rewritten, and all older snapshots are expired: time travel
    ends here. Branches and tags are in the way. An erasure that died is finished by the same
    command. Exit code 1 when the proof or the search of --landing finds a row left, or a file that
    it could not read.
    """
    refuse_without_landing(landing, delete_landing_files=delete_landing_files)
    table = source.open()
    options = dict(table.io.location.options)
    searched = LandingRequest.of(landing, options, deletes_files=delete_landing_files)
    if not dry_run and is_asked(yes=yes):
        found = erase_iceberg_rows(table, where, landing=searched, is_preview=True)
        if delete_landing_files:
            print_landing(found.landing)
        ask(f"{_would_erase(found)} Every older snapshot goes. Continue?", yes=yes)
    with progress("looking for the rows" if dry_run else "erasing the rows"):
        done = erase_iceberg_rows(table, where, proves=prove, landing=searched, is_preview=dry_run)
    if as_json:
        print_json({"table": table.io.location.uri, **done.to_json_object()})
    else:
        _print(done)
    if not done.is_complete:
        raise click.exceptions.Exit(1)


def _print(done: IcebergErasure) -> None:
    if done.before is not None:
        print_proof("Before", done.before)
    if done.is_preview:
        print_line(_would_erase(done))
    else:
        files = counted(done.files_rewritten, "file")
        print_line(f"Erased {counted(done.matching, 'row')}: {files} rewritten.")
        print_line(
            f"Expired {counted(done.snapshots_expired, 'snapshot')}, deleted "
            f"{counted(done.files_deleted, 'file')}."
        )
    if done.after is not None:
        print_proof("After", done.after)
    print_landing(done.landing)
    for remark in done.remarks:
        print_line(f"Not done: {remark}.")
    for place in done.not_reached:
        print_line(f"Not reached: {place}.")


def _would_erase(done: IcebergErasure) -> str:
    files = counted(done.files_rewritten, "file")
    return f"Would erase {counted(done.matching, 'row')} in {files} of the newest snapshot."
