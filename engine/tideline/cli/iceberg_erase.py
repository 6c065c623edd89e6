"""`tideline iceberg erase`: rows leave every file of an Iceberg table, with a proof."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.erase import (
    end_with,
    landing_options,
    print_landing,
    refuse_without_landing,
)
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
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
    end_with(done, _lines(done), as_json=as_json, table=table.io.location.uri)


def _lines(done: IcebergErasure) -> Iterator[str]:
    if done.is_preview:
        yield _would_erase(done)
        return
    files = counted(done.files_rewritten, "file")
    yield f"Erased {counted(done.matching, 'row')}: {files} rewritten."
    yield (
        f"Expired {counted(done.snapshots_expired, 'snapshot')}, deleted "
        f"{counted(done.files_deleted, 'file')}."
    )


def _would_erase(done: IcebergErasure) -> str:
    files = counted(done.files_rewritten, "file")
    return f"Would erase {counted(done.matching, 'row')} in {files} of the newest snapshot."
