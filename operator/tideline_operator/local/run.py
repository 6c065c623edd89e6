"""`tideline run`: the embedded reconciler on the command line."""

from __future__ import annotations

from pathlib import Path

import click

STATE_FOLDER = ".tideline"


@click.command("run")
@click.option(
    "-f",
    "--file",
    "paths",
    metavar="FILE",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="A YAML file with LakeTables and LakeCatalogs, or a folder of them; may be repeated.",
)
@click.option("--once", is_flag=True, help="End when nothing is due.")
@click.option(
    "--state",
    "state_folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(STATE_FOLDER),
    show_default=True,
    help="Folder for status and logs; it can be deleted.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would be started first, and read the first files: rows, columns, keys, what "
    "would be set aside; change nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines for machines.")
def run_command(
    paths: tuple[Path, ...], once: bool, state_folder: Path, dry_run: bool, as_json: bool
) -> int:
    """Keep the tables in FILE as they declare, with local processes.

    Ingests what arrives in the landing prefixes, rolls back what dead writers left, runs the table
    services that are due, and reports what it did and what comes next. Ctrl-C lets the operation
    under way finish; a second one abandons it. Credentials come from the environment.

    With --once it ends with exit code 6 where nothing else went wrong and files, or rows of files,
    wait in a quarantine, so that these rows are not in the table; with --dry-run where they would.
    It ends with 4 where partitions of a topic have no leader, and says which records wait for a
    transaction that is open.
    """
    # The list of commands starts without the planner.
    from tideline_operator.local.run_tables import run_tables

    return run_tables(paths, state_folder, once=once, dry_run=dry_run, as_json=as_json)
