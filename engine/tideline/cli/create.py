"""`tideline create`: an empty table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.options import complete_settings, parse_pairs, split_names, table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.schema_file import read_schema_file
from tideline.cli.show import describe_table
from tideline.hudi.table.create import refuse_existing_table
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION, TABLE_VERSIONS
from tideline.hudi.table.location_conflict import refuse_table_conflict
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.table_config import ICEBERG, PUBLISH, KeyGeneratorKind, TableType
from tideline.lake_table import LakeTable
from tideline.settings.setting import SettingPlace
from tideline.storage.location import StoreLocation


class _NameChoice(click.Choice[str]):
    """The names of an enumeration, in any case."""

    def __init__(self, kind: type[TableType | KeyGeneratorKind | MergeMode]) -> None:
        super().__init__([member.value for member in kind], case_sensitive=False)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002
        return str(choice).upper()


@command("create")
@table_options
@click.option("--record-key", required=True, metavar="COLUMNS", help="What identifies a row.")
@click.option("--partition-by", metavar="COLUMNS", help="What decides a row's folder.")
@click.option(
    "--ordering", metavar="COLUMNS", help="Of two versions of a row the higher value wins."
)
@click.option(
    "--type",
    "table_type",
    type=_NameChoice(TableType),
    default=TableType.COPY_ON_WRITE.value,
    show_default=True,
    help="COPY_ON_WRITE: an update rewrites files, reads are fastest. MERGE_ON_READ: an update "
    "is appended to a log, which compaction merges later.",
)
@click.option(
    "--table-version",
    type=click.Choice(list(map(str, TABLE_VERSIONS))),
    default=str(TABLE_VERSION),
    show_default=True,
    help="Hudi's format on disk: 6 (0.14 and later), 8 (1.0) or 9 (1.1).",
)
@click.option(
    "--key-generator",
    type=_NameChoice(KeyGeneratorKind),
    help="How keys and partition paths are made; it follows from the columns when left out.",
)
@click.option(
    "--merge-mode",
    type=_NameChoice(MergeMode),
    help="Which of two versions of a row stays: by --ordering where there is one, else the later "
    "write.",
)
@click.option(
    "--hive-style", is_flag=True, help="Name partition folders day=2026-11-01, not 2026-11-01."
)
@click.option(
    "--url-encode", is_flag=True, help="Encode special characters of partition values in paths."
)
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="An Avro schema (.avsc, .json) or a parquet file with the columns; "
    "without it the first write decides.",
)
@click.option("--name", help="The table's name; otherwise the last part of the URI.")
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    shell_complete=complete_settings(SettingPlace.TABLE),
    help="A Hudi setting to store in the table for all writers (hoodie.*); may be repeated.",
)
@click.option(
    "--publish",
    type=click.Choice([ICEBERG], case_sensitive=False),
    help="Publish every commit as Iceberg metadata over the same files.",
)
@click.option("--create-bucket", is_flag=True, help="Create the bucket, too, where it is missing.")
@dry_run_option("Show what would be created; change nothing.")
def create_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    dry_run: bool,
    schema_path: str | None,
    properties: tuple[str, ...],
    publish: str | None,
    create_bucket: bool,
    **asked: Any,
) -> None:
    """Create an empty table at URI.

    COLUMNS are names separated by commas.
    """
    wanted = {
        **asked,
        **{name: split_names(asked[name]) for name in ("record_key", "partition_by", "ordering")},
        "table_version": int(asked["table_version"]),
        "schema": read_schema_file(schema_path) if schema_path else None,
        "properties": {
            **parse_pairs(properties, option="--property"),
            **({} if publish is None else {PUBLISH: publish}),
        },
    }
    if create_bucket:
        storage = {**storage, "create_bucket": "true"}
    if dry_run:
        description = _preview(StoreLocation.of(uri, storage), wanted)
    else:
        table = LakeTable.create(uri, storage_options=storage, **wanted)
        description = describe_table(table.hoodie_table)
    if as_json:
        print_json({**description, "dry_run": dry_run})
        return
    made = "Would create" if dry_run else "Created"
    print_line(f"{made} the {description['type']} table {description['name']}.")
    if not dry_run:
        print_line(f"Fill it: tideline write {shlex.quote(uri)} --source PATH --format parquet")


def _preview(location: StoreLocation, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The table as it would be, made in memory. Raises what creating it would raise."""
    refuse_existing_table(location.open())
    refuse_table_conflict(location)
    name = wanted["name"] or location.uri.rstrip("/").rsplit("/", 1)[-1]
    table = LakeTable.create(f"memory://{uuid4().hex}", **{**wanted, "name": name})
    return {**describe_table(table.hoodie_table), "uri": location.uri}
