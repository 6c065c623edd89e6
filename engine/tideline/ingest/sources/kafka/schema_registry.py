"""The schemas of values, from the registry that a source names.

1. A value begins with a zero byte and the number of its schema in four bytes; the rest is Avro.
2. A number means the same schema for ever, so each is fetched once in a process.
3. The registry is a server that a spec names: no redirect is followed, an answer has limits of time
   and size, and what it says is a schema or an error.

Credentials are variables of the environment: SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD;
SCHEMA_REGISTRY_CA_FILE, or SCHEMA_REGISTRY_CA with the PEM text, for an authority of its own.
Source: Confluent's Schema Registry API.
"""

from __future__ import annotations

import base64
import http.client
import os
import ssl
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError
from tideline.ingest.sources.kafka.decoded import NoRowError
from tideline.secret_values import note_secrets

HEADER_BYTES = 5
_ANSWER_S = 20.0
_ANSWER_BYTES_MAX = 4 << 20
_PIECE_BYTES = 1 << 16
_SCHEMES = ("http://", "https://")
_SCHEMAS_KEPT = 1_000
_UNKNOWN, _REFUSALS = 404, (401, 403)


def schema_number(value: bytes) -> int:
    """The number of a value's schema. Raises NoRowError."""
    if len(value) < HEADER_BYTES or value[0] != 0:
        raise NoRowError("the value does not begin with the number of a schema")
    return int(struct.unpack_from(">I", value, 1)[0])


def by_schema(values: Sequence[bytes], faults: dict[int, str]) -> dict[int, list[int]]:
    """The places of the values of each schema; why others have none goes into `faults`."""
    places: dict[int, list[int]] = {}
    for place, value in enumerate(values):
        try:
            places.setdefault(schema_number(value), []).append(place)
        except NoRowError as error:
            faults[place] = str(error)
    return places


@lru_cache(maxsize=_SCHEMAS_KEPT)
def avro_schema(registry: str, number: int) -> str:
    """The Avro schema of this number, as JSON.

    Raises NoRowError where the registry has none or it is no Avro, ConfigError where the registry
    refuses this client or has no such interface, StorageUnavailableError.
    """
    url = f"{registry.rstrip('/')}/schemas/ids/{number}"
    answer = _get(url, registry, number)
    try:
        content = parse_json(answer, what="answer of the schema registry")
        schema = content["schema"]
        kind = content.get("schemaType", "AVRO")
        references = content.get("references") or ()
    except (CorruptTableError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("what answers is no schema registry", path=registry) from error
    if kind != "AVRO":
        raise NoRowError(f"schema {number} is no Avro, but {kind}")
    if references:
        raise NoRowError(f"schema {number} refers to others, which is not supported")
    return str(schema)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _get(url: str, registry: str, number: int) -> bytes:
    if not registry.startswith(_SCHEMES):
        raise ConfigError("schemaRegistry is an address of http or https", value=registry)
    request = urllib.request.Request(url, headers=_headers())
    try:
        with _opener().open(request, timeout=_ANSWER_S) as response:
            return _body(response, registry, number)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _UNKNOWN:
            message = f"the schema registry has no schema {number}: is it the one of this topic?"
            raise NoRowError(message) from error
        if error.code in _REFUSALS:
            message = f"the schema registry refuses this client: {error.code}"
            raise ConfigError(message, path=registry) from error
        message = f"the schema registry answers {error.code}"
        raise StorageUnavailableError(message, path=registry) from error
    except (OSError, http.client.HTTPException) as error:
        message = f"the schema registry does not answer: {error}"
        raise StorageUnavailableError(message, path=registry) from error


def _body(response: http.client.HTTPResponse, registry: str, number: int) -> bytes:
    """All of an answer; one that trickles has no more time than one that is silent."""
    until_s = time.monotonic() + _ANSWER_S
    body = b""
    while piece := response.read1(_PIECE_BYTES):
        body += piece
        if len(body) > _ANSWER_BYTES_MAX:
            raise NoRowError(f"schema {number} has more than {_ANSWER_BYTES_MAX:,} bytes")
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
