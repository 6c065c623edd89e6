"""Table metadata: the JSON document that is the table (spec, "Table Metadata").

Versions 1 to 3 are read; a document is written back in its own version. The parsed values stand
next to the document they came from, so that fields unknown to Tideline survive a commit.
"""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import decompress_bounded, faults_named, parse_json
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.metadata.partition_spec import (
    FIRST_PARTITION_FIELD_ID,
    PartitionField,
    PartitionSpec,
    parse_partition_fields,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_property import ENCRYPTION_KEY

FORMAT_VERSIONS = (1, 2, 3)
FORMAT_VERSION = 2
"""Of new tables for which none is given."""
LINEAGE_SINCE = 3
"""The version whose rows have a lineage."""


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """When a snapshot became the main branch's."""

    snapshot_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """An earlier metadata file, and when it was the newest."""

    metadata_file: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """One version of a table. Locations are as recorded; times are milliseconds since 1970."""

    format_version: int
    table_uuid: str
    location: str
    last_sequence_number: int
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int
    properties: Mapping[str, str]
    snapshots: tuple[Snapshot, ...]
    current_snapshot_id: int | None
    refs: Mapping[str, SnapshotRef]
    snapshot_log: tuple[SnapshotLogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    next_row_id: int | None
    document: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: bytes, *, path: object = None) -> TableMetadata:
        """From a metadata file, gzip or not.

        Raises CorruptTableError naming `path`, and UnsupportedTableError for a version above 3,
        an encrypted table, and what exceeds the limits on metadata.
        """
        is_gzip = body[:2] == b"\x1f\x8b"
        text = decompress_bounded("gzip", body, path=path) if is_gzip else body
        return cls.of(parse_json(text, path=path, what="table metadata"), path=path)

    @classmethod
    def of(cls, document: Mapping[str, Any], *, path: object = None) -> TableMetadata:
        """From the parsed JSON. Raises what `parse` raises."""
        version = document.get("format-version") if isinstance(document, Mapping) else None
        if not isinstance(version, int):
            raise CorruptTableError("table metadata names no format-version", path=path)
        if version not in FORMAT_VERSIONS:
            message = "Tideline reads Iceberg format versions 1 to 3"
            raise UnsupportedTableError(message, path=path, value=f"format-version {version}")
        _refuse_encrypted(document, path)
        with faults_named("table metadata lacks a field, or one is wrong", path=path):
            metadata = _parse(cls, document, version)
        _check(metadata, path)
        return metadata

    def to_bytes(self, *, is_gzip: bool = False) -> bytes:
        """The file's body: what was read, with the fields that commits change put in."""
        body = json.dumps(self.json(), indent=2, ensure_ascii=False).encode()
        return gzip.compress(body, mtime=0) if is_gzip else body

    def json(self) -> dict[str, Any]:
        """The document as it is to be written."""
        changed: dict[str, Any] = {
            "format-version": self.format_version,
            "table-uuid": self.table_uuid,
            "location": self.location,
            "last-updated-ms": self.last_updated_ms,
            "last-column-id": self.last_column_id,
            "schemas": [schema.json() for schema in self.schemas],
            "current-schema-id": self.current_schema_id,
            "partition-specs": [spec.json() for spec in self.partition_specs],
            "default-spec-id": self.default_spec_id,
            "last-partition-id": self.last_partition_id,
            "sort-orders": [order.json() for order in self.sort_orders],
            "default-sort-order-id": self.default_sort_order_id,
            "properties": dict(self.properties),
            "current-snapshot-id": self._current_snapshot_json(),
            "refs": {name: ref.json() for name, ref in self.refs.items()},
            "snapshots": [snapshot.json(self.format_version) for snapshot in self.snapshots],
            "snapshot-log": [
                {"snapshot-id": entry.snapshot_id, "timestamp-ms": entry.timestamp_ms}
                for entry in self.snapshot_log
            ],
            "metadata-log": [
                {"metadata-file": entry.metadata_file, "timestamp-ms": entry.timestamp_ms}
                for entry in self.metadata_log
            ],
        }
        if self.format_version == 1:
            changed["schema"] = self.schema().json()
            changed["partition-spec"] = self.spec().fields_json()
        else:
            changed["last-sequence-number"] = self.last_sequence_number
        if self.next_row_id is not None:
            changed["next-row-id"] = self.next_row_id
        return dict(self.document) | changed

    def _current_snapshot_json(self) -> int | None:
        # Before version 3 readers know "none" as -1, and some refuse null.
        is_old = self.current_snapshot_id is None and self.format_version < 3
        return -1 if is_old else self.current_snapshot_id

    def schema(self, schema_id: int | None = None) -> Schema:
        """A schema by id, the current one by default. Raises CorruptTableError."""
        wanted = self.current_schema_id if schema_id is None else schema_id
        for schema in self.schemas:
            if schema.schema_id == wanted:
                return schema
        raise CorruptTableError(
            "the table has no schema of this id", table=self.location, value=wanted
        )

    def spec(self, spec_id: int | None = None) -> PartitionSpec:
        """A partition spec by id, the default one by default. Raises CorruptTableError."""
        wanted = self.default_spec_id if spec_id is None else spec_id
        for spec in self.partition_specs:
            if spec.spec_id == wanted:
                return spec
        message = "the table has no partition spec of this id"
        raise CorruptTableError(message, table=self.location, value=wanted)

    def sort_order(self) -> SortOrder:
        """The default sort order. Raises CorruptTableError."""
        for order in self.sort_orders:
            if order.order_id == self.default_sort_order_id:
                return order
        message = "the table has no sort order of this id"
        raise CorruptTableError(message, table=self.location, value=self.default_sort_order_id)

    def snapshot(self, snapshot_id: int | None = None) -> Snapshot | None:
        """A snapshot by id, the current one by default; None when there is none."""
        wanted = self.current_snapshot_id if snapshot_id is None else snapshot_id
        return next(
            (candidate for candidate in self.snapshots if candidate.snapshot_id == wanted), None
        )

    def ref_snapshot(self, name: str = MAIN) -> Snapshot | None:
        """The snapshot that a branch or tag leads to, None when there is no such name."""
        ref = self.refs.get(name)
        return None if ref is None else self.snapshot(ref.snapshot_id)

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """A snapshot and those before it, newest first, as far as they are still listed."""
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}
        seen = set()
        while snapshot_id is not None and snapshot_id in by_id and snapshot_id not in seen:
            seen.add(snapshot_id)
            yield by_id[snapshot_id]
            snapshot_id = by_id[snapshot_id].parent_snapshot_id

    def partition_schema(self, spec: PartitionSpec) -> Schema:
        """A schema that knows every source column of a spec: the current one, or, when a source
        was dropped since, the newest that still has it."""
        sources = {partition_field.source_id for partition_field in spec.fields}
        known = (self.schema(), *reversed(self.schemas))
        complete = (schema for schema in known if all(schema.field(source) for source in sources))
        return next(complete, self.schema())

    def name_mapping(self) -> list[dict[str, Any]] | None:
        """`schema.name-mapping.default`, for data files without field ids.

        Raises CorruptTableError.
        """
        text = self.properties.get("schema.name-mapping.default")
        try:
            found = None if text is None else parse_json(text)
        except CorruptTableError as error:
            message = "the property schema.name-mapping.default is not JSON"
            raise CorruptTableError(message, table=self.location) from error
        if found is None or _is_mapping(found):
            return found
        message = "the property schema.name-mapping.default is no list of fields"
        raise CorruptTableError(message, table=self.location)


def _is_mapping(found: Any) -> bool:
    """Whether JSON is a list of fields with names, and of such fields in them."""
    return isinstance(found, list) and all(
        isinstance(item, dict)
        and isinstance(item.get("names", []), list)
        and _is_mapping(item.get("fields") or [])
        for item in found
    )


def _refuse_encrypted(document: Mapping[str, Any], path: object) -> None:
    """Its manifests are ciphertext, and a commit of ours would add files in the clear."""
    properties = document.get("properties")
    key = properties.get(ENCRYPTION_KEY) if isinstance(properties, Mapping) else None
    if key or document.get("encryption-keys"):
        message = f"encrypted tables ({ENCRYPTION_KEY}) are neither read nor written"
        raise UnsupportedTableError(message, path=path, value=key)


def _parse(cls: type[TableMetadata], document: Mapping[str, Any], version: int) -> TableMetadata:
    schemas, current_schema_id = _schemas(document, version)
    specs, default_spec_id = _specs(document, version)
    current = document.get("current-snapshot-id")
    current = None if current in (None, -1) else int(current)
    snapshots = tuple(Snapshot.parse(snapshot) for snapshot in document.get("snapshots") or ())
    refs = {name: SnapshotRef.parse(item) for name, item in (document.get("refs") or {}).items()}
    if current is not None:
        refs.setdefault(MAIN, SnapshotRef(current))
    if version > 1 and "sort-orders" not in document:
        raise KeyError("sort-orders")
    orders = tuple(SortOrder.parse(sort_order) for sort_order in document.get("sort-orders") or ())
    return cls(
        format_version=version,
        table_uuid=_table_uuid(document, version),
        location=document["location"].rstrip("/"),
        last_sequence_number=0 if version == 1 else int(document["last-sequence-number"]),
        last_updated_ms=int(document["last-updated-ms"]),
        last_column_id=int(document["last-column-id"]),
        schemas=schemas,
        current_schema_id=current_schema_id,
        partition_specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=_last_partition_id(document, specs, version),
        sort_orders=orders or (SortOrder(),),
        default_sort_order_id=int(document.get("default-sort-order-id", 0)),
        properties=dict(document.get("properties") or {}),
        snapshots=snapshots,
        current_snapshot_id=current,
        refs=refs,
        snapshot_log=tuple(
            SnapshotLogEntry(int(item["snapshot-id"]), int(item["timestamp-ms"]))
            for item in document.get("snapshot-log") or ()
        ),
        metadata_log=tuple(
            MetadataLogEntry(item["metadata-file"], int(item["timestamp-ms"]))
            for item in document.get("metadata-log") or ()
        ),
        next_row_id=_next_row_id(document, snapshots, version),
        document=document,
    )


def _next_row_id(
    document: Mapping[str, Any], snapshots: tuple[Snapshot, ...], version: int
) -> int | None:
    if version < 3:
        return None
    named = document.get("next-row-id")
    if named is not None:
        return int(named)
    # Writers leave it out that give rows no ids, as those of version 2: the next id is the first.
    return max(
        ((snapshot.first_row_id or 0) + (snapshot.added_rows or 0) for snapshot in snapshots),
        default=0,
    )


def _table_uuid(document: Mapping[str, Any], version: int) -> str:
    if "table-uuid" in document or version > 1:
        return str(document["table-uuid"])
    # Version 1 need not name one; the next writer gives it a lasting one, the same for all.
    return str(uuid.uuid5(uuid.NAMESPACE_URL, document["location"]))


def _schemas(document: Mapping[str, Any], version: int) -> tuple[tuple[Schema, ...], int]:
    if document.get("schemas"):
        schemas = tuple(Schema.parse(item) for item in document["schemas"])
        return schemas, int(document["current-schema-id"])
    if version > 1:
        raise KeyError("schemas")
    only = Schema.parse(document["schema"])
    return (only,), only.schema_id


def _specs(document: Mapping[str, Any], version: int) -> tuple[tuple[PartitionSpec, ...], int]:
    if document.get("partition-specs"):
        specs = tuple(
            PartitionSpec.parse(partition_spec) for partition_spec in document["partition-specs"]
        )
        return specs, int(document["default-spec-id"])
    if version > 1:
        raise KeyError("partition-specs")
    return (PartitionSpec(0, parse_partition_fields(document["partition-spec"])),), 0


def _last_partition_id(
    document: Mapping[str, Any], specs: tuple[PartitionSpec, ...], version: int
) -> int:
    if "last-partition-id" in document or version > 1:
        return int(document["last-partition-id"])
    fields: list[PartitionField] = [
        partition_field for spec in specs for partition_field in spec.fields
    ]
    return max(
        (partition_field.field_id for partition_field in fields),
        default=FIRST_PARTITION_FIELD_ID - 1,
    )


def _check(metadata: TableMetadata, path: object) -> None:
    """What every later step takes for granted."""
    try:
        metadata.schema()
        metadata.spec()
        metadata.sort_order()
    except CorruptTableError as error:
        error.path = path
        raise
    known = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    dangling = {
        n: ref.snapshot_id for n, ref in metadata.refs.items() if ref.snapshot_id not in known
    }
    if dangling:
        message = "a branch or tag leads to a snapshot that the metadata does not list"
        raise CorruptTableError(message, table=metadata.location, path=path, value=dangling)
