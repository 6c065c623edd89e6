"""Avro object containers with a header of their own and many records: Iceberg's manifests.

Records are read and written physically: logical types are left out of the way, so that a date is
its number of days and a decimal its bytes, without a Python object made on the way.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from tideline.errors import CorruptTable
from tideline.formats.avro import MAGIC, encode_long
from tideline.formats.avro_scan import compile_reader, read_bytes, read_long

_SYNC_BYTES = 16


@dataclass(frozen=True, slots=True)
class AvroContainer:
    """An opened container: its header, its schema with all properties (field ids), its blocks."""

    metadata: Mapping[str, str]
    schema: Mapping[str, Any]
    path: object
    _body: bytes
    _blocks_at: int

    def records(
        self, wanted: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The records, by the writer's field names; fields that are not `wanted` are skipped
        unread. Raises CorruptTable for broken or truncated blocks."""
        codec = self.metadata.get("avro.codec", "null")
        if wanted is not None and codec in _CODECS:
            yield from self._wanted_records(wanted, _CODECS[codec])
            return
        writer = physical(self.schema)
        header = _header({**self.metadata, "avro.schema": json.dumps(writer)})
        sync = self._body[self._blocks_at - _SYNC_BYTES : self._blocks_at]
        container = b"".join((MAGIC, header, sync, memoryview(self._body)[self._blocks_at :]))
        try:
            reader_schema = physical(self.schema, wanted)
            same = reader_schema == writer
            yield from fastavro.reader(BytesIO(container), None if same else reader_schema)  # type: ignore[misc]
        except Exception as error:  # fastavro raises whatever broken bytes lead it to
            raise self._unreadable(error) from error

    def _wanted_records(
        self,
        wanted: Callable[[Mapping[str, Any]], bool],
        decompress: Callable[[bytes], bytes],
    ) -> Iterator[dict[str, Any]]:
        body, position = self._body, self._blocks_at
        sync = body[position - _SYNC_BYTES : position]
        try:
            read = compile_reader(self.schema, wanted)
            while position < len(body):
                count, position = read_long(body, position)
                size, position = read_long(body, position)
                end = position + size
                if size < 0 or body[end : end + _SYNC_BYTES] != sync:
                    raise ValueError("a block does not end with the marker")
                block = decompress(body[position:end])
                at = 0
                for record, end_of_record in read(block, 0, count):
                    at = end_of_record
                    yield record
                if at != len(block):
                    raise ValueError("a block does not end with its last record")
                position = end + _SYNC_BYTES
        except (ValueError, IndexError, KeyError, TypeError, struct.error, zlib.error) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> CorruptTable:
        message = "Avro file is truncated or unreadable"
        return CorruptTable(message, path=self.path, value=repr(error))


def _inflated(block: bytes) -> bytes:
    return zlib.decompress(block, wbits=-zlib.MAX_WBITS)


# The others are left to fastavro.
_CODECS: Mapping[str, Callable[[bytes], bytes]] = {"null": bytes, "deflate": _inflated}


def open_container(body: bytes, *, path: object = None) -> AvroContainer:
    """Read the header. Raises CorruptTable when there is none."""
    try:
        if body[:4] != MAGIC:
            raise ValueError("it does not begin with Avro's magic bytes")
        metadata, at = _read_map(body, len(MAGIC))
        schema = json.loads(metadata["avro.schema"])
        if not isinstance(schema, dict) or len(body) < at + _SYNC_BYTES:
            raise ValueError("it holds no records")
    except (ValueError, KeyError, IndexError) as error:
        message = "Not an Avro file, or a truncated one"
        raise CorruptTable(message, path=path, value=repr(error)) from error
    return AvroContainer(metadata, schema, path, body, at + _SYNC_BYTES)


def encode_records_container(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str]
) -> bytes:
    """A container, compressed with deflate, whose header carries `schema` and `metadata`.

    The records hold physical values. Raises ValueError or TypeError when one does not fit.
    """
    body = BytesIO()
    fastavro.writer(body, physical(schema), records, codec="deflate")
    written = body.getvalue()
    own, at = _read_map(written, len(MAGIC))
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


def _read_map(body: bytes, at: int) -> tuple[dict[str, str], int]:
    entries: dict[str, str] = {}
    while True:
        count, at = read_long(body, at)
        if count == 0:
            return entries, at
        if count < 0:  # a block that also tells its size
            count = -count
            _, at = read_long(body, at)
        for _ in range(count):
            key, at = read_bytes(body, at)
            value, at = read_bytes(body, at)
            entries[key.decode()] = value.decode()
