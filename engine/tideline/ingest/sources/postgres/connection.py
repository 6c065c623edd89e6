"""Connections to Postgres, and what its errors mean.

`tideline run` and pods have the connection string in their environment; a process that looks for
others has it of a Secret, and never of its own. What a server says may have a password in it: it is
masked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn, Protocol

from tideline.distribution import installation
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.ingest.sources.postgres.credentials import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    SAFEST,
    note_key,
)
from tideline.ingest.sources.wire.memory_file import memory_file
from tideline.secret_values import masked, note_secrets

if TYPE_CHECKING:
    from psycopg import Connection, Error

_CONNECT_S = 20
SETTINGS = (
    # How values are written.
    "set timezone = 'UTC'",
    "set datestyle = 'ISO, YMD'",
    "set intervalstyle = 'iso_8601'",
    "set bytea_output = 'hex'",
    "set extra_float_digits = 1",
    "set standard_conforming_strings = on",
    "set search_path = pg_catalog",
    # Policies for people's statements do not end these.
    "set statement_timeout = 0",
    # A process that died holds its slot and its turn no longer than that, and one whose machine is
    # gone no longer than this.
    "set client_connection_check_interval = '1s'",
    "set tcp_keepalives_idle = 30",
    "set tcp_user_timeout = '60s'",
    # Rows that a policy hides are in the log: a copy without them fails.
    "set row_security = off",
)
_REFUSALS = (
    *("authentication failed", "no pg_hba.conf entry", "no password supplied", "certificate"),
    *("does not exist", "is not permitted to log in", "invalid connection option"),
)
"""Why a connection is refused has no code; servers that write other languages are tried again."""
_NO_UTF8 = (
    "a value has bytes that are no text: correct it in the source; if the log has it, move the "
    "slot behind it (select pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) from "
    "pg_replication_slots where slot_name = ...), and copy the table again (tideline resync)"
)
_REMEDIES: Mapping[str, str] = {
    "22021": _NO_UTF8,
    "22P05": _NO_UTF8,
    "42501": "the user needs REPLICATION, to own the table where the publication is to be made, "
    "and BYPASSRLS where it has row-level security",
    "55006": "another reader uses the slot: a slot is of one ingest",
    "57014": "a transaction has been open for long, and is waited for",
    "55P03": "transactions write to the table, and are waited for before it is published",
    "53400": "raise the limit that it names (max_replication_slots, temp_file_limit)",
}
"""What is to be done, by the code of an error."""
IN_USE, TIMED_OUT, LOCKED = "55006", "57014", "55P03"
_WAITED_FOR = (IN_USE, TIMED_OUT, LOCKED, "40001", "40P01", "42710", "23505")
"""Codes of what passes: a slot in use, a timeout, a lock, a conflict, a slot or publication that
another process made meanwhile."""
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58", "XX")


class OfServer(Protocol):
    """What is read of a server: its name for messages, and the variable of the environment with the
    connection string."""

    @property
    def uri(self) -> str: ...

    @property
    def connection(self) -> str: ...


class OfSlot(OfServer, Protocol):
    """What reads a slot."""

    @property
    def slot(self) -> str: ...

    @property
    def publication(self) -> str: ...


@contextmanager
def connected(source: OfServer, variables: Mapping[str, str] = os.environ) -> Iterator[Connection]:
    """A connection where each statement commits. Raises ConfigError, StorageUnavailableError."""
    try:
        import psycopg
        from psycopg.conninfo import make_conninfo
    except ModuleNotFoundError as error:
        message = f"tables of Postgres need its client: {installation('postgres')}"
        raise ConfigError(message) from error
    conninfo = variables.get(source.connection, "")
    if not conninfo:
        raise ConfigError(f"{source.connection} is not set: it has the connection string")
    try:
        given = _noted(conninfo, variables)
        with _memory_files(variables) as files:
            if "sslrootcert" in files:
                files.setdefault("sslmode", str(given.get("sslmode") or SAFEST))
            connection = psycopg.connect(
                make_conninfo(conninfo, **files),
                autocommit=True,
                connect_timeout=_CONNECT_S,
                application_name="tideline",
                client_encoding="utf8",
            )
    except psycopg.Error as error:
        _raise_unconnected(source, error)
    try:
        with connection:
            for setting in SETTINGS:
                connection.execute(setting)
            yield connection
    except psycopg.Error as error:
        _raise_failed(source, error)


def is_code(error: BaseException, code: str) -> bool:
    """Whether an error of the client is of this code."""
    return getattr(error, "sqlstate", None) == code


@contextmanager
def older_slot_named(source: OfSlot) -> Iterator[None]:
    """Within, raises ConfigError where the log cannot be decoded, as the slot is older than the
    publication."""
    try:
        yield
    except Exception as error:
        if is_code(error, "42704"):
            raise ConfigError(
                f"slot {source.slot} is older than publication {source.publication}: drop the "
                "slot, and the next look makes it again",
                path=source.uri,
            ) from error
        raise


def failure(source: OfServer, words: str, code: str) -> TidelineError:
    """What a server refuses while it is asked, by the code of its error."""
    if code in _REMEDIES:
        words = f"{words}; {_REMEDIES[code]}"
    passes = not code or code in _WAITED_FOR or code[:2] in _UNAVAILABLE_CLASSES
    if passes and code != "53400":
        return StorageUnavailableError(f"the server says: {words}", path=source.uri)
    return ConfigError(f"the server says: {words}", path=source.uri)


@contextmanager
def _memory_files(variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """What libpq reads from files alone, as files that are nowhere but in memory: the options that
    name them, of those that the variables have; as long as this lasts."""
    note_key(variables)
    named = {"sslrootcert": AUTHORITIES, "sslcert": CERTIFICATE, "sslkey": KEY}
    with ExitStack() as opened:
        files: dict[str, str] = {}
        for option, name in named.items():
            if variables.get(name):
                text = f"{variables[name].strip()}\n"
                files[option] = opened.enter_context(memory_file(option, text))
        yield files


def _noted(conninfo: str, variables: Mapping[str, str]) -> Mapping[str, object]:
    """What a connection string has; its secrets are masked from now on."""
    from psycopg.conninfo import conninfo_to_dict

    note_secrets((variables.get("PGPASSWORD"), variables.get("PGSSLPASSWORD")))
    # What cannot be read may have the password anywhere.
    note_secrets((conninfo,))
    found = conninfo_to_dict(conninfo)
    note_secrets(str(found[name]) for name in ("password", "sslpassword") if found.get(name))
    return found


def _raise_unconnected(source: OfServer, error: Error) -> NoReturn:
    from psycopg import OperationalError

    words = masked(str(error)).strip().replace("\n", " ")
    if any(refusal in words for refusal in _REFUSALS) or not isinstance(error, OperationalError):
        raise ConfigError(f"the server refuses this client: {words}", path=source.uri)
    raise StorageUnavailableError(f"the server does not answer: {words}", path=source.uri)


def _raise_failed(source: OfServer, error: Error) -> NoReturn:
    raise failure(source, masked(str(error)).strip().replace("\n", " "), error.sqlstate or "")
