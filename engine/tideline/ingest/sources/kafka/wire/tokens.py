"""Tokens of a server, with which a client signs in to brokers.

1. The client shows its name and its secret to the token endpoint (client credentials of OAuth 2.0).
   Its address is a tenant's, as those of brokers are, and is connected to in the same way.
2. A token is kept for three quarters of the time for which it holds: by what the endpoint says, or
   by what the token says of itself. Where neither says so, or brokers refuse it, it is not kept.
3. The endpoint is believed in nothing: its answer has the deadline of the look and a bound, and it
   leads nowhere else. The secret is sent without TLS only where the source declares no TLS either.

Source: RFC 6749, 4.4, RFC 6750, RFC 7628.
"""

from __future__ import annotations

import base64
import math
import re
import ssl
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError
from tideline.ingest.sources.kafka.credentials import TOKEN_AUTHORITIES, TOKEN_URL, Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.source import Connect
from tideline.ingest.sources.wire.bounded_socket import BoundedSocket, TooMuchError, words_of
from tideline.ingest.sources.wire.http_post import HttpAnswer, NoHttpError, post_form
from tideline.secret_values import note_secrets
from tideline.trust.foreign_words import quoted

_ANSWER_BYTES_MAX = 64 * 1024
_KEPT_S_MAX, _KEPT_PART = 3600.0, 0.75
_KEPT_MAX = 100
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _Token:
    """Until `kept_until_s` of the monotonic clock it is shown again."""

    text: str
    kept_until_s: float


_kept: OrderedDict[Credentials, _Token] = OrderedDict()
_lock = threading.Lock()


def token_for(
    source: DeclaredKafka, credentials: Credentials, connect: Connect, until_s: float
) -> str:
    """One that holds. Raises ConfigError, StorageUnavailableError."""
    credentials.require_client(source.mechanism.value)
    endpoint = _Endpoint(source, credentials, connect, until_s)
    endpoint.url()
    with _lock:
        known = _kept.get(credentials)
    if known is not None and time.monotonic() < known.kept_until_s:
        return known.text
    found = endpoint.token(time.monotonic())
    with _lock:
        _kept[credentials] = found
        while len(_kept) > _KEPT_MAX:
            _kept.popitem(last=False)
    return found.text


def forget_token(credentials: Credentials) -> None:
    """It is refused: the next one is asked for."""
    with _lock:
        _kept.pop(credentials, None)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    source: DeclaredKafka
    credentials: Credentials
    connect: Connect
    until_s: float

    def token(self, now_s: float) -> _Token:
        """A new one. Raises ConfigError, StorageUnavailableError."""
        content = self._content(self._ask())
        text = content.get("access_token")
        kind = content.get("token_type", "Bearer")
        if not isinstance(text, str) or not _TOKEN.fullmatch(text):
            raise self._wrong("it gives no access_token")
        note_secrets((text,))
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise self._wrong("its token is no Bearer token")
        return _Token(text, now_s + _kept_s(text, content.get("expires_in")))

    def url(self) -> SplitResult:
        """Where it is. Raises ConfigError."""
        try:
            url = urlsplit(self.credentials.token_url)
            is_good = url.scheme in _PORTS and bool(url.hostname) and url.port != 0
        except ValueError:
            is_good = False
        if not is_good or url.username is not None or url.password is not None:
            message = f"{TOKEN_URL} is no address of https that has no user in it"
            raise ConfigError(message, path=self.source.uri)
        if url.scheme == "http" and self.source.protocol.is_encrypted:
            raise ConfigError(
                f"{TOKEN_URL} is an address without TLS, and the client's secret is not sent there "
                f"where the protocol is {self.source.protocol.value}: give one of https",
                path=self.source.uri,
            )
        return url

    def _content(self, answer: HttpAnswer) -> dict[str, Any]:
        try:
            content = parse_json(answer.body, what="answer of the token endpoint")
        except CorruptTableError:
            content = None
        status = answer.status
        if status == 200:
            if not isinstance(content, dict):
                raise self._wrong("its answer is no JSON object")
            return content
        reason = content.get("error") if isinstance(content, dict) else None
        words = f"{status} {quoted(reason)}" if isinstance(reason, str) else str(status)
        if 300 <= status < 400:
            raise self._wrong(
                f"it leads to another address ({status}), which is not followed: give that one"
            )
        if status in (408, 429) or status >= 500:
            message = f"the token endpoint {self._name} answers {words}"
            raise StorageUnavailableError(message, path=self.source.uri)
        message = f"the token endpoint {self._name} refuses this client: {words}"
        raise ConfigError(message, path=self.source.uri)

    def _ask(self) -> HttpAnswer:
        url = self.url()
        host, port = url.hostname or "", url.port or _PORTS[url.scheme]
        given = f"{self.credentials.client_id}:{self.credentials.client_secret}"
        encoded = base64.b64encode(given.encode()).decode()
        note_secrets((encoded,))
        form = {"grant_type": "client_credentials"}
        if self.credentials.token_scope:
            form["scope"] = self.credentials.token_scope
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection = self._connected(host, port)
        try:
            if url.scheme == "https":
                connection.encrypt(self._context(), host)
            return post_form(connection, url.netloc, target, form, f"Basic {encoded}")
        except ssl.SSLError as error:
            message = f"the token endpoint {self._name}: TLS fails: {words_of(error)}"
            raise ConfigError(message, path=self.source.uri) from error
        except OSError as error:
            raise self._away(words_of(error)) from error
        except (NoHttpError, TooMuchError) as error:
            raise self._wrong(str(error)) from error
        except ValueError as error:
            message = f"{TOKEN_URL} is no address that can be asked"
            raise ConfigError(message, path=self.source.uri) from error
        finally:
            connection.close()

    def _connected(self, host: str, port: int) -> BoundedSocket:
        if time.monotonic() >= self.until_s:
            raise self._away("timed out")
        try:
            made = self.connect(host, port)
        except StorageUnavailableError as error:
            raise self._away(error.message) from error
        return BoundedSocket(made, self.until_s, _ANSWER_BYTES_MAX)

    def _context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cadata=self.credentials.token_authorities or None)
        except (OSError, ValueError) as error:
            message = f"{TOKEN_AUTHORITIES} cannot be read"
            raise ConfigError(message, path=self.source.uri) from error

    @property
    def _name(self) -> str:
        """Its server; what stands behind it in the address may be secret."""
        return quoted(urlsplit(self.credentials.token_url).netloc)

    def _wrong(self, words: str) -> ConfigError:
        message = f"the token endpoint {self._name} is none: {words}"
        return ConfigError(message, path=self.source.uri)

    def _away(self, words: str) -> StorageUnavailableError:
        message = f"the token endpoint {self._name} does not answer: {words}"
        return StorageUnavailableError(message, path=self.source.uri)


def _kept_s(token: str, expires_in: object) -> float:
    """For how long a token is kept that was just given."""
    times_s = [_seconds(expires_in), _own_s(token)]
    known = [time_s for time_s in times_s if time_s is not None]
    return min(_KEPT_S_MAX, _KEPT_PART * min(known)) if known else 0.0


def _own_s(token: str) -> float | None:
    """How long a JSON Web Token holds by what it says of itself."""
    try:
        body = token.split(".")[1]
        content = parse_json(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), what="token")
        until_s = _seconds(content.get("exp"))
    except (CorruptTableError, *PARSER_FAULTS):
        return None
    return None if until_s is None else until_s - time.time()


def _seconds(given: object) -> float | None:
    """Some endpoints write numbers as texts."""
    if isinstance(given, str) and given.isdecimal() and len(given) < 20:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if math.isfinite(given) and abs(given) < 1e15 else None
