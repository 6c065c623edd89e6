"""A table of Postgres as a LakeTable declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tideline.ingest.column_type import Column, columns_object, read_columns
from tideline.ingest.location import Location
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.credentials import CONNECTION
from tideline.ingest.sources.postgres.look import STEP_BYTES, PostgresLook
from tideline.ingest.sources.postgres.position import KIND, PostgresPosition
from tideline.ingest.sources.postgres.ranges import PostgresRange
from tideline.ingest.sources.postgres.shared_slot import DeclaredSlot
from tideline.ingest.sources.source import ClaimedPlace, Declared, Position, Reach

CHANGES_MAX = 50_000
"""In one commit, unless declared; a transaction is never divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPostgres:
    """One table, read by a slot of its own, or by one that `is_shared` with other tables.

    `connection` names the variable of the environment with the connection string. Rows that cannot
    be taken in are kept below `set_aside`; without it they fail the ingest. A shared slot is moved
    by what knows all its tables (`shared_slot`), and its publication grows by each of them.
    """

    kind: ClassVar[str] = KIND
    part: ClassVar[str] = "range"
    content: ClassVar[str] = "changes"
    whereabouts: ClassVar[str] = "the table in Postgres"
    quarantine: ClassVar[str] = "source.setAside"
    is_read_on_spark: ClassVar[bool] = False
    is_followed: ClassVar[bool] = False
    is_checked_on_spark: ClassVar[bool] = False

    table: str
    slot: str
    publication: str
    schema: tuple[Column, ...] = ()
    connection: str = CONNECTION
    on_truncate: OnTruncate = OnTruncate.FAIL
    changes_max: int = CHANGES_MAX
    set_aside: Location | None = None
    step_bytes: int = STEP_BYTES
    is_shared: bool = False

    @property
    def schema_and_name(self) -> tuple[str, str]:
        """`public` where the table is written without a schema."""
        schema, dot, name = self.table.partition(".")
        return (schema, name) if dot else ("public", schema)

    @property
    def declared_slot(self) -> DeclaredSlot:
        """The slot alone, whatever the table."""
        return DeclaredSlot(self.slot, self.publication, self.connection)

    @property
    def uri(self) -> str:
        return f"postgres:{'.'.join(self.schema_and_name)}"

    @property
    def places(self) -> tuple[Location, ...]:
        return ()

    @property
    def server(self) -> str:
        """By the variable that has its address, which may be a secret."""
        return f"postgres {self.connection}"

    @property
    def claimed(self) -> tuple[ClaimedPlace, ...]:
        return tuple(ClaimedPlace(to, "setAside") for to in (self.set_aside,) if to)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.schema

    @property
    def settles(self) -> bool:
        return not self.is_shared

    def address(self, table_uri: str) -> str:  # noqa: ARG002
        """Without the server: it may move, and a position says which one it is of."""
        return f"{self.uri}@{self.slot}"

    def positions(
        self,
        reach: Reach,
        after: Position | None,
        start: str = "",  # noqa: ARG002
    ) -> PostgresLook:
        """What the server has. Raises StorageUnavailableError, ConfigError."""
        known = after if isinstance(after, PostgresPosition) else None
        if reach.connect is not None:
            from tideline.ingest.sources.postgres.wire.look import look_by

            return look_by(self, reach.variables, reach.connect, known)
        # Only what looks at Postgres needs a client of it.
        from tideline.ingest.sources.postgres.server import look_at

        return look_at(self, known, reach.variables)

    def takes_from(self, other: Declared) -> bool:
        """Two ingests by one slot."""
        return isinstance(other, DeclaredPostgres) and other.slot == self.slot

    def with_places(self, moved: Callable[[Location], Location]) -> DeclaredPostgres:
        return replace(self, set_aside=moved(self.set_aside) if self.set_aside else None)

    def no_range(self) -> PostgresRange:
        return PostgresRange()

    def stored(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "slot": self.slot,
            "publication": self.publication,
            "sourceSchema": columns_object(self.schema),
            "connection": self.connection,
            "onTruncate": self.on_truncate.value,
            "changesMax": self.changes_max,
            "stepBytes": self.step_bytes,
            "setAside": None if self.set_aside is None else self.set_aside.to_json_object(),
            "isShared": self.is_shared,
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> DeclaredPostgres:
        set_aside = content["setAside"]
        return cls(
            table=str(content["table"]),
            slot=str(content["slot"]),
            publication=str(content["publication"]),
            schema=read_columns(content["sourceSchema"]),
            connection=str(content["connection"]),
            on_truncate=OnTruncate(content["onTruncate"]),
            changes_max=int(content["changesMax"]),
            step_bytes=int(content.get("stepBytes", STEP_BYTES)),
            set_aside=Location.from_json_object(set_aside) if set_aside else None,
            # What earlier releases planned has a slot of its own.
            is_shared=bool(content.get("isShared", False)),
        )
