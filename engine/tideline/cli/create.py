"""`tideline create`: an empty table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import click
from click.core import ParameterSource

from tideline.cli.any_table import any_table_options
from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import complete_settings, parse_pairs, split_names
from tideline.cli.output import print_json, print_line
from tideline.cli.schema_file import read_schema_file
from tideline.cli.show import describe_table
from tideline.errors import ConfigError
from tideline.hudi.table.create import refuse_existing_table
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION, TABLE_VERSIONS
from tideline.hudi.table.location_conflict import refuse_table_conflict
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.table_config import ICEBERG, PUBLISH, KeyGeneratorKind, TableType
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS
from tideline.lake_table import LakeTable
from tideline.settings.setting import SettingPlace
from tideline.storage.location import StoreLocation

_HUDI_ONLY = (
    "ordering",
    "table_type",
    "table_version",
    "key_generator",
    "merge_mode",
    "hive_style",
    "url_encode",
    "name",
    "publish",
)
_ICEBERG_ONLY = ("sort_by", "format_version", "location")


class _NameChoice(click.Choice[str]):
    """The names of an enumeration, in any case, short ones such as MOR too."""

    def __init__(self, kind: type[TableType | KeyGeneratorKind | MergeMode]) -> None:
        super().__init__([member.value for member in kind], case_sensitive=False)
        self._named = {name: str(member.value) for name, member in kind.__members__.items()}

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002
        name = str(choice).upper()
        return self._named.get(name, name)


@command("create")
@any_table_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["hudi", "iceberg"], case_sensitive=False),
    default="hudi",
    show_default=True,
)
@click.option(
    "--record-key",
    metavar="COLUMNS",
    help="What identifies a row: required for a Hudi table.",
)
@click.option(
    "--partition-by",
    metavar="COLUMNS",
    help="What decides a row's folder; of an Iceberg table also terms: 'day(ts), bucket(16, id)'.",
)
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
@click.option(
    "--sort-by",
    metavar="TERMS",
    help="The order of rows in an Iceberg table's files: 'region, ts DESC'.",
)
@click.option(
    "--format-version",
    type=click.Choice(list(map(str, FORMAT_VERSIONS))),
    help="Of an Iceberg table; 2 unless given.",
)
@click.option(
    "--location",
    metavar="URI",
    help="Where a table of an Iceberg catalog goes; without it a REST catalog chooses, and others "
    "have it below the warehouse.",
)
@click.option("--name", help="The table's name; otherwise the last part of the URI.")
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    shell_complete=complete_settings(SettingPlace.TABLE),
    help="A Hudi setting (hoodie.*), or an Iceberg property, to store in the table for all "
    "writers; may be repeated.",
)
@click.option(
    "--publish",
    type=click.Choice([ICEBERG], case_sensitive=False),
    help="Publish every commit as Iceberg metadata over the same files.",
)
@click.option("--create-bucket", is_flag=True, help="Create the bucket, too, where it is missing.")
@dry_run_option("Show what would be created; change nothing.")
def create_command(
    source: TableSource,
    as_json: bool,
    format_: str,
    dry_run: bool,
    create_bucket: bool,
    **asked: Any,
) -> None:
    """Create an empty table at URI.

    COLUMNS are names separated by commas.
    """
    storage = {**source.storage, **({"create_bucket": "true"} if create_bucket else {})}
    source = replace(source, storage=storage)
    own = _ICEBERG_ONLY if format_ == "hudi" else _HUDI_ONLY
    given = click.get_current_context().get_parameter_source
    strange = [name for name in own if given(name) is not ParameterSource.DEFAULT]
    if source.catalog is not None and format_ == "hudi":
        strange.append("catalog")
    if strange:
        name = strange[0].replace("_path", "").replace("_", "-")
        message = f"--{name} is not for {format_.capitalize()} tables: leave it out"
        raise ConfigError(message)
    if format_ == "iceberg":
        # Takes a tenth of a second to import, which new Hudi tables need not wait for.
        from tideline.cli.iceberg_create import create_iceberg_table

        create_iceberg_table(source, asked, dry_run=dry_run, as_json=as_json)
        return
    _create_hudi(source, asked, dry_run=dry_run, as_json=as_json)


def _create_hudi(
    source: TableSource, asked: Mapping[str, Any], *, dry_run: bool, as_json: bool
) -> None:
    uri, storage = source.target, dict[str, Any](source.storage)
    if not asked["record_key"]:
        raise ConfigError("a Hudi table needs --record-key: what identifies a row")
    schema_path, publish = asked["schema_path"], asked["publish"]
    taken = {"schema_path", "properties", "publish", *_ICEBERG_ONLY}
    wanted = {
        **{name: value for name, value in asked.items() if name not in taken},
        **{name: split_names(asked[name]) for name in ("record_key", "partition_by", "ordering")},
        "table_version": int(asked["table_version"]),
        "schema": read_schema_file(schema_path) if schema_path else None,
        "properties": {
            **parse_pairs(asked["properties"], option="--property"),
            **({} if publish is None else {PUBLISH: publish}),
        },
    }
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
        print_line(f"Fill it: tideline write {shlex.quote(uri)} --source PATH")


def _preview(location: StoreLocation, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The table as it would be, made in memory. Raises what creating it would raise."""
    refuse_existing_table(location.open())
    refuse_table_conflict(location)
    name = wanted["name"] or location.uri.rstrip("/").rsplit("/", 1)[-1]
    table = LakeTable.create(f"memory://{uuid4().hex}", **{**wanted, "name": name})
    return {**describe_table(table.hoodie_table), "uri": location.uri}
