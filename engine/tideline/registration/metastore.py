"""A metastore as values and a protocol: tables and partitions that engines find by name.

Each call is one change that the metastore makes whole or not at all. Implementations raise
StorageUnavailableError where the metastore does not answer, ConfigError where it refuses a request,
and UnsupportedTableError for what it cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

from tideline.hudi.table.table_config import TableConfig
from tideline.registration.table_name import TableName
from tideline.storage.location import StoreLocation

T = TypeVar("T")

LAST_COMMIT = "last_commit_time_sync"
"""Of a registered table: the newest instant that its partitions are registered up to."""


@dataclass(frozen=True, slots=True)
class RegisteredColumn:
    """A column, its type in Hive's words."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """The Java classes that Hive reads a table with, and the serde's parameters."""

    input_format: str
    output_format: str
    serde: str
    serde_parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """An external table. `kind` is the metastore's word for it, such as `VIRTUAL_VIEW`.

    `version` is the metastore's own mark of this state, where it has one.
    """

    name: TableName
    columns: tuple[RegisteredColumn, ...]
    partition_columns: tuple[RegisteredColumn, ...]
    location: str
    format: StorageFormat
    parameters: Mapping[str, str] = field(default_factory=dict)
    kind: str = "EXTERNAL_TABLE"
    version: str | None = field(default=None, compare=False)

    @property
    def last_commit(self) -> str | None:
        """The instant up to which it was synced, None where that is not known."""
        return self.parameters.get(LAST_COMMIT)


@dataclass(frozen=True, slots=True)
class RegisteredPartition:
    """A partition: a value for each partition column, and the folder with its files."""

    values: tuple[str, ...]
    location: str


class Metastore(Protocol):
    """A server that keeps tables by database and name."""

    @property
    def kind(self) -> str:
        """The word for it in settings and messages: `hive`."""

    def spelled(self, location: StoreLocation) -> str:
        """A table's location as engines that use this metastore spell it."""

    def parameters_for(self, config: TableConfig) -> Mapping[str, str]:
        """Parameters that readers of this metastore look for, above those of every metastore."""

    def create_database(self, database: str) -> None:
        """Make a database, unless it is there."""

    def table(self, name: TableName) -> RegisteredTable | None:
        """The table of a name, None where there is none."""

    def create_table(self, table: RegisteredTable) -> bool:
        """Create it without partitions; False where the name is taken."""

    def alter_table(self, seen: RegisteredTable, table: RegisteredTable) -> bool:
        """Make the table `seen` into `table`, its partitions' columns too.

        False where it is no longer as it was seen. What these values do not say of a table, such
        as its owner, stays.
        """

    def partitions(
        self, table: RegisteredTable, values: Iterable[tuple[str, ...]] | None = None
    ) -> Iterator[RegisteredPartition]:
        """All partitions of a table, or those that it has of the ones with these values."""

    def add_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        """Add partitions; those whose values are there already stay as they are."""

    def move_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        """Give partitions that are there other locations."""

    def drop_partitions(self, table: RegisteredTable, values: Iterable[tuple[str, ...]]) -> None:
        """Forget partitions; those that are not there are no fault. No file is deleted."""


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of so many, as calls of a metastore take them."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
