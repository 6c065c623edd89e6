"""Manifest lists as Avro files (spec, "Manifest Lists")."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.formats.avro_container import encode_records_container, open_container
from tideline.iceberg.manifest.manifest_entry import (
    UNASSIGNED,
    FieldSummary,
    ManifestContent,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_schema import manifest_file_struct
from tideline.iceberg.metadata.avro_type import avro_record, not_null
from tideline.iceberg.metadata.field_type import type_json


@dataclass(frozen=True, slots=True)
class EncodedManifestList:
    """A list's bytes, its manifests with everything assigned, and the next free row id."""

    body: bytes
    manifests: tuple[ManifestFile, ...]
    next_row_id: int | None


def read_manifest_list(body: bytes, *, path: object = None) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot. Raises CorruptTableError naming `path`."""
    container = open_container(body, path=path)
    message = "a manifest list lacks fields that the specification requires"
    with faults_named(message, path=path):
        names = {field["field-id"]: field["name"] for field in container.schema["fields"]}
        summaries = _summary_names(container.schema, names)
        return tuple(_manifest(record, names, summaries) for record in container.records())


def encode_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    format_version: int,
    first_row_id: int | None = None,
) -> EncodedManifestList:
    """A snapshot's list. Manifests without a sequence number get the snapshot's; in version 3 data
    manifests without a first row id get the next free one, counted from `first_row_id`."""
    assigned: list[ManifestFile] = []
    next_row_id = first_row_id
    for manifest in manifests:
        numbered = _numbered(manifest, sequence_number)
        if (
            next_row_id is not None
            and manifest.content is ManifestContent.DATA
            and manifest.first_row_id is None
        ):
            numbered = replace(numbered, first_row_id=next_row_id)
            next_row_id += (manifest.existing_rows_count or 0) + (manifest.added_rows_count or 0)
        assigned.append(numbered)
    struct = manifest_file_struct(format_version)
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
        "iceberg.schema": json.dumps({"schema-id": 0, **type_json(struct)}),
    }
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number)
    if first_row_id is not None:
        metadata["first-row-id"] = str(first_row_id)
    body = encode_records_container(
        avro_record(struct, "manifest_file"), map(_record, assigned), metadata
    )
    return EncodedManifestList(body, tuple(assigned), next_row_id)


def _numbered(manifest: ManifestFile, sequence_number: int) -> ManifestFile:
    if manifest.sequence_number != UNASSIGNED:
        return manifest
    lowest = manifest.min_sequence_number
    return replace(
        manifest,
        sequence_number=sequence_number,
        min_sequence_number=sequence_number if lowest == UNASSIGNED else lowest,
    )


def _summary_names(schema: Mapping[str, Any], names: Mapping[int, str]) -> Mapping[int, str]:
    if 507 not in names:
        return {}
    field = next(field for field in schema["fields"] if field["field-id"] == 507)
    items = not_null(not_null(field["type"])["items"])
    return {item["field-id"]: item["name"] for item in items["fields"]}


def _manifest(
    record: Mapping[str, Any], names: Mapping[int, str], summary_names: Mapping[int, str]
) -> ManifestFile:
    def get(field_id: int) -> Any:
        return record.get(names.get(field_id, ""))

    partitions = get(507)
    return ManifestFile(
        path=record[names[500]],
        length_bytes=record[names[501]],
        spec_id=get(502) or 0,
        content=ManifestContent(get(517) or 0),
        sequence_number=get(515) or 0,
        min_sequence_number=get(516) or 0,
        added_snapshot_id=record[names[503]],
        added_files_count=get(504),
        existing_files_count=get(505),
        deleted_files_count=get(506),
        added_rows_count=get(512),
        existing_rows_count=get(513),
        deleted_rows_count=get(514),
        partitions=None
        if partitions is None
        else tuple(_summary(partition, summary_names) for partition in partitions),
        key_metadata=get(519),
        first_row_id=get(520),
    )


def _summary(record: Mapping[str, Any], names: Mapping[int, str]) -> FieldSummary:
    return FieldSummary(
        contains_null=record[names[509]],
        contains_nan=record.get(names.get(518, "")),
        lower_bound=record.get(names.get(510, "")),
        upper_bound=record.get(names.get(511, "")),
    )


def _record(manifest: ManifestFile) -> dict[str, Any]:
    partitions = manifest.partitions
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length_bytes,
        "partition_spec_id": manifest.spec_id,
        "content": int(manifest.content),
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_snapshot_id": manifest.added_snapshot_id,
        "added_files_count": manifest.added_files_count,
        "existing_files_count": manifest.existing_files_count,
        "deleted_files_count": manifest.deleted_files_count,
        "added_rows_count": manifest.added_rows_count,
        "existing_rows_count": manifest.existing_rows_count,
        "deleted_rows_count": manifest.deleted_rows_count,
        "partitions": None
        if partitions is None
        else [
            {
                "contains_null": partition.contains_null,
                "contains_nan": partition.contains_nan,
                "lower_bound": partition.lower_bound,
                "upper_bound": partition.upper_bound,
            }
            for partition in partitions
        ],
        "key_metadata": manifest.key_metadata,
        "first_row_id": manifest.first_row_id,
    }
