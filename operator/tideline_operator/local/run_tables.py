"""What `tideline run` does with its files: reconcile their tables, or say what it would start."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from tideline.clock import SystemClock
from tideline.ingest.location import Location
from tideline.secret_values import masked, masked_json
from tideline.storage.egress.client_files import ClientFiles
from tideline_operator.launch.local_process import LocalProcessLauncher
from tideline_operator.local.preview import preview_run
from tideline_operator.local.reconciler import Reconciler, most_severe
from tideline_operator.local.rehearsal import worker
from tideline_operator.local.run_lock import RunLock
from tideline_operator.local.table_files import TableFiles
from tideline_operator.report.run_report import LineReporter, Reporter, TerminalReporter
from tideline_operator.resources.lake_table import TableFormat


def run_tables(
    paths: tuple[Path, ...], state_folder: Path, *, once: bool, dry_run: bool, as_json: bool
) -> int:
    """Reconcile the tables in `paths` until nothing is due (`once`), or until a signal; the exit
    code. Raises ConfigError for files that are not valid, and where another process has them."""
    files = TableFiles(
        paths,
        ca_bundle=os.environ.get("AWS_CA_BUNDLE"),
        client_files=ClientFiles.of_environment(os.environ),
    )
    if dry_run:
        return _preview(files, state_folder, as_json=as_json)
    reporter = _reporter(as_json)
    files.look_for_tables(reporter.note)
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
    files.look_for_tables(lambda text: click.echo(text, err=True))
    places = _places(files)
    previews = preview_run(files.tables, state_folder, SystemClock(), lambda: worker(places))
    for preview in previews:
        if as_json:
            click.echo(json.dumps(masked_json(preview.to_json_object()), ensure_ascii=False))
            continue
        for line in preview.lines():
            click.echo(masked(line))
    codes = {code for preview in previews for code in preview.exit_codes}
    return most_severe(codes | {problem.exit_code for problem in files.problems})


def _reporter(as_json: bool) -> Reporter:
    if as_json or not sys.stdout.isatty():
        return LineReporter(as_json=as_json)
    return TerminalReporter()


def _places(files: TableFiles) -> tuple[Location, ...]:
    """The places that Spark itself must reach. Tasks on Iceberg tables use our clients."""
    tables = (table for table in files.tables if table.spec.format is TableFormat.HUDI)
    places = [place for table in tables for place in table.places]
    return tuple(dict.fromkeys(place for place in places if place.uri))
