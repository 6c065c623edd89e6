"""`tideline declare`: say once of a table what its files do not tell."""

from __future__ import annotations

import click

from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.storage.location import StoreLocation
from tideline.table.hoodie_table import HoodieTable
from tideline.table.table_config import TIMEZONE
from tideline.timeline.known_zone import doubt_of
from tideline.timeline.zone import TimelineZone


@click.command("declare")
@table_options
@click.option(
    "--timezone",
    required=True,
    metavar="ZONE",
    help="Whose clock the instants of a table of others are, such as America/Los_Angeles or UTC.",
)
def declare_command(uri: str, storage: dict[str, str], as_json: bool, timezone: str) -> None:
    """Keep in the table at URI, for every later command, which zone its instants are in.

    Needed where hoodie.table.timeline.timezone is LOCAL, Hudi's default, and Hudi runs elsewhere
    than in UTC.
    """
    table = HoodieTable.open(StoreLocation.of(uri, storage))
    zone = TimelineZone.parse(timezone)
    with table.lock().acquire():
        table.reload_config().zone_declared_as(zone.name)
        table.update_properties({TIMEZONE: zone.name})
    doubt = doubt_of(zone, table.timeline().made_ms)
    if as_json:
        print_json({"timezone": zone.name, "doubt": doubt})
        return
    print_line(f"The instants of {table.uri} are those of clocks in {zone.name}.")
    if doubt is not None:
        print_line(f"Note: {doubt}.")
