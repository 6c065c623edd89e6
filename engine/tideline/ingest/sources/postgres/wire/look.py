"""Looks at tables and their slot over connections that somebody else makes.

1. The servers of the connection string are tried in their order; each is an address of a tenant's
   choice, and is connected to by `connect` alone.
2. What is asked is what any client asks (`server.look_through`). Nothing is made, and nothing moved
   but a slot that several tables share.
3. The whole look has a deadline, and all that is read of it a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ssl import SSLError
from typing import TypeVar

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.ingest.sources.postgres.connection import SETTINGS, OfServer, OfSlot, failure
from tideline.ingest.sources.postgres.credentials import AUTHORITIES, CERTIFICATE, KEY, note_key
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import PostgresLook
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.server import advance_through, look_through
from tideline.ingest.sources.postgres.shared_slot import SlotLook
from tideline.ingest.sources.postgres.slot_tables import look_through_slot
from tideline.ingest.sources.postgres.wire.address import Address, Host, read_address
from tideline.ingest.sources.postgres.wire.connection import Certificates, WireConnection
from tideline.ingest.sources.postgres.wire.messages import ServerError
from tideline.ingest.sources.source import Connect
from tideline.ingest.sources.wire.bounded_socket import BoundedSocket, TooMuchError, words_of
from tideline.ingest.sources.wire.field_reader import WireError
from tideline.trust.foreign_words import quoted

_Found = TypeVar("_Found")

LOOK_S = 10.0
_BYTES_MAX = 16 * 1024 * 1024
_NONSENSE = (*(ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError),)
"""What an answer leads to that no server of Postgres gives."""
_REFUSALS = ("0A", "22", "28", "3D", "42")
"""Classes of errors that a client meets until it is changed: its name, the database, an option."""


def look_by(
    source: DeclaredPostgres,
    variables: Mapping[str, str],
    connect: Connect,
    after: PostgresPosition | None,
) -> PostgresLook:
    """See `server.look_at`. Raises StorageUnavailableError, ConfigError."""
    return _ask(source, variables, connect, lambda c: look_through(c, source, after, waits=False))


def look_at_slot_by(slot: OfSlot, variables: Mapping[str, str], connect: Connect) -> SlotLook:
    """See `slot_tables.look_at_slot`. Raises StorageUnavailableError, ConfigError."""
    return _ask(slot, variables, connect, lambda connection: look_through_slot(connection, slot))


def advance_slot_by(slot: OfSlot, variables: Mapping[str, str], connect: Connect, lsn: int) -> bool:
    """See `server.advance_slot`; False also where somebody reads the slot. A server that takes
    longer than a look has time for goes to the end of it. Raises StorageUnavailableError,
    ConfigError."""
    return _ask(slot, variables, connect, lambda c: advance_through(c, slot, lsn, waits=False))


def _ask(
    source: OfServer,
    variables: Mapping[str, str],
    connect: Connect,
    question: Callable[[WireConnection], _Found],
) -> _Found:
    text = variables.get(source.connection, "")
    if not text:
        raise ConfigError(
            f"{source.connection} is not set: it has the connection string, and is a key of the "
            "Secret that credentials names",
            path=source.uri,
        )
    note_key(variables)
    certificates = Certificates(
        *(variables.get(name, "") for name in (AUTHORITIES, CERTIFICATE, KEY))
    )
    try:
        address = read_address(text, has_authorities=bool(certificates.authorities))
        with _connected(source, address, certificates, connect) as connection:
            try:
                return question(connection)
            except _NONSENSE as error:
                raise _none_of_postgres(source, type(error).__name__) from error
    except TidelineError as error:
        if error.path is None:
            raise type(error)(error.message, path=source.uri) from error
        raise


@contextmanager
def _connected(
    source: OfServer, address: Address, certificates: Certificates, connect: Connect
) -> Iterator[WireConnection]:
    until_s = time.monotonic() + LOOK_S
    away: TidelineError | None = None
    for host in address.hosts:
        try:
            connection = _open(source, address, host, certificates, connect, until_s)
        except StorageUnavailableError as error:
            away = error
            continue
        try:
            yield connection
        except ServerError as error:
            raise failure(source, quoted(error), error.sqlstate) from error
        except (WireError, TooMuchError) as error:
            raise _none_of_postgres(source, str(error)) from error
        except OSError as error:
            raise _away(source, host, words_of(error)) from error
        finally:
            connection.socket.close()
        return
    assert away is not None
    raise away


def _open(
    source: OfServer,
    address: Address,
    host: Host,
    certificates: Certificates,
    connect: Connect,
    until_s: float,
) -> WireConnection:
    try:
        made = connect(host.address, host.port)
    except StorageUnavailableError as error:
        raise _away(source, host, error.message) from error
    connection = WireConnection(BoundedSocket(made, until_s, _BYTES_MAX), address)
    try:
        connection.open(host, certificates)
        connection.set(SETTINGS)
        if address.wants_primary and connection.execute("select pg_is_in_recovery()").rows[0][0]:
            raise _away(source, host, "it is a standby")
    except (ServerError, WireError, TooMuchError, OSError) as error:
        connection.socket.close()
        raise _unopened(source, host, error) from error
    except BaseException:
        connection.socket.close()
        raise
    return connection


def _unopened(source: OfServer, host: Host, error: Exception) -> TidelineError:
    match error:
        case ServerError() if error.sqlstate[:2] in _REFUSALS:
            return ConfigError(f"the server refuses this client: {quoted(error)}", path=source.uri)
        case WireError() | TooMuchError():
            return _none_of_postgres(source, str(error))
        case SSLError():
            # With TLS 1.3 a certificate of the client is refused here.
            return ConfigError(
                f"the server refuses this client: {words_of(error)}", path=source.uri
            )
    return _away(source, host, words_of(error) if isinstance(error, OSError) else quoted(error))


def _away(source: OfServer, host: Host, words: str) -> StorageUnavailableError:
    message = f"the server does not answer: {host.address}:{host.port}: {words}"
    return StorageUnavailableError(message, path=source.uri)


def _none_of_postgres(source: OfServer, words: str) -> StorageUnavailableError:
    message = f"the table cannot be looked at: this is no server of Postgres: {words}"
    return StorageUnavailableError(message, path=source.uri)
