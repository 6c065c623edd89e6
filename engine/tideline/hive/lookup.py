"""What a Hive metastore has, read without the extra `hive`: databases, tables, their parameters.

A connection is opened for each question. Tables are fetched by names, so many at a time, as each
comes with all its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import StorageUnavailableError
from tideline.hive.address import HiveAddress
from tideline.hive.transport import Connect, Transport
from tideline.hive.wire import Raised, Structure, ask, structures, texts

_TABLES_AT_ONCE = 100
_NAME, _DATABASE, _PARAMETERS = 1, 2, 9
"""Fields of Hive's `Table`."""
_MISSING = 2
"""The number of NoSuchObjectException among the errors of `get_table`."""
_NO_SUCH_DATABASE = 3
"""That of UnknownDBException in `get_table_objects_by_name`."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table by its name, with its parameters."""

    database: str
    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetastoreLookup:
    """A metastore as `user`, if one is given, sees it; see `Transport` for `timeout_s`."""

    addresses: tuple[HiveAddress, ...]
    timeout_s: float
    user: tuple[str, ...] = ()
    connect: Connect | None = None

    def databases(self) -> list[str]:
        """The names of all. Raises as `table`."""
        with closing(self._opened()) as transport:
            return texts(_answer(ask(transport, "get_all_databases")))

    def tables(self, database: str) -> Iterator[StoredTable]:
        """The tables of a database, none of one that is not there. Raises as `table`."""
        with closing(self._opened()) as transport:
            names = texts(_answer(ask(transport, "get_all_tables", database)))
            for start in range(0, len(names), _TABLES_AT_ONCE):
                asked = names[start : start + _TABLES_AT_ONCE]
                found = ask(transport, "get_table_objects_by_name", database, asked)
                if isinstance(found, Raised) and found.number == _NO_SUCH_DATABASE:
                    return
                given = map(_stored, structures(_answer(found)))
                yield from (table for table in given if _is_of(table, database, asked))

    def table(self, database: str, name: str) -> StoredTable | None:
        """A table, None where there is none of this name.

        Raises StorageUnavailableError when the metastore does not answer, or with something else,
        UnsupportedTableError for an answer beyond the limits, ConfigError for a server of another
        protocol.
        """
        with closing(self._opened()) as transport:
            found = ask(transport, "get_table", database, name)
        if isinstance(found, Raised) and found.number == _MISSING:
            return None
        answer = _answer(found)
        stored = _stored(answer if isinstance(answer, dict) else {})
        if not _is_of(stored, database, [name]):
            raise another_table()
        return stored

    def _opened(self) -> Transport:
        transport = Transport.opened(self.addresses, self.timeout_s, self.connect)
        if self.user:
            try:
                ask(transport, "set_ugi", self.user[0], self.user[1:])
            except BaseException:
                transport.close()
                raise
        return transport


def another_table() -> StorageUnavailableError:
    """The error for an answer about a table that was not asked for."""
    return StorageUnavailableError("the metastore answers with another table than was asked")


def same_name(name: str | None, other: str) -> bool:
    """Hive keeps its names in lower case, and finds them in any."""
    return (name or "").lower() == other.lower()


def _answer(found: Any) -> Any:
    if isinstance(found, Raised):
        raise StorageUnavailableError(f"the metastore fails: {found.message}")
    return found


def _stored(found: Structure) -> StoredTable:
    parameters = found.get(_PARAMETERS)
    named = parameters if isinstance(parameters, dict) else {}
    return StoredTable(
        str(found.get(_DATABASE, "")),
        str(found.get(_NAME, "")),
        {name: text for name, text in named.items() if isinstance(text, str)},
    )


def _is_of(table: StoredTable, database: str, names: list[str]) -> bool:
    is_asked = any(same_name(table.name, name) for name in names)
    return is_asked and same_name(table.database, database)
