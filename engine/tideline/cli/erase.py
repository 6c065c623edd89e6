"""`tideline erase`: rows leave every file of a table, with a proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.erasure.report import Erasure, ErasureReport, HoldingFile, LandingSearch, Proof
from tideline.errors import ConfigError
from tideline.wording import counted

_OF_ICEBERG = "`tideline iceberg erase` takes rows out of every file"


def landing_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --landing and --delete-landing-files."""
    decorated = click.option(
        "--delete-landing-files",
        is_flag=True,
        help="With --landing: delete files there that hold such rows, whole.",
    )(command)
    return click.option(
        "--landing",
        multiple=True,
        metavar="PATH",
        help="A prefix with source files, to be searched with its quarantine, or where rows of a "
        "stream are set aside; may be repeated.",
    )(decorated)


def refuse_without_landing(landing: tuple[str, ...], *, delete_landing_files: bool) -> None:
    """Raise ConfigError where files are to be deleted and no prefix is named."""
    if delete_landing_files and not landing:
        raise ConfigError("--delete-landing-files needs --landing")


@command("erase")
@table_options
@click.option(
    "--where", required=True, metavar="CONDITION", help="Which rows, in SQL: \"email = 'x@y.org'\"."
)
@click.option(
    "--prove",
    is_flag=True,
    help="Count the rows in every file, before and after; reads all files twice.",
)
@click.option(
    "--drop-savepoints",
    is_flag=True,
    help="Give up savepoints, which are all in the way, once the rows are deleted.",
)
@landing_options
@dry_run_option("Show what matches and what is in the way; change nothing.")
@yes_option
def erase_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    where: str,
    prove: bool,
    drop_savepoints: bool,
    landing: tuple[str, ...],
    delete_landing_files: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Erase rows of the table at URI: from its newest version and from every older file.

    They are deleted, logs are compacted, and every older version of a file is cleaned: time travel
    ends here for all rows. An erasure that died is finished by the same command. Exit code 1 when
    the proof or the search of --landing finds a row left, or a file that it could not read.
    """
    refuse_without_landing(landing, delete_landing_files=delete_landing_files)
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    if not dry_run and is_asked(yes=yes):
        found = table.erase(where, landing=landing, dry_run=True)
        if delete_landing_files:
            print_landing(found.landing)
        ask(f"{_would_erase(found)} Every older version of the table goes. Continue?", yes=yes)
    with progress("looking for the rows" if dry_run else "erasing the rows"):
        done = table.erase(
            where,
            prove=prove,
            drop_savepoints=drop_savepoints,
            landing=landing,
            delete_landing_files=delete_landing_files,
            dry_run=dry_run,
        )
    end_with(done, _lines(done), as_json=as_json)


def end_with(done: ErasureReport, lines: Iterable[str], *, as_json: bool, **more: str) -> None:
    """Print what an erasure of a table of either format did, `lines` between the two proofs, and
    end with exit code 1 where it is not complete."""
    if as_json:
        print_json({**more, **done.to_json_object()})
    else:
        if done.before is not None:
            _print_proof("Before", done.before)
        for line in lines:
            print_line(line)
        if done.after is not None:
            _print_proof("After", done.after)
        print_landing(done.landing)
        for remark in done.remarks:
            print_line(f"Not done: {remark}.")
        for place in done.not_reached:
            print_line(f"Not reached: {place}.")
    if not done.is_complete:
        raise click.exceptions.Exit(1)


def _lines(done: Erasure) -> Iterator[str]:
    if done.is_preview:
        yield _would_erase(done)
        for instant in done.savepoints:
            yield f"In the way: the savepoint {instant}; --drop-savepoints gives it up."
    else:
        yield from _steps(done)


def _would_erase(done: Erasure) -> str:
    return f"Would erase {counted(done.matching, 'row')} of the table."


def _steps(done: Erasure) -> Iterator[str]:
    at = f" at {done.deleted_at}" if done.deleted_at else ""
    yield f"Deleted {counted(done.matching, 'row')}{at}."
    for instant in done.compacted:
        yield f"Compacted at {instant}."
    for instant in done.savepoints:
        yield f"Gave up the savepoint {instant}."
    if done.iceberg_snapshots_dropped:
        yield f"Dropped {counted(done.iceberg_snapshots_dropped, 'Iceberg snapshot')}."
    yield f"Cleaned {counted(len(done.files_cleaned), 'file')} of older versions."
    if done.partitions_dropped:
        yield (
            f"Dropped {', '.join(done.partitions_dropped)} from Hudi's metadata table, for bounds "
            "and keys there may be those of the rows. `tideline index create` makes them again."
        )


def _print_proof(title: str, proof: Proof) -> None:
    """What is on disk, file by file."""
    held = f"{counted(proof.rows, 'row')} on disk in {counted(len(proof.holding), 'file')}"
    print_line(f"{title}: {held}, of {proof.files_read:,} read.")
    for file in proof.holding:
        print_line(f"  {file.path}  {counted(file.rows, 'row')}, {_kind(file)}")
    for unread in proof.unread:
        print_line(f"  not counted: {unread.path} ({unread.reason})")


def print_landing(searches: Iterable[LandingSearch]) -> None:
    """What landing prefixes hold, file by file, and what was deleted there."""
    for search in searches:
        held = f"{counted(search.rows, 'row')} in {counted(len(search.holding), 'file')}"
        print_line(f"Landing {search.uri}: {held}, of {search.files_read:,} read.")
        for file in search.holding:
            gone = ", deleted" if file.path in search.deleted else ""
            print_line(f"  {file.path}  {counted(file.rows, 'row')}{gone}")
        for unread in search.unread:
            print_line(f"  not counted: {unread.path} ({unread.reason})")


def _kind(file: HoldingFile) -> str:
    kept = f", kept by savepoint {', '.join(map(str, file.savepoints))}" if file.savepoints else ""
    return f"version {file.version}{kept}"
