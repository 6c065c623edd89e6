"""The schemas of values, from the registry that a source names.

1. A value says which schema it has (`schema_id`), which means the same for ever: each is fetched
   once in a process.
2. A schema may refer to versions of other subjects for types that these define. They are fetched
   too, deleted ones as well, and put where they are named (`avro_references`).
3. The registry is a server that a spec names: no redirect is followed, an answer has limits of time
   and size, and what it says is a schema or an error.

Credentials are variables of the environment: SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD;
SCHEMA_REGISTRY_CA_FILE, or SCHEMA_REGISTRY_CA with the PEM text, for an authority of its own.
Source: Confluent's Schema Registry API.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError
from tideline.ingest.sources.kafka.avro_references import Definitions
from tideline.ingest.sources.kafka.decoded import NoRowError
from tideline.ingest.sources.kafka.schema_id import SchemaId
from tideline.secret_values import note_secrets

_ANSWER_S = 20.0
_ANSWER_BYTES_MAX = 4 << 20
_CHUNK_BYTES = 1 << 16
_SCHEMES = ("http://", "https://")
_SCHEMAS_KEPT = 1_000
_REFERENCES_MAX = 100
_NAME_MAX = 100
_UNKNOWN, _REFUSALS = 404, (401, 403)


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
    answer = _get(f"{registry.rstrip('/')}/{path}", registry, what)
    try:
        content = parse_json(answer, what="answer of the schema registry")
        schema = str(content["schema"])
        kind, references = content.get("schemaType", "AVRO"), content.get("references") or ()
    except (CorruptTableError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("what answers is no schema registry", path=registry) from error
    if kind != "AVRO":
        raise NoRowError(f"{what} is no Avro, but {kind}")
    try:
        versions = (_Version(str(item["subject"]), int(item["version"])) for item in references)
        return _Answer(schema, tuple(versions))
    except (KeyError, TypeError, ValueError) as error:
        raise NoRowError(f"{what} refers to others, but not to versions of subjects") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _get(url: str, registry: str, what: str) -> bytes:
    if not registry.startswith(_SCHEMES):
        raise ConfigError("schemaRegistry is an address of http or https", value=registry)
    request = urllib.request.Request(url, headers=_headers())
    try:
        with _opener().open(request, timeout=_ANSWER_S) as response:
            return _body(response, registry, what)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _UNKNOWN:
            message = f"the schema registry has no {what}: is it the one of this topic?"
            raise NoRowError(message) from error
        if error.code in _REFUSALS:
            message = f"the schema registry refuses this client: {error.code}"
            raise ConfigError(message, path=registry) from error
        message = f"the schema registry answers {error.code}"
        raise StorageUnavailableError(message, path=registry) from error
    except (OSError, http.client.HTTPException) as error:
        message = f"the schema registry does not answer: {error}"
        raise StorageUnavailableError(message, path=registry) from error


def _body(response: http.client.HTTPResponse, registry: str, what: str) -> bytes:
    """All of an answer; one that trickles has no more time than one that is silent."""
    until_s = time.monotonic() + _ANSWER_S
    body = b""
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > _ANSWER_BYTES_MAX:
            raise NoRowError(f"{what} has more than {_ANSWER_BYTES_MAX:,} bytes")
        if time.monotonic() > until_s:
            message = f"the schema registry takes more than {_ANSWER_S:.0f} s for an answer"
            raise StorageUnavailableError(message, path=registry)
    return body


def _opener() -> urllib.request.OpenerDirector:
    authority = os.environ.get("SCHEMA_REGISTRY_CA_FILE")
    text = os.environ.get("SCHEMA_REGISTRY_CA")
    try:
        context = ssl.create_default_context(cafile=authority or None, cadata=text or None)
    except OSError as error:
        message = "SCHEMA_REGISTRY_CA_FILE or SCHEMA_REGISTRY_CA cannot be read"
        raise ConfigError(message, path=authority) from error
    return urllib.request.build_opener(_NoRedirect(), urllib.request.HTTPSHandler(context=context))


def _headers() -> Mapping[str, str]:
    name = os.environ.get("SCHEMA_REGISTRY_USERNAME")
    password = os.environ.get("SCHEMA_REGISTRY_PASSWORD", "")
    if not name:
        return {}
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    note_secrets((password, token))
    return {"Authorization": f"Basic {token}"}
