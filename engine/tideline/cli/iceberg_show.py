"""`tideline iceberg show`: what an Iceberg table is and how much there is of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.output import print_facts, print_json, print_line, print_table
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestFile
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.table.open_table import IcebergTable
from tideline.wording import size_text

_TERM_LISTS = ("partition_by", "sort_by")


@command("show")
@iceberg_table_options
@click.option(
    "--snapshot", "snapshot_id", type=int, help="Only show whether this snapshot is part of it."
)
def show_command(source: TableSource, as_json: bool, snapshot_id: int | None) -> None:
    """Describe TABLE: what it is, its columns, how much there is."""
    table = source.open()
    if snapshot_id is not None:
        is_there = table.metadata.snapshot(snapshot_id) is not None
        if as_json:
            print_json({"snapshot": str(snapshot_id), "is_there": is_there})
        else:
            print_line(f"Snapshot {snapshot_id} is {'' if is_there else 'not '}part of the table.")
        return
    print_description(table, as_json=as_json)


def print_description(table: IcebergTable, *, as_json: bool) -> None:
    """Print what the table is, its columns, how much there is."""
    description = describe_table(table)
    if as_json:
        print_json(description)
        return
    columns = description.pop("columns")
    properties = description.pop("properties")
    size_bytes = description.pop("size_bytes")
    description["size"] = None if size_bytes is None else size_text(size_bytes)
    refs = description.pop("refs")
    description["refs"] = [
        f"{reference['name']} ({reference['type']})" for reference in refs
    ] or None
    description |= {name: ", ".join(description[name]) or None for name in _TERM_LISTS}
    print_facts({name.replace("_", " "): value for name, value in description.items()})
    print_line()
    print_table(
        ("id", "column", "type", "null"),
        [
            (column["id"], column["name"], column["type"], "no" if column["required"] else "yes")
            for column in columns
        ],
    )
    if properties:
        print_line()
        print_table(("property", "value"), properties.items())


def describe_table(table: IcebergTable) -> dict[str, Any]:
    """What `show` prints: definition, schema and counts, from the metadata and manifest list."""
    metadata = table.metadata
    snapshot = metadata.snapshot()
    return {
        "uri": table.io.location.uri,
        "format_version": metadata.format_version,
        "uuid": metadata.table_uuid,
        "metadata": table.loaded.metadata_location,
        "partition_by": _partitioning(metadata),
        "sort_by": _sorting(metadata),
        "snapshot": None if snapshot is None else str(snapshot.snapshot_id),
        "committed": None if snapshot is None else _time(snapshot.timestamp_ms),
        "operation": None if snapshot is None else snapshot.operation,
        "snapshots": len(metadata.snapshots),
        "refs": [
            {"name": name, "type": ref.type, "snapshot": str(ref.snapshot_id)}
            for name, ref in sorted(metadata.refs.items())
        ],
        **_counts(table, snapshot),
        "columns": [
            {"id": item.field_id, "name": name, "type": str(item.type), "required": item.required}
            for name, item in _leaves(metadata.schema())
        ],
        "properties": dict(sorted(metadata.properties.items())),
    }


def _counts(table: IcebergTable, snapshot: Snapshot | None) -> dict[str, Any]:
    manifests = snapshot_manifests(table.io, snapshot)
    data = [manifest for manifest in manifests if manifest.content is ManifestContent.DATA]
    deletes = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
    summary = {} if snapshot is None else snapshot.summary
    size = summary.get("total-files-size")
    return {
        "data_files": _live_files(data),
        "delete_files": _live_files(deletes),
        "data_manifests": len(data),
        "delete_manifests": len(deletes),
        "rows_with_deleted": _live_rows(data),
        "size_bytes": int(size) if size is not None and size.isdigit() else None,
    }


def _live_files(manifests: list[ManifestFile]) -> int | None:
    """None when a manifest's writer did not count."""
    counts = [(manifest.added_files_count, manifest.existing_files_count) for manifest in manifests]
    known = [added + existing for added, existing in counts
             if added is not None and existing is not None]  # fmt: skip
    return sum(known) if len(known) == len(counts) else None


def _live_rows(manifests: list[ManifestFile]) -> int | None:
    counts = [(manifest.added_rows_count, manifest.existing_rows_count) for manifest in manifests]
    known = [added + existing for added, existing in counts
             if added is not None and existing is not None]  # fmt: skip
    return sum(known) if len(known) == len(counts) else None


def _partitioning(metadata: TableMetadata) -> list[str]:
    spec = metadata.spec()
    schema = metadata.partition_schema(spec)
    return [
        _term(str(field.transform), schema.name_of(field.source_id), field.source_id)
        for field in spec.fields
    ]


def _sorting(metadata: TableMetadata) -> list[str]:
    schema = metadata.schema()
    return [
        _term(str(field.transform), schema.name_of(field.source_id), field.source_id)
        + (" desc" if field.is_descending else "")
        for field in metadata.sort_order().fields
    ]


def _term(transform: str, name: str | None, source_id: int) -> str:
    column = name or f"column {source_id}"
    return column if transform == "identity" else f"{transform}({column})"


def _leaves(schema: Schema) -> list[tuple[str, Any]]:
    return [
        (schema.name_of(field_id) or "", nested_field)
        for field_id, nested_field in schema.leaves().items()
    ]


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).replace(tzinfo=None)
