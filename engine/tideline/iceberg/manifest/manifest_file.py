"""Manifests as Avro files: reading with inheritance, and writing (spec, "Manifests").

1. Fields are found by their ids, because writers have named them differently over time.
2. An entry without a sequence number inherits its manifest's; so do snapshot ids and, in version
   3, first row ids (spec, "Sequence Number Inheritance" and "First Row ID Inheritance").
3. A manifest is written with the sequence numbers that its entries have; those that are None stay
   so, and are inherited from the manifest list that will name it.
"""

from __future__ import annotations

import decimal
import json
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import PARSER_FAULTS, faults_named
from tideline.errors import CorruptTableError
from tideline.formats.avro_container import encode_records_container, open_container
from tideline.iceberg.manifest.fixed_partitions import manifest_records, storable
from tideline.iceberg.manifest.manifest_entry import (
    UNASSIGNED,
    DataFile,
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_schema import METRICS_IDS, NAN_COUNTS_ID, entry_struct
from tideline.iceberg.metadata.avro_type import avro_name, avro_record, decimal_bytes, not_null
from tideline.iceberg.metadata.field_type import Decimal, FieldType, StructType, type_json
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.single_value import encode_value

_BLOCK_SIZE_V1 = 64 * 1024 * 1024
_UUID_HALF = 1 << 63
_MAPS = {
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
}


@dataclass(frozen=True, slots=True)
class EncodedManifest:
    """A manifest's bytes and what its list will say of it."""

    body: bytes
    spec_id: int
    content: ManifestContent
    min_sequence_number: int
    snapshot_id: int
    files: Mapping[EntryStatus, int]
    rows: Mapping[EntryStatus, int]
    partitions: tuple[FieldSummary, ...]

    def at(self, path: str) -> ManifestFile:
        """The manifest, once it is stored at `path`; its list assigns the sequence number."""
        return ManifestFile(
            path=path,
            length_bytes=len(self.body),
            spec_id=self.spec_id,
            content=self.content,
            sequence_number=UNASSIGNED,
            min_sequence_number=self.min_sequence_number,
            added_snapshot_id=self.snapshot_id,
            added_files_count=self.files.get(EntryStatus.ADDED, 0),
            existing_files_count=self.files.get(EntryStatus.EXISTING, 0),
            deleted_files_count=self.files.get(EntryStatus.DELETED, 0),
            added_rows_count=self.rows.get(EntryStatus.ADDED, 0),
            existing_rows_count=self.rows.get(EntryStatus.EXISTING, 0),
            deleted_rows_count=self.rows.get(EntryStatus.DELETED, 0),
            partitions=self.partitions,
        )


def read_manifest(
    body: bytes,
    manifest: ManifestFile,
    *,
    with_metrics: bool = True,
    with_nan_counts: bool = False,
    live_only: bool = False,
) -> Iterator[ManifestEntry]:
    """The entries of a manifest, lazily, with everything inherited filled in.

    `with_metrics=False` leaves the maps and split offsets None, which is several times as fast,
    but for the numbers of NaN `with_nan_counts`. Raises CorruptTableError naming the manifest.
    """
    container = open_container(body, path=manifest.path)
    kept = {NAN_COUNTS_ID} if with_nan_counts else set()
    skipped = frozenset() if with_metrics else METRICS_IDS - kept
    reader = _EntryReader.of(container.schema, manifest, skipped)
    next_row_id = manifest.first_row_id if manifest.content is ManifestContent.DATA else None
    wanted = None if with_metrics else lambda field: field.get("field-id") not in skipped
    for record in manifest_records(container, wanted):
        try:
            entry = reader.entry(record, next_row_id)
        except PARSER_FAULTS as error:
            message = "a manifest entry cannot be understood"
            raise CorruptTableError(message, path=manifest.path, value=repr(error)) from error
        if next_row_id is not None and entry.is_live and not reader.names_row_id(record):
            next_row_id += entry.data_file.record_count
        if entry.is_live or not live_only:
            yield entry


def encode_manifest(
    entries: Iterable[ManifestEntry],
    *,
    spec: PartitionSpec,
    schema: Schema,
    content: ManifestContent,
    format_version: int,
    snapshot_id: int,
) -> EncodedManifest:
    """A manifest of `entries`, which all belong to `spec`.

    `schema` must know the spec's source columns. Raises ValueError when an entry does not fit, and
    UnsupportedTableError for partition values that are only read.
    """
    listed = list(entries)
    partition = spec.partition_type(schema)
    struct = entry_struct(partition, format_version)
    writer = _EntryWriter(partition, format_version)
    metadata = {
        "schema": json.dumps(schema.json()),
        "schema-id": str(schema.schema_id),
        "partition-spec": json.dumps(spec.fields_json()),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
        "iceberg.schema": json.dumps({"schema-id": 0, **type_json(struct)}),
    }
    if format_version > 1:
        metadata["content"] = content.name.lower()
    body = encode_records_container(
        avro_record(struct, "manifest_entry"), map(writer.record, listed), metadata
    )
    files = Counter(entry.status for entry in listed)
    rows: Counter[EntryStatus] = Counter()
    for entry in listed:
        rows[entry.status] += entry.data_file.record_count
    numbers = [e.sequence_number for e in listed if e.is_live and e.sequence_number is not None]
    return EncodedManifest(
        body=body,
        spec_id=spec.spec_id,
        content=content,
        min_sequence_number=min(numbers, default=UNASSIGNED),
        snapshot_id=snapshot_id,
        files=files,
        rows=rows,
        partitions=_summaries(partition, [entry.data_file.partition for entry in listed]),
    )


@dataclass(frozen=True, slots=True)
class _EntryReader:
    """Finds fields by id under any name the writer gave them."""

    entry_names: Mapping[int, str]
    file_names: Mapping[int, str]
    maps: Mapping[str, int]
    partition_fields: tuple[tuple[str, Callable[[Any], Any] | None], ...]
    manifest: ManifestFile

    @classmethod
    def of(
        cls, schema: Mapping[str, Any], manifest: ManifestFile, skipped: Set[int]
    ) -> _EntryReader:
        message = "a manifest lacks fields that the specification requires"
        with faults_named(message, path=manifest.path):
            entry_fields = {field["field-id"]: field for field in schema["fields"]}
            file_fields = {f["field-id"]: f for f in not_null(entry_fields[2]["type"])["fields"]}
            partition = not_null(file_fields[102]["type"])
            defined = {fixed_type["name"]: fixed_type for fixed_type in _fixed_types(partition)}
            fields = tuple(
                (field["name"], _conversion(field["type"], defined))
                for field in partition["fields"]
            )
        return cls(
            {field_id: field["name"] for field_id, field in entry_fields.items()},
            {
                field_id: field["name"]
                for field_id, field in file_fields.items()
                if field_id not in skipped
            },
            {name: field_id for name, field_id in _MAPS.items() if field_id not in skipped},
            fields,
            manifest,
        )

    def names_row_id(self, record: Mapping[str, Any]) -> bool:
        """Whether the file has a first row id of its own."""
        file = record[self.entry_names[2]]
        return file.get(self.file_names.get(142, "")) is not None

    def entry(self, record: Mapping[str, Any], next_row_id: int | None) -> ManifestEntry:
        names, manifest = self.entry_names, self.manifest
        status = EntryStatus(record[names[0]])
        # Version 1 knows no sequence numbers: its manifests have 0, and so have their entries.
        inherits = status is EntryStatus.ADDED or manifest.sequence_number == 0
        inherited = manifest.sequence_number if inherits else None
        snapshot_id = record.get(names.get(1, ""))
        number = record.get(names.get(3, ""))
        file_number = record.get(names.get(4, ""))
        return ManifestEntry(
            status,
            manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
            inherited if number is None else number,
            inherited if file_number is None else file_number,
            self._file(record[names[2]], None if status is EntryStatus.DELETED else next_row_id),
        )

    def _file(self, record: Mapping[str, Any], next_row_id: int | None) -> DataFile:
        names, get = self.file_names, record.get
        split_offsets = get(names.get(132, ""))
        equality_ids = get(names.get(135, ""))
        first_row_id = get(names.get(142, ""))
        partition = record[names[102]]
        maps = {
            name: _mapping(get(names.get(field_id, ""))) for name, field_id in self.maps.items()
        }
        values = ((partition[name], convert) for name, convert in self.partition_fields)
        return DataFile(
            FileContent(get(names.get(134, "")) or 0),
            record[names[100]],
            record[names[101]].upper(),
            self.manifest.spec_id,
            tuple(
                value if convert is None or value is None else convert(value)
                for value, convert in values
            ),
            record[names[103]],
            record[names[104]],
            **maps,
            key_metadata=get(names.get(131, "")),
            split_offsets=None if split_offsets is None else tuple(split_offsets),
            equality_ids=None if equality_ids is None else tuple(equality_ids),
            sort_order_id=get(names.get(140, "")),
            first_row_id=next_row_id if first_row_id is None else first_row_id,
            referenced_data_file=get(names.get(143, "")),
            content_offset=get(names.get(144, "")),
            content_size_bytes=get(names.get(145, "")),
        )


def _mapping(pairs: Sequence[Mapping[str, Any]] | Mapping[Any, Any] | None) -> Any:
    if pairs is None or isinstance(pairs, Mapping):
        return pairs
    return {pair["key"]: pair["value"] for pair in pairs}


def _fixed_types(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in record["fields"]:
        for branch in field["type"] if isinstance(field["type"], list) else [field["type"]]:
            if isinstance(branch, Mapping) and branch.get("type") == "fixed":
                yield branch


def _conversion(
    type_: Any, defined: Mapping[str, Mapping[str, Any]]
) -> Callable[[Any], Any] | None:
    """From the Avro value of a partition field to Iceberg's, None where they are the same."""
    branches = type_ if isinstance(type_, list) else [type_]
    for named in branches:
        branch = defined.get(named) if isinstance(named, str) else named
        logical = None if branch is None else branch.get("logicalType")
        if branch is not None and logical == "decimal":
            scale = int(branch["scale"])
            return lambda body: _decimal(body, scale)
        if logical == "uuid":
            return _uuid
    return None


def _uuid(value: bytes | str) -> uuid.UUID:
    return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)


def _decimal(body: bytes, scale: int) -> decimal.Decimal:
    unscaled = int.from_bytes(body, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-scale, _WIDE)


_WIDE = decimal.Context(prec=76)


class _EntryWriter:
    """Turns entries into records of physical Avro values."""

    def __init__(self, partition: StructType, format_version: int) -> None:
        self._partition = tuple((avro_name(field.name), field.type) for field in partition.fields)
        self._version = format_version

    def record(self, entry: ManifestEntry) -> dict[str, Any]:
        record: dict[str, Any] = {"status": int(entry.status), "snapshot_id": entry.snapshot_id}
        if self._version > 1:
            record["sequence_number"] = entry.sequence_number
            record["file_sequence_number"] = entry.file_sequence_number
        return record | {"data_file": self._file(entry.data_file)}

    def _file(self, file: DataFile) -> dict[str, Any]:
        values = zip(self._partition, file.partition, strict=True)
        record: dict[str, Any] = {
            "content": int(file.content),
            "file_path": file.file_path,
            "file_format": file.file_format,
            "partition": {name: _physical(type_, value) for (name, type_), value in values},
            "record_count": file.record_count,
            "file_size_in_bytes": file.file_size_bytes,
            "block_size_in_bytes": _BLOCK_SIZE_V1,
            "key_metadata": file.key_metadata,
            "split_offsets": None if file.split_offsets is None else list(file.split_offsets),
            "equality_ids": None if file.equality_ids is None else list(file.equality_ids),
            "sort_order_id": file.sort_order_id,
            "first_row_id": file.first_row_id,
            "referenced_data_file": file.referenced_data_file,
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size_bytes,
        }
        for name in _MAPS:
            mapping: Mapping[int, Any] | None = getattr(file, name)
            record[name] = None if mapping is None else _pairs(mapping)
        return record


def _pairs(mapping: Mapping[int, Any]) -> tuple[str, list[dict[str, Any]]]:
    # The union's branch by name: fastavro would try every pair against the branches.
    return "array", [{"key": key, "value": value} for key, value in mapping.items()]


def _physical(type_: FieldType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, Decimal):
        unscaled = int(decimal.Decimal(value).scaleb(type_.scale, _WIDE))
        return unscaled.to_bytes(decimal_bytes(type_.precision), "big", signed=True)
    return value.bytes if isinstance(value, uuid.UUID) else storable(value)


def _summaries(
    partition: StructType, tuples: Sequence[tuple[Any, ...]]
) -> tuple[FieldSummary, ...]:
    return tuple(
        _summary(field.type, {values[position] for values in tuples})
        for position, field in enumerate(partition.fields)
    )


def _summary(type_: FieldType, values: set[Any]) -> FieldSummary:
    is_float = str(type_) in ("float", "double")
    nans = {value for value in values if is_float and value is not None and math.isnan(value)}
    order = _java_order if str(type_) == "uuid" else None
    bounded = sorted((value for value in values - nans if value is not None), key=order)
    return FieldSummary(
        contains_null=None in values,
        contains_nan=bool(nans),
        lower_bound=encode_value(type_, bounded[0]) if bounded else None,
        upper_bound=encode_value(type_, bounded[-1]) if bounded else None,
    )


def _java_order(value: uuid.UUID) -> tuple[int, int]:
    """The order that Iceberg's Java has of UUIDs: by the two halves, as signed numbers.

    Its readers find rows only where bounds are of that order; the bytes of a UUID have another one,
    in which Parquet keeps its statistics, for Java's writers as well.
    """
    return _signed(value.int >> 64), _signed(value.int & (2 * _UUID_HALF - 1))


def _signed(half: int) -> int:
    return half - 2 * _UUID_HALF if half >= _UUID_HALF else half
