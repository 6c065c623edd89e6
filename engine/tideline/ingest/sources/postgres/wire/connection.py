"""A connection to one server, over a socket that is given.

1. TLS comes first, as the sslmode says. Where that may be plain, it is as soon as the server has
   none; a handshake that fails is never followed by a plain connection.
2. The client signs in as the server asks it to: with SCRAM-SHA-256, or, within TLS alone, with MD5
   or the password itself.
3. Statements are carried out one at a time. All that is read is bounded in bytes, time and rows.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.wire.address import Address, Host, SslMode
from tideline.ingest.sources.postgres.wire.messages import (
    TLS_REQUEST,
    Column,
    Fields,
    ServerError,
    message,
    read_columns,
    read_error,
    read_row,
    startup,
    statement,
    text,
)
from tideline.ingest.sources.wire.bounded_socket import (
    BoundedSocket,
    load_certificate,
    words_of,
)
from tideline.ingest.sources.wire.field_reader import WireError
from tideline.ingest.sources.wire.saslprep import prepared
from tideline.ingest.sources.wire.scram import Scram, ScramError

ROWS_MAX = 10_000
"""Of one answer."""
_ERROR, _AUTHENTICATION, _READY = b"E", b"R", b"Z"
_COLUMNS, _ROW = b"T", b"D"
_PASSED_OVER = (b"N", b"S", b"A", b"K", b"v")
"""Notices, settings, notifications, the number to cancel with, the version."""
_OK, _PLAIN, _MD5, _SASL, _CHALLENGE, _VERDICT = 0, 3, 5, 10, 11, 12
_MECHANISM = "SCRAM-SHA-256"


@dataclass(frozen=True, slots=True, repr=False)
class Certificates:
    """PEM texts, empty where they are not given."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """See `session.Rows`."""

    rows: list[tuple[Any, ...]]

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


@dataclass(slots=True)
class WireConnection:
    """See `session.Connection`. Raises ServerError, WireError, OSError, TooMuchError."""

    socket: BoundedSocket
    address: Address
    _is_encrypted: bool = field(default=False, init=False)

    def open(self, host: Host, certificates: Certificates) -> None:
        """Speak TLS and sign in. Raises ConfigError as well."""
        if self.address.mode is not SslMode.DISABLE:
            self._encrypt(host, certificates)
        parameters = {
            "user": self.address.user,
            "database": self.address.database,
            "application_name": "tideline",
            "client_encoding": "UTF8",
        }
        if self.address.options:
            parameters["options"] = self.address.options
        self.socket.send(startup(**parameters))
        self._sign_in()
        while self._next()[0] != _READY:
            pass

    def set(self, settings: Sequence[str]) -> None:
        """Of this session."""
        self.socket.send(message(b"Q", text("; ".join(settings))))
        self._answer()

    def execute(self, query: str | bytes, params: Sequence[Any] | None = None) -> FoundRows:
        """See `session.Connection`."""
        words = query.decode() if isinstance(query, bytes) else query
        if params is not None:
            parts = words.split("%s")
            if len(parts) != len(params) + 1:
                raise ValueError("as many parameters as places")
            numbered = (f"${number}{part}" for number, part in enumerate(parts[1:], 1))
            words = "".join((parts[0], *numbered)).replace("%%", "%")
        self.socket.send(statement(words, params or ()))
        return FoundRows(self._answer())

    def _answer(self) -> list[tuple[Any, ...]]:
        columns: list[Column] = []
        rows: list[tuple[Any, ...]] = []
        refused: ServerError | None = None
        while True:
            try:
                kind, body = self._next()
            except ServerError as error:
                refused = error
                continue
            if kind == _COLUMNS:
                columns = read_columns(body)
            elif kind == _ROW:
                rows.append(read_row(body, columns))
                if len(rows) > ROWS_MAX:
                    raise WireError(f"an answer of more than {ROWS_MAX:,} rows")
            elif kind == _READY:
                if refused is not None:
                    raise refused
                return rows

    def _next(self) -> tuple[bytes, bytes]:
        """The kind and the body of the next message that matters."""
        while True:
            head = Fields(self.socket.receive(5))
            kind, size = head.take(1), head.int32()
            if size < 4:
                raise WireError(f"a message of {size} bytes")
            body = self.socket.receive(size - 4)
            if kind == _ERROR:
                raise read_error(body)
            if kind not in _PASSED_OVER:
                return kind, body

    def _encrypt(self, host: Host, certificates: Certificates) -> None:
        self.socket.send(TLS_REQUEST)
        answer = self.socket.receive(1)
        if answer == b"N" and self.address.mode.may_be_plain:
            return
        if answer == b"N":
            raise ConfigError(
                f"the server has no TLS, and sslmode is {self.address.mode.value}: let it have it"
            )
        if answer != b"S":
            raise WireError("it answers something else to a request for TLS")
        try:
            context = self._context(certificates)
        except (OSError, ValueError) as error:
            raise ConfigError(f"certificates or keys cannot be read: {words_of(error)}") from error
        try:
            self.socket.encrypt(context, host.name)
        except (ssl.SSLError, ValueError) as error:
            message = f"the server refuses this client: TLS with {host.name}: {words_of(error)}"
            raise ConfigError(message) from error
        self._is_encrypted = True

    def _context(self, certificates: Certificates) -> ssl.SSLContext:
        mode, authorities = self.address.mode, certificates.authorities
        verifies = mode in (SslMode.VERIFY_CA, SslMode.VERIFY_FULL)
        if verifies and not authorities and not self.address.trusts_system:
            raise ConfigError(
                f"sslmode is {mode.value}: give the authorities as POSTGRES_CA, or "
                "sslrootcert=system"
            )
        if authorities:
            context = ssl.create_default_context(cadata=authorities)
            context.check_hostname = mode is SslMode.VERIFY_FULL
        elif verifies:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificates.certificate or certificates.key:
            load_certificate(context, certificates.certificate, certificates.key)
        return context

    def _sign_in(self) -> None:
        scram: Scram | None = None
        is_verified = False
        while True:
            kind, body = self._next()
            if kind != _AUTHENTICATION:
                raise WireError("it asks for something else than signing in")
            fields = Fields(body)
            asked, rest = fields.int32(), body[4:]
            if asked == _OK:
                if scram is not None and not is_verified:
                    raise WireError("it does not show that it knows the password")
                return
            if scram is None and asked == _SASL:
                scram = self._begin_scram(rest)
            elif scram is not None and asked == _CHALLENGE and not is_verified:
                self.socket.send(message(b"p", _scram(scram.final, rest)))
            elif scram is not None and asked == _VERDICT:
                _scram(scram.check, rest)
                is_verified = True
            elif scram is None and asked in (_PLAIN, _MD5):
                self.socket.send(message(b"p", text(self._answered(asked, rest))))
            else:
                raise ConfigError(
                    "the server asks for a way of signing in that is not taken here: let it ask "
                    f"for {_MECHANISM}"
                )

    def _begin_scram(self, offered: bytes) -> Scram:
        if _MECHANISM.encode() not in offered.split(b"\0"):
            raise ConfigError(f"the server does not offer {_MECHANISM}")
        # The name of the user is that of the first message.
        scram = Scram("sha256", "", prepared(self._password()))
        first = scram.first()
        head = text(_MECHANISM) + len(first).to_bytes(4)
        self.socket.send(message(b"p", head + first))
        return scram

    def _answered(self, asked: int, salt: bytes) -> str:
        password = self._password()
        if not self._is_encrypted:
            raise ConfigError(
                "the server asks for the password, or an MD5 of it, without TLS: it is not sent; "
                f"let it ask for {_MECHANISM}, or have TLS"
            )
        if asked == _PLAIN:
            return password
        inner = _md5(password.encode() + self.address.user.encode())
        return "md5" + _md5(inner.encode() + salt)

    def _password(self) -> str:
        if not self.address.password:
            raise ConfigError("the server asks for a password, and the connection string has none")
        return self.address.password


def _scram(step: Any, given: bytes) -> bytes:
    try:
        return step(given) or b""
    except ScramError as error:
        raise ConfigError(f"signing in fails: {error}") from error


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
