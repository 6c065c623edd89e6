"""Is a manifest what its list says, and does it say of its files what readers rely on?

A planner passes a manifest over by its counts and its partitions, and applies a delete by sequence
numbers: where these are wrong, rows are lost or come back, and no reader notices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.check_finding import Finding, error, warning
from tideline.iceberg.manifest.manifest_entry import (
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.metadata.field_type import FieldType
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata

NAME = "manifests"


def check_manifest(
    metadata: TableMetadata, manifest: ManifestFile, entries: Sequence[ManifestEntry], length: int
) -> Iterator[Finding]:
    """Findings about one manifest of `length` bytes and all its entries."""
    if length != manifest.length_bytes:
        message = f"has {length:,} bytes, its list says {manifest.length_bytes:,}"
        yield error(NAME, f"{message}: readers stop short", path=manifest.path)
    yield from _counts(manifest, entries)
    live = [entry for entry in entries if entry.is_live]
    yield from _contents(metadata, manifest, live)
    if metadata.format_version > 1:
        yield from _sequence_numbers(manifest, live)
    yield from _partitions(metadata, manifest, live)


def _counts(manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> Iterator[Finding]:
    if any(entry.is_live for entry in entries) and not manifest.may_have_live_files:
        message = "has files of the table, its list says that it has none: readers pass them over"
        yield error(NAME, message, path=manifest.path)
        return
    files: Counter[EntryStatus] = Counter()
    rows: Counter[EntryStatus] = Counter()
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    stated = (
        ("added files", manifest.added_files_count, files[EntryStatus.ADDED]),
        ("existing files", manifest.existing_files_count, files[EntryStatus.EXISTING]),
        ("deleted files", manifest.deleted_files_count, files[EntryStatus.DELETED]),
        ("added rows", manifest.added_rows_count, rows[EntryStatus.ADDED]),
        ("existing rows", manifest.existing_rows_count, rows[EntryStatus.EXISTING]),
        ("deleted rows", manifest.deleted_rows_count, rows[EntryStatus.DELETED]),
    )
    for what, said, found in stated:
        if said is not None and said != found:
            message = f"has {found:,} {what}, its list says {said:,}"
            yield warning(NAME, message, path=manifest.path)


def _contents(
    metadata: TableMetadata, manifest: ManifestFile, live: Sequence[ManifestEntry]
) -> Iterator[Finding]:
    holds_data = manifest.content is ManifestContent.DATA
    for file in (entry.data_file for entry in live):
        if (file.content is FileContent.DATA) != holds_data:
            kind = "data files" if holds_data else "delete files"
            message = f"lies in a manifest of {kind}, and is none"
            yield error(NAME, message, path=file.file_path)
        if file.content is FileContent.EQUALITY_DELETES:
            numbers = file.equality_ids or (None,)
            for number in (number for number in numbers if not _is_field(metadata, number)):
                message = f"compares rows by field {number}, which no schema of the table has"
                yield error(NAME, f"{message}: reading fails", path=file.file_path)


def _is_field(metadata: TableMetadata, number: int | None) -> bool:
    if number is None:
        return False
    return any(schema.field(number) is not None for schema in metadata.schemas)


def _sequence_numbers(manifest: ManifestFile, live: Sequence[ManifestEntry]) -> Iterator[Finding]:
    for entry in live:
        path, number = entry.data_file.file_path, entry.sequence_number
        if number is None:
            message = "has no sequence number: which deletes apply to it is unknown"
            yield error(NAME, message, path=path)
        elif number > manifest.sequence_number:
            message = f"has sequence number {number}, its manifest {manifest.sequence_number}"
            yield error(NAME, f"{message}: deletes apply wrongly", path=path)
        elif number < manifest.min_sequence_number:
            message = f"has sequence number {number}, the least of its manifest is said to be "
            message += f"{manifest.min_sequence_number}: deletes may be passed over"
            yield error(NAME, message, path=path)


def _partitions(
    metadata: TableMetadata, manifest: ManifestFile, live: Sequence[ManifestEntry]
) -> Iterator[Finding]:
    """Whether the list's summary of partitions holds all of them."""
    spec = metadata.spec(manifest.spec_id)
    if not manifest.partitions or len(manifest.partitions) != len(spec.fields):
        return
    kinds = spec.partition_type(metadata.partition_schema(spec)).fields
    for number, (field, summary) in enumerate(zip(kinds, manifest.partitions, strict=True)):
        bounds = _Bounds.of(summary, field.type)
        for entry in live:
            partition = entry.data_file.partition
            if number < len(partition) and not bounds.has(partition[number]):
                message = f"its partition is outside of what the manifest list says of {field.name}"
                yield error(
                    NAME,
                    f"{message}: filtered reads pass it over",
                    path=entry.data_file.file_path,
                )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a manifest list says of one partition field."""

    summary: FieldSummary
    lower: Any
    upper: Any

    @classmethod
    def of(cls, summary: FieldSummary, kind: FieldType) -> _Bounds:
        lower, upper = (
            None if bound is None else decode_value(kind, bound)
            for bound in (summary.lower_bound, summary.upper_bound)
        )
        return cls(summary, lower, upper)

    def has(self, value: Any) -> bool:
        if value is None:
            return self.summary.contains_null
        if value != value:
            return self.summary.contains_nan is not False
        is_above = self.lower is None or self.lower <= value
        return bool(is_above and (self.upper is None or value <= self.upper))
