"""Partition values of fixed bytes in manifests: by the specification, and as Java has them.

Java writes the length before such a value, which no schema of a manifest says, and its own reader
takes it away again. A manifest that is not understood by its schema is read in that way.

Source: apache/iceberg#17501.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.avro_container import AvroContainer
from tideline.iceberg.metadata.avro_type import not_null

_ENTRY_FILE, _FILE_PARTITION = 2, 102


class JavaFixed(bytes):
    """Bytes that had their length before them."""


def manifest_records(
    container: AvroContainer, wanted: Callable[[Mapping[str, Any]], bool] | None
) -> Iterator[dict[str, Any]]:
    """The records of a manifest. Raises as `AvroContainer.records`."""
    with faults_named("a manifest lacks what the specification requires", path=container.path):
        file = _named(container.schema, _ENTRY_FILE)
        place = _named(not_null(file["type"]), _FILE_PARTITION)
        sizes, types = _fixed_fields(not_null(place["type"]))
    if not sizes:
        yield from container.records(wanted)
        return
    try:
        # Whether the schema was the right one is known where the records end.
        yield from list(container.records(wanted))
        return
    except CorruptTableError as error:
        by_schema = error
    changed = replace(container, schema=_with_lengths(container.schema, types))
    try:
        records = list(changed.records(wanted))
    except CorruptTableError:
        raise by_schema from None
    for record in records:
        partition = record.get(file["name"], {}).get(place["name"], {})
        for name in sizes.keys() & partition.keys():
            size, value = sizes[name], partition[name]
            if value is not None and len(value) != size:
                raise by_schema
            partition[name] = None if value is None else JavaFixed(value)
        yield record


def storable(value: Any) -> Any:
    """A partition value for a manifest. Raises UnsupportedTableError for one of Java's, which it
    would not read again."""
    if not isinstance(value, JavaFixed):
        return value
    message = (
        "manifests with partition values of fixed bytes that Iceberg's Java wrote are only read: "
        "change such partitions by Iceberg's Java"
    )
    raise UnsupportedTableError(message, value=bytes(value))


def _fixed_fields(partition: Mapping[str, Any]) -> tuple[dict[str, int], frozenset[str]]:
    """The fields of fixed bytes with their sizes, and the names of their types."""
    types: dict[str, int] = {}
    fields: dict[str, int] = {}
    for field in partition["fields"]:
        if field["type"] in ("null", ["null"]):
            # Of a column of no known type.
            continue
        kind = not_null(field["type"])
        if isinstance(kind, Mapping) and kind.get("type") == "fixed" and "logicalType" not in kind:
            types[kind["name"]] = int(kind["size"])
            kind = kind["name"]
        if isinstance(kind, str) and kind in types:
            fields[field["name"]] = types[kind]
    return fields, frozenset(types)


def _with_lengths(schema: Any, types: frozenset[str]) -> Any:
    """The schema with bytes in the places of some types."""
    if isinstance(schema, list):
        return [_with_lengths(branch, types) for branch in schema]
    if isinstance(schema, str):
        return "bytes" if schema in types else schema
    if schema.get("type") == "fixed" and schema["name"] in types:
        return "bytes"
    parts = {
        part: _with_lengths(schema[part], types)
        for part in ("type", "items", "values", "fields")
        if part in schema
    }
    return {**schema, **parts}


def _named(record: Mapping[str, Any], field_id: int) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(
        field for field in record["fields"] if field.get("field-id") == field_id
    )
    return found
