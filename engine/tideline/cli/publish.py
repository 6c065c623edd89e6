"""`tideline publish`: a Hudi table that every Iceberg engine reads."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.hudi.table.table_config import ICEBERG, PUBLISH
from tideline.lake_table import LakeTable
from tideline.publication.publish import Published
from tideline.wording import counted

_FROM_NOW_ON = {
    False: "Every commit of Tideline is published from now on.",
    True: "Would keep in the table that every commit of Tideline is published.",
}


@command("publish")
@table_options
@dry_run_option("Show which files would come and go; change nothing.")
@click.option(
    "--always", is_flag=True, help="Keep in the table that every commit of Tideline is published."
)
def publish_command(
    uri: str, storage: dict[str, str], as_json: bool, dry_run: bool, always: bool
) -> None:
    """Bring the Iceberg metadata of the Hudi table at URI up to its newest commit.

    It lies in the table's own folder and names the same data files. A table with the property
    tideline.publish=iceberg is published after every commit; this catches up with other writers.
    """
    table = LakeTable.open(uri, storage_options=storage)
    with progress("looking what to publish" if dry_run else "publishing the table"):
        done = table.publish(dry_run=dry_run)
    if always and not dry_run:
        with table.hoodie_table.lock().acquire():
            table.hoodie_table.reload_config()
            table.hoodie_table.update_properties({PUBLISH: ICEBERG})
    if as_json:
        print_json({**done.to_json_object(), "dry_run": dry_run})
        return
    print_line(_preview(done) if dry_run and done.instant else _sentence(done))
    if always:
        print_line(_FROM_NOW_ON[dry_run])


def _preview(done: Published) -> str:
    return f"Would publish {done.instant}: {_files(done)}."


def _sentence(done: Published) -> str:
    if done.instant is None:
        return "The table has no commit yet: there is nothing to publish."
    if not done.is_new:
        return f"Published up to {done.instant} already."
    return f"Published {done.instant} as Iceberg snapshot {done.snapshot_id}: {_files(done)}."


def _files(done: Published) -> str:
    return f"{counted(done.files_added, 'file')} added, {done.files_removed} removed"
