"""Values that are Avro records behind the number or GUID of their schema, as Arrow rows.

The values of each schema are read at once; their columns are those of the schema by which
they were written. A key is a record with columns of the record key, or the value of the only one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pyarrow as pa

from tideline.bounded.parsing import parse_json
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.log.data_block import decode_avro_rows
from tideline.ingest.sources.kafka.connect_avro import with_precision
from tideline.ingest.sources.kafka.decoded import (
    Decoded,
    NoRowError,
    WantedColumns,
    joined,
    read_as_first,
    read_halves,
)
from tideline.ingest.sources.kafka.schema_id import by_schema
from tideline.ingest.sources.kafka.schema_registry import Registry

_AT_ONCE = 10_000
ReadRows = Callable[[Sequence[bytes], str], pa.Table]
"""Rows of Avro records by their schema, one for each. Raises NoRowError."""


def read_avro_values(values: Sequence[bytes], registry: Registry, wanted: WantedColumns) -> Decoded:
    """The rows of values. Raises ConfigError, StorageUnavailableError for the registry's sake."""

    def read_as(known: WantedColumns) -> Decoded:
        def read(datums: Sequence[bytes], schema: str) -> pa.Table:
            return known.of(avro_rows(datums, schema))

        return read_by_schema(values, registry, read, known)

    return read_as_first(wanted, read_as)


def read_avro_keys(keys: Sequence[bytes], registry: Registry, wanted: WantedColumns) -> Decoded:
    """The rows that keys of records name, in columns of the record key."""
    names = [] if wanted.declared is None else wanted.declared.names

    def read(datums: Sequence[bytes], schema: str) -> pa.Table:
        if len(names) == 1:
            schema = _in_a_record(schema, names[0])
        return wanted.of(avro_rows(datums, schema))

    return read_by_schema(keys, registry, read, wanted)


def read_by_schema(
    values: Sequence[bytes], registry: Registry, read: ReadRows, wanted: WantedColumns
) -> Decoded:
    """What `read` makes of the values of each schema, one after another. Raises MixedTypesError."""
    faults: dict[int, str] = {}
    tables: list[pa.Table] = []
    numbers: list[int] = []
    for wanted_id, group in by_schema(values, faults).items():
        places = group.places
        try:
            schema = registry.schema(wanted_id)
        except NoRowError as error:
            faults.update(dict.fromkeys(places, str(error)))
            continue
        bad: dict[int, str] = {}
        tables += read_halves(group.datums, lambda part, schema=schema: read(part, schema), bad)  # type: ignore[misc]
        numbers += [place for at, place in enumerate(places) if at not in bad] if bad else places
        faults |= {places[at]: reason for at, reason in bad.items()}
    rows = joined(tables) if tables else wanted.empty()
    return Decoded(rows, numbers, faults=faults)


def avro_rows(datums: Sequence[bytes], schema: str) -> pa.Table:
    """A row for each record. Raises NoRowError."""
    schema = with_precision(schema)
    try:
        # More records at once would be looked at by the garbage collector again and again.
        return pa.concat_tables(
            decode_avro_rows(datums[first : first + _AT_ONCE], schema, are_strangers=True)
            for first in range(0, max(len(datums), 1), _AT_ONCE)
        )
    except (CorruptTableError, UnsupportedTableError) as error:
        raise NoRowError(f"the value cannot be read by its schema: {error}") from error


def _in_a_record(schema: str, name: str) -> str:
    """A schema that is no record as the only field of one, whose bytes are the same."""
    try:
        found = parse_json(schema, what="Avro schema")
    except CorruptTableError as error:
        raise NoRowError(f"the schema of a key cannot be read: {error}") from error
    if isinstance(found, dict) and found.get("type") == "record":
        return schema
    field = {"name": name, "type": found}
    return json.dumps({"type": "record", "name": "key", "fields": [field]})
