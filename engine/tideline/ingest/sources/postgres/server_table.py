"""A table as a server of Postgres has it."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.postgres.leaves import Leaf
from tideline.ingest.sources.postgres.position import Origin
from tideline.ingest.sources.postgres.sql import quoted


@dataclass(frozen=True, slots=True)
class Operators:
    """What compares values of a type, in SQL."""

    up_to: str = "<="
    equal: str = "="
    behind: str = ">"


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """A column as the server has it: the number of its type, the type in SQL, and its number in the
    table, which it keeps under another name. Those of a key have the operators of their type."""

    name: str
    type_oid: int
    type_sql: str
    number: int
    operators: Operators = Operators()


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table as the server has it. `key` are the columns by which rows are copied: the primary
    key, or the index of the replica identity. With `has_whole_rows` changes have the whole old row.
    One with partitions has `leaves`, all attached before `leaves_at` of the log. Only `columns` are
    read that the log has, and rows that meet the condition `rows` of its publication.
    """

    origin: Origin
    name: tuple[str, str]
    columns: tuple[ServerColumn, ...]
    key: tuple[ServerColumn, ...]
    has_whole_rows: bool
    has_partitions: bool = False
    leaves: tuple[Leaf, ...] = ()
    leaves_at: int = 0
    rows: str = ""

    @property
    def sql(self) -> str:
        """Without the rows of tables that inherit it: their changes are not its own."""
        name = ".".join(map(quoted, self.name))
        return name if self.has_partitions else f"only {name}"

    def sql_of(self, leaf: Leaf | None) -> str:
        """The rows of a leaf alone, all without one. Raises StorageUnavailableError where it is not
        what it was."""
        if leaf is None:
            return self.sql
        found = next((item.sql for item in self.leaves if item == leaf), None)
        if found is None:
            raise StorageUnavailableError(f"partition {leaf.name} changed while it was read")
        return found

    def where(self, *conditions: str) -> str:
        """A clause in SQL: rows that the log has, and that meet these conditions."""
        met = [f"({self.rows})", *conditions] if self.rows else conditions
        return f" where {' and '.join(met)}" if met else ""
