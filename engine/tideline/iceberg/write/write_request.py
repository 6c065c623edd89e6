"""One write as its caller wants it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.given_texts import require_texts, require_token
from tideline.errors import ConfigError
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.write.write_operation import IcebergOperation

TOKEN_KEY = "tideline.token"
OPERATION_KEY = "tideline.operation"
_ROWS_KEY = "tideline.rows-"
_REPLACES_PARTITIONS = "replace-partitions"
_OWN = ("tideline.", "added-", "deleted-", "removed-", "total-", "changed-", "manifests-")


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What a commit did to rows."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> RowCounts:
        """As the snapshot of a write says."""
        return cls(*(_number(snapshot, f"{_ROWS_KEY}{name}") for name in cls.__slots__))

    def plus(self, other: RowCounts) -> RowCounts:
        """What both did."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return RowCounts(*(ours + theirs for ours, theirs in pairs))

    def summary(self) -> dict[str, str]:
        """The part of a snapshot's summary that `of` reads."""
        return {f"{_ROWS_KEY}{name}": str(getattr(self, name)) for name in self.__slots__}


def _takes_any(_: TableMetadata) -> None:
    """Whatever the table has become."""


@dataclass(frozen=True, slots=True)
class WriterProgress:
    """What a program that writes keeps in a table, by the same commit as its rows: `summary` in the
    snapshot, `properties` in the table, where they outlive it, without those that are `over`.
    `require` is given the table at each attempt to commit, and raises where the program has not
    seen what is there."""

    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    over: tuple[str, ...] = ()
    require: Callable[[TableMetadata], None] = _takes_any


@dataclass(frozen=True, slots=True)
class UpsertRules:
    """What decides in an upsert. Of rows with one key, stored and given, that with the greatest
    values of `order_by` stays, and of equal ones the last given. A given row in which the column
    `deleted_by` is true takes the row out; the table need not have that column. A text or bytes
    that is `unavailable` stands for the value of the row before, given or stored."""

    order_by: tuple[str, ...] = ()
    deleted_by: str | None = None
    unavailable: str | None = None


@dataclass(frozen=True, slots=True)
class IcebergWrite:
    """`branch` is the one that gets the snapshot; `token` names the write, so that it is repeated
    without being written twice; `extra` goes into the summary of the snapshot. Rows that match
    `where` go in an overwrite or a delete, and get the values `changes` by an update; `key` are the
    fields that rows are found by, where these are not the table's own. With `onto` the snapshot is
    made on top of `branch` and becomes the head of that one instead, which is made where there is
    none; `branch` is dropped by that where it `ends`."""

    operation: IcebergOperation
    branch: str = MAIN
    token: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    where: Any = None
    key: tuple[str, ...] = ()
    progress: WriterProgress = field(default_factory=WriterProgress)
    rules: UpsertRules = UpsertRules()
    changes: Mapping[str, Any] = field(default_factory=dict)
    onto: str | None = None
    ends: bool = False

    @classmethod
    def asked(
        cls,
        operation: str | None,
        *,
        branch: str = MAIN,
        token: str | None = None,
        extra: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        where: Any = None,
        key: Sequence[str] = (),
        progress: WriterProgress | None = None,
        rules: UpsertRules | None = None,
    ) -> IcebergWrite:
        """As callers give it. Raises ConfigError."""
        wanted = IcebergOperation.named(operation, default=IcebergOperation.APPEND)
        return cls(
            wanted,
            branch,
            token,
            extra or {},
            options or {},
            where,
            tuple(key),
            progress or WriterProgress(),
            rules or UpsertRules(),
        )

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        if self.token is not None:
            require_token(self.token)
        require_texts(self.extra)
        takes_where = (
            IcebergOperation.OVERWRITE,
            IcebergOperation.DELETE,
            IcebergOperation.UPDATE,
        )
        if self.where is not None and self.operation not in takes_where:
            message = "a condition is for rows that are there: overwrite them, or delete them"
            raise ConfigError(message, value=self.operation.value)
        if self.key and (self.where is not None or not self.operation.is_keyed):
            raise ConfigError("a key is for upserts and deletes of rows", value=", ".join(self.key))
        if self.rules != UpsertRules() and self.operation is not IcebergOperation.UPSERT:
            raise ConfigError(
                "what decides between rows is for upserts", value=self.operation.value
            )
        own = next((name for name in self.extra if name.startswith(_OWN)), None)
        if own is not None:
            raise ConfigError("extra metadata does not take names of the commit's own", value=own)

    def summary(self) -> dict[str, str]:
        """What the summary of its snapshot says of it."""
        token = {} if self.token is None else {TOKEN_KEY: self.token}
        own = {OPERATION_KEY: self.operation.value, **token}
        if self.operation is IcebergOperation.OVERWRITE_PARTITIONS:
            own[_REPLACES_PARTITIONS] = "true"
        return {**self.extra, **self.progress.summary, **own}

    def earlier(self, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot of a write with the same token that is part of the branch; None where the
        table keeps none.

        Raises ConfigError where it was another kind of write.
        """
        ref = metadata.refs.get(self.branch)
        if self.token is None or ref is None:
            return None
        ancestors = metadata.ancestors(ref.snapshot_id)
        found = next(
            (item for item in ancestors if item.summary.get(TOKEN_KEY) == self.token), None
        )
        if found is None:
            return None
        operation = found.summary.get(OPERATION_KEY)
        if operation != self.operation.value:
            raise ConfigError(
                f"the token is that of another kind of write, {operation}; a token names one write "
                "only",
                table=metadata.location,
                instant=found.snapshot_id,
                value=self.token,
            )
        return found


@dataclass(frozen=True, slots=True)
class IcebergWritten:
    """The snapshot of a write; `is_repeat`: an earlier write with the same token made it."""

    snapshot: Snapshot
    operation: IcebergOperation
    is_repeat: bool = False

    @property
    def rows(self) -> RowCounts:
        """What it did to rows."""
        return RowCounts.of(self.snapshot)

    def count(self, name: str) -> int:
        """A number of the snapshot's summary."""
        return _number(self.snapshot, name)


def _number(snapshot: Snapshot, name: str) -> int:
    text = snapshot.summary.get(name, "0")
    return int(text) if text.isdecimal() else 0
