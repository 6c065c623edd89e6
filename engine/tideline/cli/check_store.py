"""`tideline check-store`: may concurrent writers be let loose on this store?"""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import progress
from tideline.errors import ConfigError
from tideline.storage.location import StoreLocation
from tideline.storage.probe.race import THOROUGH
from tideline.storage.probe.report import ProbeOutcome, StoreReport
from tideline.storage.probe.run import check_store
from tideline.wording import counted

_VERDICTS = {
    ProbeOutcome.PASSED: "Every check passed: concurrent writers are safe here.",
    ProbeOutcome.UNSUPPORTED: "Tideline cannot write here: the store lacks what it needs.",
    ProbeOutcome.FAILED: "Tables would be damaged here: the store breaks what it promises.",
}


@command("check-store")
@table_options
@click.option(
    "--also-endpoint",
    "other_endpoints",
    multiple=True,
    metavar="URL",
    help="Another S3 endpoint of the same store, to race through as well; may be repeated.",
)
def check_store_command(
    uri: str, storage: dict[str, str], as_json: bool, other_endpoints: tuple[str, ...]
) -> None:
    """Race writers on the store at URI and look whether it keeps what it promises.

    Works in a directory of its own below URI, with about 1,300 small objects, and removes it again.
    Exit code 1 unless every check passed.
    """
    locations = [StoreLocation.of(uri, storage)]
    for endpoint in other_endpoints:
        locations.append(StoreLocation.of(uri, {**storage, "endpoint": endpoint}))
    if other_endpoints and locations[0].scheme != "s3":
        raise ConfigError("--also-endpoint is for s3:// locations", value=uri)
    # A connection pool of its own for each racer, endpoint by endpoint.
    stores = [locations[number % len(locations)].open() for number in range(THOROUGH.racers)]
    with progress("racing writers"):
        report = check_store(stores)
    if as_json:
        print_json({"uri": locations[0].uri, **report.to_json_object()})
    else:
        _print(report)
    if report.outcome is not ProbeOutcome.PASSED:
        raise click.exceptions.Exit(1)


def _print(report: StoreReport) -> None:
    print_table(
        ("check", "outcome", ""),
        [(result.promise, result.outcome, result.message) for result in report.results],
    )
    print_line()
    if report.complaints:
        print_line(f"{counted(len(report.complaints), 'check')} not passed.")
    print_line(_VERDICTS[report.outcome])
    for note in report.notes:
        print_line(f"Note: {note}.")
