"""Avro object containers with a header of their own and many records: Iceberg's manifests.

Records are read and written physically: logical types are left out of the way, so that a date is
its number of days and a decimal its bytes, without a Python object made on the way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import count_entries
from tideline.formats.avro import FASTAVRO_FAULTS, encode_long
from tideline.formats.avro_blocks import MAGIC, AvroBlocks, open_blocks, read_map
from tideline.formats.avro_scan import compile_reader

_UNREADABLE = "Avro file is truncated or unreadable"


@dataclass(frozen=True, slots=True)
class AvroContainer:
    """An opened container: its header, its schema with all properties (field ids), its blocks."""

    metadata: Mapping[str, str]
    schema: Mapping[str, Any]
    path: object
    _opened: AvroBlocks

    def records(
        self, wanted: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The records, by the writer's field names; fields that are not `wanted` are skipped
        unread. Raises CorruptTableError for broken or truncated blocks, UnsupportedTableError for
        one beyond the limits and for a codec that is not known."""
        with faults_named(_UNREADABLE, path=self.path, also=FASTAVRO_FAULTS):
            read = _whole(self.schema) if wanted is None else compile_reader(self.schema, wanted)
            for count, block in self._opened.blocks():
                count_entries(count, path=self.path)
                at = 0
                for record, end_of_record in read(block, 0, count):
                    at = end_of_record
                    yield record
                if at != len(block):
                    raise ValueError("a block does not end with its last record")


def open_container(body: bytes, *, path: object = None) -> AvroContainer:
    """Read the header. Raises CorruptTableError when there is none."""
    opened = open_blocks(body, path=path)
    return AvroContainer(opened.metadata, opened.schema, path, opened)


def encode_records_container(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str]
) -> bytes:
    """A container, compressed with deflate, whose header carries `schema` and `metadata`.

    The records hold physical values. Raises ValueError or TypeError when one does not fit.
    """
    body = BytesIO()
    fastavro.writer(body, physical(schema), records, codec="deflate")
    written = body.getvalue()
    own, at = read_map(written, len(MAGIC))
    header = _header({**own, **metadata, "avro.schema": json.dumps(schema)})
    return b"".join((MAGIC, header, memoryview(written)[at:]))


def physical(schema: Any, wanted: Callable[[Mapping[str, Any]], bool] | None = None) -> Any:
    """A schema of the same bytes without logical types and without fields that are not wanted."""
    if isinstance(schema, list):
        return [physical(branch, wanted) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if key in _STRUCTURE}
    for part in ("type", "items", "values"):
        if isinstance(kept.get(part), (Mapping, list)):
            kept[part] = physical(kept[part], wanted)
    if "fields" in kept:
        kept["fields"] = [
            {"name": field["name"], "type": physical(field["type"], wanted)}
            for field in kept["fields"]
            if wanted is None or wanted(field)
        ]
    return kept


_STRUCTURE = frozenset(
    {"type", "items", "values", "fields", "name", "namespace", "size", "symbols"}
)


def _header(metadata: Mapping[str, str]) -> bytes:
    parts = [encode_long(len(metadata))]
    for key, value in metadata.items():
        for text in (key.encode(), value.encode()):
            parts += (encode_long(len(text)), text)
    return b"".join((*parts, encode_long(0)))


def _whole(
    schema: Mapping[str, Any],
) -> Callable[[bytes, int, int], Iterator[tuple[dict[str, Any], int]]]:
    """Like `compile_reader` for all fields, which fastavro is faster at."""
    parsed = fastavro.parse_schema(physical(schema))

    def records(block: bytes, position: int, count: int) -> Iterator[tuple[dict[str, Any], int]]:
        source = BytesIO(block)
        source.seek(position)
        for _ in range(count):
            record: Any = fastavro.schemaless_reader(source, parsed)
            yield record, source.tell()

    return records
