"""`tideline index`: make, list and drop the indexes that queries of Hudi's leave files out by."""

from __future__ import annotations

import click

from tideline.cli.command import TidelineCommand, WholeWordContext
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import complete_settings, parse_pairs, split_names, table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import progress
from tideline.hudi.metadata_indexes.table_indexes import IndexMade, TableIndexes
from tideline.hudi.metadata_table.config import COLUMN_LIST
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.settings.setting import SettingPlace
from tideline.wording import counted, size_text

_OF_ICEBERG = "the bounds in its manifests are what such indexes are"


@click.group("index")
def index_command() -> None:
    """Make, list and drop indexes of a table, which are partitions of Hudi's metadata table."""


index_command.context_class = WholeWordContext


@index_command.command("create", cls=TidelineCommand)
@table_options
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--columns",
    metavar="A,B",
    help=f"The columns that statistics are made of, instead of the first 32: {COLUMN_LIST}.",
)
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    shell_complete=complete_settings(SettingPlace.SERVICE),
    help="A setting over the table's own, such as hoodie.* of Hudi; may be repeated.",
)
@dry_run_option("Read what they would be made of; change nothing.")
def create_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    names: tuple[str, ...],
    columns: str | None,
    options: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Make indexes of the table at URI, one after another; every commit keeps them from then on.

    NAME is column_stats, bounds of the columns of every file; partition_stats, the same of every
    partition, which is made of column_stats; record_index, the place of every key, which are unique
    in the whole table from then on; or secondary_index_COLUMN, the keys by the values of a column,
    which needs record_index; or bloom_filters, those of the keys of every base file. Writers may be
    at work meanwhile.
    """
    settings = parse_pairs(options, option="--option")
    if columns is not None:
        settings[COLUMN_LIST] = ",".join(split_names(columns))
    indexes = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG).indexes(settings)
    made: list[IndexMade] = []
    for name in names:
        with progress(f"making {name}"):
            made.append(_looked_at(indexes, name, names) if dry_run else indexes.create(name))
        if not as_json:
            _print(made[-1], dry_run=dry_run)
    if as_json:
        created = [index.to_json_object() for index in made]
        print_json({"created": created, "dry_run": dry_run})


@index_command.command("list", cls=TidelineCommand)
@table_options
def list_command(uri: str, storage: dict[str, str], as_json: bool) -> None:
    """List the indexes of the table at URI, those of Hudi among them."""
    found = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG).indexes().list()
    if as_json:
        print_json({"indexes": [index.to_json_object() for index in found]})
        return
    if not found:
        print_line("No indexes: the table has no metadata table.")
        return
    rows = [
        [
            index.name,
            "in use" if index.is_in_use else "unfinished",
            "yes" if index.is_kept else "no",
            "" if index.made_at is None else str(index.made_at),
            str(index.file_groups),
            size_text(index.size_bytes),
            ", ".join(index.columns),
        ]
        for index in found
    ]
    print_table(("index", "state", "kept", "made at", "file groups", "size", "columns"), rows)


@index_command.command("drop", cls=TidelineCommand)
@table_options
@click.argument("name")
@click.option(
    "--end-build",
    is_flag=True,
    help="Hudi's writer that was building it is dead: end its build, and drop what it made.",
)
@dry_run_option("Show what would be dropped; change nothing.")
@yes_option
def drop_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    name: str,
    end_build: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Drop the index NAME of the table at URI, with those that are worth nothing without it."""
    indexes = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG).indexes()
    if not dry_run and is_asked(yes=yes):
        gone = ", ".join(indexes.drop(name, dry_run=True, end_build=end_build)) or name
        ask(f"Drop {gone}, to be made of all files again if it is to come back?", yes=yes)
    dropped = indexes.drop(name, dry_run=dry_run, end_build=end_build)
    if as_json:
        print_json({"dropped": list(dropped), "dry_run": dry_run})
        return
    verb = "Would drop" if dry_run else "Dropped"
    print_line(f"{verb} {', '.join(dropped) or f'the build of {name}'}.")


def _looked_at(indexes: TableIndexes, name: str, names: tuple[str, ...]) -> IndexMade:
    """What would be made; nothing is known of one that is made of another of these."""
    if set(needed_by(name)).isdisjoint(names):
        return indexes.preview(name)
    return IndexMade(name, None)


def _print(made: IndexMade, *, dry_run: bool) -> None:
    verb = "Would make" if dry_run else "Made"
    records = "" if made.records is None else f": {counted(made.records, 'record')}"
    print_line(f"{verb} {made.name}{records}.")
    if made.advice is not None:
        print_line(f"Note: {made.advice}.")
