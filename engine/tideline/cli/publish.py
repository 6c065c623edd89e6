"""`tideline publish`: a Hudi table that every Iceberg engine reads."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, yes_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import parse_pairs, table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.errors import ConfigError
from tideline.hudi.table.table_config import ICEBERG, PUBLISH
from tideline.lake_table import LakeTable
from tideline.plain_json import plain
from tideline.publication.outcome import Published
from tideline.wording import counted

_OF_ICEBERG = "readers of Iceberg take it as it is"

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
@click.option(
    "--identifier",
    metavar="NAMESPACE.NAME",
    help="Publish as this table of a catalog. The table remembers it.",
)
@click.option(
    "--catalog",
    metavar="NAME|URI",
    help="The catalog: its name in PyIceberg's configuration, or its URI.",
)
@click.option(
    "--catalog-option",
    "catalog_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="The catalog's type, uri or warehouse; may be repeated.",
)
@click.option(
    "--merge/--no-merge",
    default=None,
    help="Publish what logs of a merge-on-read table hold as well. The table remembers it.",
)
@click.option(
    "--stop", is_flag=True, help="Commits are no longer published; what is published stays."
)
@click.option("--drop", is_flag=True, help="With --stop: delete what is published as well.")
@yes_option
def publish_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    dry_run: bool,
    always: bool,
    identifier: str | None,
    catalog: str | None,
    catalog_options: tuple[str, ...],
    merge: bool | None,
    stop: bool,
    drop: bool,
    yes: bool,
) -> None:
    """Bring the Iceberg metadata of the Hudi table at URI up to its newest commit.

    It names the same data files. It lies in the table's own folder, where a catalog may keep track
    of it. A table with the property tideline.publish=iceberg is published after every commit; this
    catches up with other writers.
    """
    options = parse_pairs(catalog_options, option="--catalog-option")
    if drop and not stop:
        raise ConfigError("--drop needs --stop")
    if stop and (always or dry_run or identifier or catalog or options or merge is not None):
        raise ConfigError("--stop goes with --drop alone")
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    if stop:
        if drop:
            ask(f"Delete the Iceberg metadata of {uri}?", yes=yes)
        _stop(table, drop=drop, as_json=as_json)
        return
    with progress("looking what to publish" if dry_run else "publishing the table"):
        done = table.publish(
            catalog=catalog,
            identifier=identifier,
            catalog_options=options,
            merge=merge,
            dry_run=dry_run,
        )
    if always and not dry_run:
        table.hoodie_table.properties.set({PUBLISH: ICEBERG})
    if as_json:
        print_json({**plain(done), "dry_run": dry_run})
        return
    print_line(_preview(done) if dry_run and done.instant else _sentence(done))
    if always:
        print_line(_FROM_NOW_ON[dry_run])


def _stop(table: LakeTable, *, drop: bool, as_json: bool) -> None:
    removed = table.stop_publishing(drop=drop)
    if as_json:
        print_json({"dropped": drop, "files_removed": removed})
    elif drop:
        print_line(f"Dropped what was published: {counted(removed, 'file')} of metadata deleted.")
    else:
        print_line("Commits are no longer published; what is published stays.")


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
