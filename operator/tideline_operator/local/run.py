"""`tideline run`: the embedded reconciler on the command line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from tideline.clock import SystemClock
from tideline.ingest.operation.operation import Place
from tideline.secret_values import masked, masked_json
from tideline_operator.launch.local_process import LocalProcessLauncher
from tideline_operator.local.preview import preview_run
from tideline_operator.local.reconciler import Reconciler
from tideline_operator.local.run_lock import RunLock
from tideline_operator.local.table_files import TableFiles
from tideline_operator.report.run_report import LineReporter, Reporter, TerminalReporter
from tideline_operator.resources.lake_table import TableFormat

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
    "--dry-run", is_flag=True, help="Say what would be started first; change nothing, then end."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines for machines.")
def run_command(
    paths: tuple[Path, ...], once: bool, state_folder: Path, dry_run: bool, as_json: bool
) -> int:
    """Keep the tables in FILE as they declare, with local processes.

    Ingests what arrives in the landing prefixes, rolls back what dead writers left, runs the table
    services that are due, and reports what it did and what comes next. Ctrl-C lets the operation
    under way finish; a second one abandons it. Credentials come from the environment.
    """
    files = TableFiles(paths, ca_bundle=os.environ.get("AWS_CA_BUNDLE"))
    if dry_run:
        return _preview(files, state_folder, as_json=as_json)
    reporter = _reporter(as_json)
    files.look_at_catalogs(reporter.note)
    with RunLock(state_folder) as lock:
        lock.hold(files.tables)
        for note in files.notes(os.environ):
            reporter.note(note)
        log_path = state_folder / "worker.log"
        launcher = LocalProcessLauncher(log_path, _places(files), inherited=lock.files)
        reconciler = Reconciler(
            files, launcher, reporter, lock, state_folder=state_folder, clock=SystemClock()
        )
        reconciler.listen_to_signals()
        try:
            return reconciler.run(once=once)
        finally:
            reporter.close()
            launcher.close()


def _preview(files: TableFiles, state_folder: Path, *, as_json: bool) -> int:
    files.look_at_catalogs(lambda text: click.echo(text, err=True))
    previews = preview_run(files.tables, state_folder, SystemClock())
    for preview in previews:
        if as_json:
            click.echo(json.dumps(masked_json(preview.to_json_object()), ensure_ascii=False))
            continue
        for line in preview.lines():
            click.echo(masked(line))
    codes = [preview.exit_code for preview in previews]
    codes += [problem.exit_code for problem in files.catalogs.problems]
    return max(codes, default=0)


def _reporter(as_json: bool) -> Reporter:
    if as_json or not sys.stdout.isatty():
        return LineReporter(as_json=as_json)
    return TerminalReporter()


def _places(files: TableFiles) -> tuple[Place, ...]:
    """The places that Spark itself must reach. Tasks on Iceberg tables use our clients."""
    tables = (table for table in files.tables if table.spec.format is TableFormat.HUDI)
    places = [place for table in tables for place in (table.location, *table.landings.values())]
    return tuple(dict.fromkeys(place for place in places if place.uri))
