"""The schemas of values, from the registry that a source names.

1. A value says which schema it has (`schema_id`). A process keeps it for a moment; while the
   registry is away, for as long as that lasts.
2. A schema may refer to versions of other subjects for types that these define. They are fetched
   too, deleted ones as well, and put where they are named (`avro_references`).
3. A number means the same for ever, unless the registry was emptied and filled again: what it
   meant for the records of the table (`known_schemas`) is compared, and nothing is read by another
   schema.
4. What a registry says is a schema or an error (`registry_requests`).

Source: Confluent's Schema Registry API.
"""

from __future__ import annotations

import json
import time
import urllib.parse
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from uuid import UUID

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError
from tideline.ingest.sources.kafka.avro_references import Definitions
from tideline.ingest.sources.kafka.decoded import NoRowError
from tideline.ingest.sources.kafka.known_schemas import KnownSchemas
from tideline.ingest.sources.kafka.registry_requests import registry_answer
from tideline.ingest.sources.kafka.schema_id import SchemaId

_SCHEMAS_KEPT = 1_000
_FRESH_S, _AWAY_S = 10.0, 60.0
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
class _Schema:
    """A schema with all types that it refers to, and a digest of all that the registry says."""

    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a registry says of a schema."""

    schema: str
    references: tuple[_Version, ...]


@dataclass(slots=True, eq=False)
class Registry:
    """The registry at an address, for one reading. `known` are schemas by which records were read
    before."""

    address: str
    known: KnownSchemas = field(default_factory=KnownSchemas)
    _found: dict[SchemaId, _Schema] = field(default_factory=dict)

    def schema(self, wanted: SchemaId) -> str:
        """The Avro schema of this number or GUID, as JSON, with all types that it refers to.

        Raises NoRowError where the registry has none or it is no Avro, ConfigError where it is not
        the one that is known, or the registry refuses this client or has no such interface;
        StorageUnavailableError.
        """
        found = self._found.get(wanted)
        if found is None:
            found = self._found[wanted] = self._checked(wanted)
        return found.text

    def used(self) -> KnownSchemas:
        """Those of this reading. A GUID is made of its schema, and is of no other one."""
        digests = (
            (wanted.value, found.digest)
            for wanted, found in self._found.items()
            if isinstance(wanted.value, int)
        )
        return KnownSchemas(self.address, tuple(sorted(digests)))

    def _checked(self, wanted: SchemaId) -> _Schema:
        known = None
        if isinstance(wanted.value, int):
            known = self.known.of(self.address).get(wanted.value)
        try:
            found = _schema(self.address, wanted)
        except NoRowError as error:
            if known is None:
                raise
            raise self._another(wanted, f"is gone ({error})") from error
        if known not in (None, found.digest):
            raise self._another(wanted, "is another one now")
        return found

    def _another(self, wanted: SchemaId, what: str) -> ConfigError:
        return ConfigError(
            f"schema {wanted}, by which records of the table were read, {what}: fill the registry "
            "with the numbers that it had (mode IMPORT); or, once all records are read that were "
            "written before, name it in schemaRegistry by another address, whose numbers nobody "
            "knows; or read the topics from their start (tideline resync)",
            path=self.address,
        )


_KEPT: OrderedDict[tuple[str, SchemaId], tuple[float, _Schema]] = OrderedDict()
"""Schemas, and until when they are not asked for again."""


def _schema(registry: str, wanted: SchemaId) -> _Schema:
    """What the registry says, or said a moment ago; of one that is away, what it said last."""
    key = registry, wanted
    kept = _KEPT.get(key)
    if kept is not None and (isinstance(wanted.value, UUID) or time.monotonic() < kept[0]):
        return kept[1]
    try:
        found, fresh_s = _said(registry, wanted), _FRESH_S
    except (StorageUnavailableError, ConfigError):
        if kept is None:
            raise
        found, fresh_s = kept[1], _AWAY_S
    _KEPT[key] = time.monotonic() + fresh_s, found
    _KEPT.move_to_end(key)
    while len(_KEPT) > _SCHEMAS_KEPT:
        _KEPT.popitem(last=False)
    return found


def _said(registry: str, wanted: SchemaId) -> _Schema:
    what = f"schema {wanted}"
    found = _fetched(registry, wanted.path, what)
    said = [found.schema]
    if not found.references:
        return _Schema(found.schema, _digest(said))
    try:
        definitions = Definitions()
        seen: dict[_Version, str] = {}
        for version in found.references:
            _define(registry, version, (), seen, definitions)
        text = json.dumps(definitions.whole(_parsed(found.schema)))
        return _Schema(text, _digest([*said, *seen.values()]))
    except NoRowError as error:
        raise NoRowError(f"{what} refers to others, and {error}") from error
    except PARSER_FAULTS as error:
        raise NoRowError(f"{what} refers to others, and cannot be read with them") from error


def _digest(schemas: Sequence[str]) -> str:
    """However they are written, and in whatever order those come to which the first one refers."""
    said = blake2b(digest_size=8)
    first, *others = map(_plain, schemas)
    for text in (first, *sorted(others)):
        said.update(f"{text}\n".encode())
    return said.hexdigest()


def _plain(schema: str) -> str:
    try:
        return json.dumps(_parsed(schema), sort_keys=True)
    except NoRowError:
        return schema


def _define(
    registry: str,
    version: _Version,
    above: tuple[_Version, ...],
    seen: dict[_Version, str],
    definitions: Definitions,
) -> None:
    """Adds what a version defines, and before it what those define that it refers to."""
    if version in above:
        circle = " -> ".join(map(str, (*above[above.index(version) :], version)))
        raise NoRowError(f"these refer to each other: {circle}")
    if version in seen:
        return
    if len(seen) >= _REFERENCES_MAX:
        raise NoRowError(f"these are more than {_REFERENCES_MAX}")
    found = _fetched(registry, version.path, str(version))
    seen[version] = found.schema
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
