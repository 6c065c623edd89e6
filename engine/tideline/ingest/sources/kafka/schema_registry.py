"""The schemas of values, from the registry that a source names.

1. A value says which schema it has (`schema_id`), which means the same for ever: each is fetched
   once in a process.
2. A schema may refer to versions of other subjects for types that these define. They are fetched
   too, deleted ones as well, and put where they are named (`avro_references`).
3. What a registry says is a schema or an error (`registry_requests`).

Source: Confluent's Schema Registry API.
"""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import ConfigError, CorruptTableError
from tideline.ingest.sources.kafka.avro_references import Definitions
from tideline.ingest.sources.kafka.decoded import NoRowError
from tideline.ingest.sources.kafka.registry_requests import registry_answer
from tideline.ingest.sources.kafka.schema_id import SchemaId

_SCHEMAS_KEPT = 1_000
_REFERENCES_MAX = 100
_NAME_MAX = 100


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of a subject, to which a schema refers."""

    subject: str
    number: int

    @property
    def path(self) -> str:
        subject = urllib.parse.quote(self.subject, safe="")
        return f"subjects/{subject}/versions/{self.number}?deleted=true"

    def __str__(self) -> str:
        return f"{self.subject[:_NAME_MAX]} version {self.number}"


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a registry says of a schema."""

    schema: str
    references: tuple[_Version, ...]


@lru_cache(maxsize=_SCHEMAS_KEPT)
def avro_schema(registry: str, wanted: SchemaId) -> str:
    """The Avro schema of this number or GUID, as JSON, with all types that it refers to.

    Raises NoRowError where the registry has none or it is no Avro, ConfigError where the registry
    refuses this client or has no such interface, StorageUnavailableError.
    """
    what = f"schema {wanted}"
    found = _fetched(registry, wanted.path, what)
    if not found.references:
        return found.schema
    try:
        definitions = Definitions()
        seen: set[_Version] = set()
        for version in found.references:
            _define(registry, version, (), seen, definitions)
        return json.dumps(definitions.whole(_parsed(found.schema)))
    except NoRowError as error:
        raise NoRowError(f"{what} refers to others, and {error}") from error
    except PARSER_FAULTS as error:
        raise NoRowError(f"{what} refers to others, and cannot be read with them") from error


def _define(
    registry: str,
    version: _Version,
    above: tuple[_Version, ...],
    seen: set[_Version],
    definitions: Definitions,
) -> None:
    """Adds what a version defines, and before it what those define that it refers to."""
    if version in above:
        circle = " -> ".join(map(str, (*above[above.index(version) :], version)))
        raise NoRowError(f"these refer to each other: {circle}")
    if version in seen:
        return
    seen.add(version)
    if len(seen) > _REFERENCES_MAX:
        raise NoRowError(f"these are more than {_REFERENCES_MAX}")
    found = _fetched(registry, version.path, str(version))
    for other in found.references:
        _define(registry, other, (*above, version), seen, definitions)
    definitions.add(_parsed(found.schema))


def _parsed(schema: str) -> Any:
    try:
        return parse_json(schema, what="Avro schema")
    except CorruptTableError as error:
        raise NoRowError(f"one of them cannot be read: {error}") from error


def _fetched(registry: str, path: str, what: str) -> _Answer:
    answer = registry_answer(registry, path, what)
    try:
        content = parse_json(answer, what="answer of the schema registry")
        schema = content["schema"]
        kind, references = content.get("schemaType", "AVRO"), content.get("references") or ()
    except (CorruptTableError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("what answers is no schema registry", path=registry) from error
    if not isinstance(schema, str):
        raise ConfigError("what answers is no schema registry", path=registry)
    if kind != "AVRO":
        raise NoRowError(f"{what} is no Avro, but {kind}")
    try:
        versions = (_Version(str(item["subject"]), int(item["version"])) for item in references)
        return _Answer(schema, tuple(versions))
    except (KeyError, TypeError, ValueError) as error:
        raise NoRowError(f"{what} refers to others, but not to versions of subjects") from error
