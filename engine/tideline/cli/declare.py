"""`tideline declare`: state once what the files of a table do not say."""

from __future__ import annotations

from contextlib import nullcontext

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.errors import ConfigError
from tideline.hudi.index.declaration import require_declarable
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.uniqueness import IN_PARTITION, IN_TABLE
from tideline.hudi.open_table import open_table
from tideline.hudi.table.table_config import INDEX_TYPE, TIMEZONE
from tideline.hudi.timeline.known_zone import doubt_of
from tideline.hudi.timeline.zone import TimelineZone
from tideline.storage.location import StoreLocation

_INDEXES = [kind.value for kind in IndexType if not kind.places_by_hash]


@command("declare")
@table_options
@click.option(
    "--timezone",
    metavar="ZONE",
    help="The time zone in which other writers make instants, such as America/Los_Angeles or UTC.",
)
@click.option(
    "--index",
    type=click.Choice(_INDEXES, case_sensitive=False),
    help="The index that every writer uses; a global one says that keys are unique in the whole "
    "table.",
)
@dry_run_option("Show what would be declared, or why it cannot be; change nothing.")
def declare_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    timezone: str | None,
    index: str | None,
    dry_run: bool,
) -> None:
    """Keep in the table at URI, for every later command, what its files do not say.

    The zone of its instants, where hoodie.table.timeline.timezone is LOCAL, Hudi's default, and
    Hudi runs elsewhere than in UTC. The index, where writers of Hudi name one in their options: a
    global index leaves no trace in the table.
    """
    if timezone is None and index is None:
        raise ConfigError("nothing is declared; give --timezone or --index")
    table = open_table(StoreLocation.of(uri, storage))
    zone = TimelineZone.parse(timezone) if timezone is not None else None
    kind = IndexType.parse(index) if index is not None else None
    with nullcontext() if dry_run else table.lock().acquire():
        config = table.properties.reload()
        changes: dict[str, str | None] = {}
        if zone is not None:
            config.zone_declared_as(zone.name)
            changes[TIMEZONE] = zone.name
        if kind is not None:
            require_declarable(table, kind)
            changes[INDEX_TYPE] = kind.value
        if not dry_run:
            table.properties.update(changes)
    doubt = doubt_of(zone, table.timeline().made_ms) if zone is not None else None
    if as_json:
        declared: dict[str, object] = (
            {} if zone is None else {"timezone": zone.name, "doubt": doubt}
        )
        if kind is not None:
            declared["index"] = kind.value
        print_json({**declared, "dry_run": dry_run})
        return
    if dry_run:
        print_line("Nothing is declared yet; without --dry-run it would be:")
    if zone is not None:
        print_line(f"The instants of {table.uri} are those of clocks in {zone.name}.")
    if kind is not None:
        print_line(f"Writers of {table.uri} use {kind}; its keys are {_uniqueness(kind)}.")
    if kind is not None and kind.is_global:
        print_line("Whether they are so now: `tideline check --keys`.")
    if doubt is not None:
        print_line(f"Note: {doubt}.")


def _uniqueness(kind: IndexType) -> str:
    return IN_TABLE if kind.is_global else IN_PARTITION
