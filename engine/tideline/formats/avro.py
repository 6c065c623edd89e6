"""Avro: object containers of one record, and records without a container.

Plans and service metadata are containers, log blocks hold bare records with a schema apart.

A container is `Obj\\x01`, a metadata map with the single key `avro.schema`, a 16 byte marker, then
one uncompressed block: record count, byte count, record, marker. Nothing in it depends on time or
chance, so that equal records are equal bytes. The schemas are those of Hudi's
`org.apache.hudi.avro.model`, in `schemas/<name>.avsc`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro

from tideline.bounded.parsing import faults_named, parse_json
from tideline.errors import CorruptTableError
from tideline.formats.avro_blocks import MAGIC, admit_values, check_schema, open_blocks

FASTAVRO_FAULTS: tuple[type[Exception], ...] = (Exception,)
"""It raises any error that broken bytes lead to, and errors of its own without a common base."""

_UNREADABLE = "Avro file is truncated or unreadable"
_MISFIT = "Avro records do not fit their schema"

_LOGICAL_PROPERTIES = ("logicalType", "precision", "scale", "default", "doc")


def encode_container(schema_name: str, record: Mapping[str, Any]) -> bytes:
    """A container with one record.

    Fields the record leaves out get the schema's default. Raises ValueError or TypeError when the
    record does not fit the schema, fields unknown to it included.
    """
    schema_json = _schema_json(schema_name).encode()
    body = BytesIO()
    fastavro.schemaless_writer(body, _parsed(schema_name), record, strict_allow_default=True)
    block = body.getvalue()
    marker = hashlib.md5(schema_json + block, usedforsecurity=False).digest()
    sizes = encode_long(1), encode_long(len(block))
    return b"".join((MAGIC, _header(schema_json), marker, *sizes, block, marker))


def decode_container(
    body: bytes, schema_name: str | None = None, *, path: object = None
) -> dict[str, Any]:
    """The first record of a container, read with the schema inside it.

    With `schema_name` the record is resolved to that schema: fields of newer Hudi versions are
    dropped, missing ones get their default. Raises CorruptTableError naming `path` when the bytes
    are cut short, hold no record or do not fit the schema, UnsupportedTableError beyond the limits.
    """
    wanted = None if schema_name is None else _parsed(schema_name)
    opened = open_blocks(body, path=path)
    record: Any = None
    # The later blocks are read too: a cut file lacks the marker of its last one.
    for count, block in opened.blocks():
        if record is None and count:
            with faults_named(_UNREADABLE, path=path, also=FASTAVRO_FAULTS):
                record = _first_record(block, count, json.dumps(opened.schema), wanted)
    if not isinstance(record, dict):
        raise CorruptTableError("Avro file holds no record", path=path)
    return record


def _first_record(block: bytes, count: int, schema_json: str, wanted: Any) -> Any:
    source = BytesIO(block)
    record = fastavro.schemaless_reader(source, _parsed_json(schema_json), wanted)
    if count == 1 and source.tell() != len(block):
        raise ValueError("the block does not end with its record")
    return record


def encode_records(schema_json: str, records: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Each record on its own, without a container.

    Raises ValueError or TypeError when a record does not fit the schema.
    """
    parsed = _parsed_json(schema_json)
    datums = []
    body = BytesIO()
    for record in records:
        body.seek(0)
        body.truncate()
        fastavro.schemaless_writer(body, parsed, record)
        datums.append(body.getvalue())
    return datums


def decode_records(
    schema_json: str,
    datums: Sequence[bytes],
    *,
    path: object = None,
    names_records: bool = False,
) -> list[dict[str, Any]]:
    """The records that `encode_records` or Hudi made; with `names_records` one of several records
    in a union is a pair of its name and its content.

    They are put behind one another as one container, so that one call reads them all. Raises
    CorruptTableError naming `path` when they do not fit the schema.
    """
    block = b"".join(datums)
    marker = bytes(16)
    sizes = encode_long(len(datums)), encode_long(len(block))
    header = _header(schema_json.encode())
    container = b"".join((MAGIC, header, marker, *sizes, block, marker))
    with faults_named(_MISFIT, path=path, also=FASTAVRO_FAULTS):
        _parsed_json(schema_json)  # checks it
        reader = fastavro.reader(
            BytesIO(container),
            return_record_name=names_records,
            return_record_name_override=names_records,
        )
        found: list[Any] = list(reader)
    if len(found) != len(datums):
        raise CorruptTableError(_MISFIT, path=path)
    return found


def decode_foreign_records(
    schema_json: str, datums: Sequence[bytes], *, path: object = None
) -> list[dict[str, Any]]:
    """Records of several writers; each must end where its bytes do.

    One call reads them all. Behind each stands a number that no writer can guess: a record that is
    longer or shorter than its bytes shows another one. Raises as `decode_records` does.
    """
    sealed_json, name = _with_seal(schema_json)
    # All bits of the number are kept by a double.
    seal = float(secrets.randbits(53))
    sealed = [datum + struct.pack("<d", seal) for datum in datums]
    found = decode_records(sealed_json, sealed, path=path)
    if any(record.pop(name) != seal for record in found):
        raise CorruptTableError(_MISFIT, path=path)
    return found


def decode_blocks(
    schema: Mapping[str, Any],
    blocks: Sequence[tuple[int, bytes]],
    wanted: Mapping[str, Any],
    *,
    path: object = None,
) -> list[Any]:
    """The records of decompressed blocks, each with how many it holds, with the fields of the
    schema `wanted`; others are stepped over. Raises CorruptTableError naming `path`."""
    marker = bytes(16)
    body = [MAGIC, _header(json.dumps(schema).encode()), marker]
    for count, block in blocks:
        body += [encode_long(count), encode_long(len(block)), block, marker]
    with faults_named(_UNREADABLE, path=path, also=FASTAVRO_FAULTS):
        found = list(fastavro.reader(BytesIO(b"".join(body)), fastavro.parse_schema(dict(wanted))))
    if len(found) != sum(count for count, _ in blocks):
        raise CorruptTableError(_UNREADABLE, path=path)
    return found


def decode_record(
    schema_json: str, datum: bytes, *, path: object = None, names_records: bool = False
) -> dict[str, Any]:
    """One of such records, which `admit_records` has let in. Raises likewise."""
    body = BytesIO(datum)
    with faults_named(_MISFIT, path=path, also=FASTAVRO_FAULTS):
        record: Any = fastavro.schemaless_reader(
            body,
            _parsed_json(schema_json),
            None,
            return_record_name=names_records,
            return_record_name_override=names_records,
        )
    if not isinstance(record, dict) or body.tell() != len(datum):
        raise CorruptTableError(_MISFIT, path=path)
    return record


def admit_records(schema_json: str, datums: Sequence[bytes], *, path: object = None) -> None:
    """Let these records be decoded, all of them at once, as metadata is.

    Raises CorruptTableError naming `path` for a schema or records that are none, and
    UnsupportedTableError for more values than one object may have.
    """
    admit_values(_checked(schema_json), datums, path=path)


def encode_long(value: int) -> bytes:
    """A long in Avro's zigzag variable length form."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    parts = bytearray()
    while zigzag > 0x7F:
        parts.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    parts.append(zigzag)
    return bytes(parts)


def encode_bytes(value: bytes) -> bytes:
    """Bytes, or a text in UTF-8, behind their length."""
    return encode_long(len(value)) + value


@lru_cache(maxsize=64)
def physical_schema(schema_json: str) -> str:
    """A schema of the same bytes that makes reading and writing records cheap.

    Logical types are gone: their values are plain numbers and bytes. A map is an array of records
    with the fields `key` and `value`.
    """
    return json.dumps(_Physical().of(_checked(schema_json)), separators=(",", ":"))


class _Physical:
    """One schema being made physical; `_maps` numbers the records that stand for maps."""

    def __init__(self) -> None:
        self._maps = 0

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.of(branch) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        if schema.get("type") == "map":
            self._maps += 1
            name = f"map_entry_{self._maps}"
            entry = [
                {"name": "key", "type": "string"},
                {"name": "value", "type": self.of(schema["values"])},
            ]
            return {"type": "array", "items": {"type": "record", "name": name, "fields": entry}}
        kept = {key: item for key, item in schema.items() if key not in _LOGICAL_PROPERTIES}
        for part in ("type", "items"):
            if isinstance(kept.get(part), (dict, list)):
                kept[part] = self.of(kept[part])
        if "fields" in kept:
            kept["fields"] = [
                {"name": item["name"], "type": self.of(item["type"])} for item in kept["fields"]
            ]
        return kept


@lru_cache(maxsize=64)
def _with_seal(schema_json: str) -> tuple[str, str]:
    """The schema of such records with a number behind each, and the name of its field."""
    schema = _checked(schema_json)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise CorruptTableError("not the Avro schema of a record", value=schema_json)
    name = "seal"
    while any(field["name"] == name for field in schema["fields"]):
        name += "_"
    fields = [*schema["fields"], {"name": name, "type": "double"}]
    return json.dumps({**schema, "fields": fields}), name


@lru_cache(maxsize=64)
def _parsed_json(schema_json: str) -> Any:
    with faults_named("not an Avro schema that can be read", also=FASTAVRO_FAULTS):
        return fastavro.parse_schema(_checked(schema_json))


@lru_cache(maxsize=64)
def _checked(schema_json: str) -> Any:
    """A schema that others wrote. Raises CorruptTableError for one that is none or too much."""
    with faults_named("not an Avro schema that can be read"):
        parsed = parse_json(schema_json, what="Avro schema")
        check_schema(parsed)
    return parsed


@cache
def _parsed(schema_name: str) -> Any:
    return fastavro.parse_schema(schema(schema_name))


def schema(name: str) -> dict[str, Any]:
    """A Hudi schema by its record name, as JSON. Raises KeyError for an unknown name."""
    parsed: dict[str, Any] = json.loads(_schema_json(name))
    return parsed


@cache
def _schema_json(name: str) -> str:
    file = files(__package__) / "schemas" / f"{name}.avsc"
    if not file.is_file():
        raise KeyError(name)
    return json.dumps(json.loads(file.read_text(encoding="utf-8")), separators=(",", ":"))


def _header(schema_json: bytes) -> bytes:
    """The metadata map: one entry, then its end."""
    entry = encode_bytes(b"avro.schema"), encode_bytes(schema_json)
    return b"".join((encode_long(1), *entry, encode_long(0)))
