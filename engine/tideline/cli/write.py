"""`tideline write`: source files into a table, as one commit."""

from __future__ import annotations

import click

from tideline.cli.options import parse_pairs, table_options
from tideline.cli.output import print_facts, print_json, print_line
from tideline.commit_report import CommitReport
from tideline.lake_table import LakeTable
from tideline.spark.session import get_session
from tideline.spark.sources import read_source
from tideline.storage.location import StoreLocation
from tideline.wording import size_text
from tideline.write.operation import WriteOperation


@click.command("write")
@table_options
@click.option(
    "--source", required=True, metavar="PATH", help="A file or folder: a path, file:// or s3://."
)
@click.option(
    "--format",
    "source_format",
    type=click.Choice(["parquet", "csv", "json"]),
    default="parquet",
    show_default=True,
)
@click.option(
    "--operation",
    type=click.Choice([operation.value for operation in WriteOperation]),
    default="upsert",
    show_default=True,
)
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="A Hudi write setting (hoodie.*); may be repeated.",
)
@click.option(
    "--read-option",
    "read_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="A Spark read option of the format, such as sep; may be repeated.",
)
@click.option(
    "--token",
    metavar="TEXT",
    help="Names this write: repeated with the same token it is never written twice.",
)
def write_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    source: str,
    source_format: str,
    operation: str,
    options: tuple[str, ...],
    read_options: tuple[str, ...],
    token: str | None,
) -> None:
    """Write the rows of source files into the table at URI, as one commit."""
    table = LakeTable.open(uri, storage_options=storage)
    settings = parse_pairs(options, option="--option")
    reading = parse_pairs(read_options, option="--read-option")
    found = StoreLocation.of(source, storage)
    spark = get_session("tideline write", locations=[table.hoodie_table.location, found])
    rows = read_source(spark, found, source_format, reading)
    report = table.write(rows, operation, options=settings, token=token)
    if as_json:
        print_json(report.to_json_object())
    else:
        print_report(report)


def print_report(report: CommitReport) -> None:
    """A commit as people read it."""
    print_facts(
        {
            "commit": f"{report.instant} ({report.operation})",
            "rows": f"{report.rows_inserted:,} inserted, {report.rows_updated:,} updated, "
            f"{report.rows_deleted:,} deleted",
            "files": f"{report.files_written} written, {size_text(report.bytes_written)}",
            "took": f"{report.seconds:.1f} s",
        }
    )
    for note in report.notes:
        print_line(f"Note: {note}.")
