"""`tideline sync`: a Hudi table that engines find by its name in a metastore."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.errors import ConfigError
from tideline.plain_json import plain
from tideline.registration.outcome import Synced

_OF_ICEBERG = "other engines find it in its catalog"

_FROM_NOW_ON = {
    False: "Every commit of Tideline is registered from now on.",
    True: "Would keep in the table that every commit of Tideline is registered.",
}


@command("sync")
@table_options
@dry_run_option("Show what would be registered; change nothing.")
@click.option(
    "--hive",
    metavar="URI",
    help="Address of a Hive metastore: thrift://host:9083, or several with commas.",
)
@click.option(
    "--glue",
    metavar="REGION",
    help="Region of AWS's Glue Data Catalog, such as eu-central-1, or its address.",
)
@click.option(
    "--database", help="The database in the metastore; that of the table, or default, unless given."
)
@click.option("--name", help="The table's name there; its own unless given.")
@click.option(
    "--all-partitions",
    is_flag=True,
    help="Compare all partitions, not only those that were written to since the last time.",
)
@click.option(
    "--always",
    is_flag=True,
    help="Keep in the table that every commit of Tideline is registered; the address is not kept.",
)
@click.option("--stop", is_flag=True, help="Commits are no longer registered; what is, stays.")
def sync_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    dry_run: bool,
    hive: str | None,
    glue: str | None,
    database: str | None,
    name: str | None,
    all_partitions: bool,
    always: bool,
    stop: bool,
) -> None:
    """Register the Hudi table at URI in a metastore, up to its newest commit.

    Trino, Hive, Spark, Presto and Athena find it there by its name, with its partitions. What is
    registered is what Hudi's own sync tool registers. Without --hive and --glue: where the table's
    property tideline.sync says, at the address in TIDELINE_HIVE_URI or TIDELINE_GLUE_URI.
    """
    if stop and (hive or glue or database or name or all_partitions or always or dry_run):
        raise ConfigError("--stop goes alone")
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    if stop:
        table.stop_syncing()
        print_line("Commits are no longer registered; what is registered stays.")
        return
    with progress("looking what to register" if dry_run else "registering the table"):
        found = table.sync(
            hive=hive,
            glue=glue,
            database=database,
            name=name,
            all_partitions=all_partitions,
            always=always,
            dry_run=dry_run,
        )
    if as_json:
        print_json({"dry_run": dry_run, "synced": [plain(done) for done in found]})
        return
    for done in found:
        print_line(_sentence(done, dry_run=dry_run))
    if always:
        print_line(_FROM_NOW_ON[dry_run])


def _sentence(done: Synced, *, dry_run: bool) -> str:
    from tideline.registration.follow import synced_words

    if done.instant is None:
        return "The table has no commit yet: there is nothing to register."
    words = synced_words(done)
    if not done.is_changed:
        return f"Registered in {done.metastore} up to {done.instant}: {words}."
    start = "Would register" if dry_run else "Registered"
    return f"{start} {done.instant} in {done.metastore}: {words}."
