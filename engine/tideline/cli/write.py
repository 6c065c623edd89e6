"""`tideline write`: source files into a table, as one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tideline.cli.any_table import any_table_options, open_any
from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, yes_option
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import complete_settings, parse_pairs
from tideline.cli.output import print_facts, print_json, print_line
from tideline.cli.progress import progress
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError
from tideline.hudi.index.uniqueness import IN_PARTITION, IN_TABLE
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.write.write_operation import WriteOperation
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.ingest.execute.write_files import SourceWrite, SourceWritten, write_sources
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.named_files import find_sources, format_by_name, source_bytes
from tideline.ingest.sources.files.read_options import require_known
from tideline.lake_table import LakeTable
from tideline.settings.setting import SettingPlace
from tideline.storage.location import StoreLocation
from tideline.wording import counted, size_text, spending_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideline.iceberg.table.open_table import IcebergTable

_PATHS_SHOWN_MAX = 20
_TAKING_ROWS_AWAY = (
    WriteOperation.DELETE,
    WriteOperation.DELETE_PARTITION,
    WriteOperation.INSERT_OVERWRITE,
    WriteOperation.INSERT_OVERWRITE_TABLE,
)
_OPERATIONS = list(
    dict.fromkeys(
        operation.value
        for operation in (
            *WriteOperation,
            *(operation for operation in IcebergOperation if operation.takes_rows),
        )
    )
)
_UNIQUENESS = {"partition": IN_PARTITION, "table": IN_TABLE}


@command("write")
@any_table_options
@click.option(
    "--source",
    "rows_from",
    required=True,
    metavar="PATH",
    help="A file or folder: a path, file:// or s3://.",
)
@click.option(
    "--format",
    "source_format",
    type=click.Choice(["parquet", "csv", "json"]),
    help="By default as the files' names end (.csv, .json, .jsonl, .ndjson, compressed ones too), "
    "else parquet.",
)
@click.option(
    "--operation",
    type=click.Choice(_OPERATIONS),
    help="Of a Hudi table upsert, unless an option says otherwise; of an Iceberg table append.",
)
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    shell_complete=complete_settings(SettingPlace.WRITE),
    help="A Hudi write setting (hoodie.*), or an Iceberg property (write.*, commit.*); may be "
    "repeated.",
)
@click.option(
    "--read-option",
    "read_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="A Spark read option of the format, such as sep; may be repeated.",
)
@click.option(
    "--on-bad-file",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do with a file that cannot be taken in.",
)
@click.option(
    "--on-bad-row",
    type=click.Choice(["fail", "quarantine"]),
    default="fail",
    show_default=True,
    help="What to do with a row that cannot: fail its file, or keep it in _quarantine/ next to it.",
)
@click.option(
    "--max-bad-rows",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Largest number of rows of one file that are set aside.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse files that lack a column of the table, instead of filling in nulls.",
)
@click.option(
    "--token",
    metavar="TEXT",
    help="Names this write: repeated with the same token it is never written twice.",
)
@click.option("--branch", metavar="NAME", help="The branch of an Iceberg table, main without.")
@click.option(
    "--where",
    metavar="CONDITION",
    help="Of an Iceberg table: which rows an overwrite replaces, in SQL; all without.",
)
@click.option(
    "--key",
    metavar="COLUMNS",
    help="Of an Iceberg table: the key of an upsert or delete, where the table has none.",
)
@dry_run_option("Show what would be written, without reading rows; change nothing.")
@yes_option
def write_command(
    source: TableSource,
    rows_from: str,
    as_json: bool,
    source_format: str | None,
    dry_run: bool,
    yes: bool,
    **asked: Any,
) -> None:
    """Write the rows of source files into the table at URI, as one commit."""
    table = open_any(source)
    found = StoreLocation.of(rows_from, source.storage)
    source_format = source_format or format_by_name(found)
    reading = parse_pairs(asked["read_options"], option="--read-option")
    require_known(FileFormat(source_format), reading)
    wanted = SourceWrite(
        found,
        source_format,
        asked["operation"],
        reading=reading,
        skips_bad_files=asked["on_bad_file"] == "skip",
        bad_rows_max=asked["max_bad_rows"] if asked["on_bad_row"] == "quarantine" else None,
        token=asked["token"],
        strict=asked["strict"],
    )
    if isinstance(table, HoodieTable):
        for name in ("branch", "where", "key"):
            if asked.pop(name):
                raise ConfigError(f"--{name} is for Iceberg tables: leave it out")
        settings = parse_pairs(asked["options"], option="--option")
        write = replace(wanted, options=settings)
        _write_hudi(LakeTable(table), write, (dry_run, yes, as_json))
    else:
        _write_iceberg(table, wanted, asked, (dry_run, yes, as_json))


def _write_hudi(table: LakeTable, wanted: SourceWrite, how: tuple[bool, bool, bool]) -> None:
    dry_run, yes, as_json = how
    planned, _ = table.writer.planned_write(wanted.operation, wanted.options)
    if dry_run:
        _print_plan(table.uri, planned.value, wanted.location, as_json=as_json)
        return
    if planned in _TAKING_ROWS_AWAY:
        _ask(planned.value, table.uri, yes=yes)
    with progress("writing the table"):
        place = table.hoodie_table.location
        written = write_sources(table, _session([place, wanted.location], wanted), wanted)
    _print_written(written, as_json=as_json)


def _write_iceberg(
    table: IcebergTable, wanted: SourceWrite, asked: dict[str, Any], how: tuple[bool, bool, bool]
) -> None:
    # Takes a tenth of a second to import, which writes of Hudi tables need not wait for.
    from tideline.cli.iceberg_write import asked_write
    from tideline.ingest.execute.write_iceberg_files import write_iceberg_sources

    dry_run, yes, as_json = how
    write, uri = asked_write(table, asked), table.metadata.location
    if dry_run:
        _print_plan(uri, write.operation.value, wanted.location, as_json=as_json)
        return
    if write.operation.takes_rows_away:
        _ask(write.operation.value, uri, yes=yes)
    with progress("writing the table"):
        # Tasks write the table's files by the store of the table, and Spark reads the sources.
        session = _session([wanted.location], wanted)
        written = write_iceberg_sources(table, write, wanted, session)
    _print_written(written, as_json=as_json)


def _session(locations: Sequence[StoreLocation], wanted: SourceWrite) -> Callable[[], SparkSession]:
    def open_session() -> SparkSession:
        from tideline.spark.session.spark_session import spark_session

        work_bytes = source_bytes(wanted.location)
        return spark_session("tideline write", locations=locations, work_bytes=work_bytes)

    return open_session


def _ask(operation: str, table: str, *, yes: bool) -> None:
    ask(f"{operation} takes rows away from {table}. Continue?", yes=yes)


def _print_written(written: SourceWritten, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                **written.report.to_json_object(),
                "skipped": dict(written.skipped),
                "rows_set_aside": {path: len(rows) for path, rows in written.rows.items()},
                "dry_run": False,
            }
        )
    else:
        print_report(written.report)
        for path, reason in written.skipped.items():
            print_line(f"Skipped {path}: {reason}.")
        for path, rows in written.rows.items():
            print_line(
                f"Set aside {counted(len(rows), 'row')} of {path} in _quarantine/: {rows[0]}."
            )


def _print_plan(uri: str, operation: str, source: StoreLocation, *, as_json: bool) -> None:
    """What a write would take; whether its rows fit is found out by writing them."""
    sources = find_sources(source)
    folder, paths = sources.folder, sources.paths
    if as_json:
        files = [f"{folder.uri}/{path}" for path in paths]
        print_json({"dry_run": True, "operation": operation, "source_files": files})
        return
    print_line(f"Would {operation} the rows of {counted(len(paths), 'file')} into {uri}.")
    for path in paths[:_PATHS_SHOWN_MAX]:
        print_line(f"  {folder.uri}/{path}")
    if len(paths) > _PATHS_SHOWN_MAX:
        print_line(f"  and {len(paths) - _PATHS_SHOWN_MAX} more; --json names them all")


def print_report(report: CommitReport) -> None:
    """A commit as people read it."""
    print_facts(
        {
            "commit": f"{report.instant} ({report.operation})",
            "rows": f"{report.rows_inserted:,} inserted, {report.rows_updated:,} updated, "
            f"{report.rows_deleted:,} deleted",
            "files": f"{report.files_written:,} written, {size_text(report.bytes_written)}",
            "new columns": ", ".join(report.columns_added) or None,
            "wider columns": ", ".join(report.columns_widened) or None,
            "keys": _UNIQUENESS.get(report.keys_unique_in or ""),
            "took": f"{report.seconds:.1f} s",
            "spent": spending_text(report.core_seconds, report.requests),
        }
    )
    for note in report.notes:
        print_line(f"Note: {note}.")
