"""By which schema a value was written: what Confluent's producers write before the value, or in a
header of its record.

| first byte | then | the schema's |
|---|---|---|
| 0 | 4 bytes | number |
| 1 | 16 bytes | GUID |

A header has the same bytes; its value is the Avro record alone. Where there is none, they stand
before the value.

Source: Confluent's clients, `SchemaId` and `DualSchemaIdDeserializer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from tideline.ingest.sources.kafka.decoded import NoRowError
from tideline.ingest.sources.kafka.records import Headers

_NUMBER, _GUID = 0, 1
_LENGTHS = {_NUMBER: 5, _GUID: 17}


class IdHeader(Enum):
    """The header of a record that has the schema of its value or key."""

    VALUE = "__value_schema_id"
    KEY = "__key_schema_id"

    def before(self, value: bytes, headers: Headers) -> bytes:
        """The value as it is with its schema before it. Raises NoRowError."""
        found = {content for name, content in headers if name == self.value and content}
        if not found:
            return value
        if len(found) > 1:
            raise NoRowError(f"the record has several headers {self.value}")
        (content,) = found
        if _LENGTHS.get(content[0]) != len(content):
            raise NoRowError(f"the header {self.value} has neither a number nor a GUID of a schema")
        return content + value


@dataclass(frozen=True, slots=True)
class SchemaId:
    """The number or the GUID of a schema."""

    value: int | UUID

    @classmethod
    def of(cls, content: bytes) -> SchemaId:
        """That of the bytes before a value."""
        if content[0] == _GUID:
            return cls(UUID(bytes=content[1:]))
        return cls(int.from_bytes(content[1:]))

    @property
    def path(self) -> str:
        """Of its schema, at a registry."""
        return f"schemas/{'guids' if isinstance(self.value, UUID) else 'ids'}/{self.value}"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(slots=True)
class OfSchema:
    """Avro records of one schema, and the places of their values."""

    places: Sequence[int]
    datums: list[bytes]


def has_schema(value: bytes) -> bool:
    """Whether it begins as one with its schema before it."""
    return value[:1] in (b"\0", b"\1")


def by_schema(values: Sequence[bytes], faults: dict[int, str]) -> dict[SchemaId, OfSchema]:
    """The values of each schema; why others have none goes into `faults`."""
    if values and (length := _length(values[0])):
        begin = values[0][:length]
        if [value[:length] for value in values].count(begin) == len(values):
            datums = [value[length:] for value in values]
            return {SchemaId.of(begin): OfSchema(range(len(values)), datums)}
    places: dict[bytes, list[int]] = {}
    for place, value in enumerate(values):
        length = _length(value)
        if length:
            places.setdefault(value[:length], []).append(place)
        else:
            faults[place] = "the value does not begin with the number or the GUID of a schema"
    return {
        SchemaId.of(begin): OfSchema(found, [values[place][len(begin) :] for place in found])
        for begin, found in places.items()
    }


def _length(value: bytes) -> int:
    """How many bytes before a value say by which schema it was written; 0 where none do."""
    length = _LENGTHS.get(value[0], 0) if value else 0
    return length if length <= len(value) else 0
