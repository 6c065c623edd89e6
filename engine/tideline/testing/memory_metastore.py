"""A metastore in memory, which dies before or after any of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tideline.hudi.table.table_config import TableConfig
from tideline.registration.metastore import RegisteredPartition, RegisteredTable
from tideline.registration.table_name import TableName
from tideline.storage.location import StoreLocation

T = TypeVar("T")


class MetastoreDiedError(Exception):
    """The process that uses the metastore is gone."""


@dataclass
class MemoryMetastore:
    """Tables by name, with their partitions by values. `calls` are the changes, in words; the
    process dies at the change of the number `dies_at`, counted from 1, before it is made or
    `after`. `between` is called before each change is made."""

    tables: dict[TableName, RegisteredTable] = field(default_factory=dict)
    kept: dict[TableName, dict[tuple[str, ...], str]] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    listed: list[int | None] = field(default_factory=list)
    dies_at: int = 0
    after: bool = False
    between: Callable[[], object] = lambda: None

    @property
    def kind(self) -> str:
        return "memory"

    def spelled(self, location: StoreLocation) -> str:
        return location.uri

    def parameters_for(self, config: TableConfig) -> Mapping[str, str]:
        return {"of": config.name}

    def create_database(self, database: str) -> None:
        if database not in self.databases:
            self._change("create database", lambda: self.databases.add(database))

    def table(self, name: TableName) -> RegisteredTable | None:
        return self.tables.get(name)

    def create_table(self, table: RegisteredTable) -> bool:
        def create() -> bool:
            if table.name in self.tables:
                return False
            self.tables[table.name] = table
            self.kept[table.name] = {}
            return True

        return self._change(f"create {table.name}", create)

    def alter_table(self, seen: RegisteredTable, table: RegisteredTable) -> bool:
        def alter() -> bool:
            if self.tables.get(seen.name) != seen:
                return False
            self.tables[seen.name] = table
            return True

        return self._change(f"alter {table.name}", alter)

    def partitions(
        self, table: RegisteredTable, values: Iterable[tuple[str, ...]] | None = None
    ) -> Iterator[RegisteredPartition]:
        kept = self.kept[table.name]
        wanted = list(kept) if values is None else [each for each in values if each in kept]
        self.listed.append(None if values is None else len(wanted))
        for each in wanted:
            yield RegisteredPartition(each, kept[each])

    def add_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        new = {partition.values: partition.location for partition in partitions}
        kept = self.kept[table.name]
        self._change(f"add {len(new)} to {table.name}", lambda: kept.update({**new, **kept}))

    def move_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        new = {partition.values: partition.location for partition in partitions}
        kept = self.kept[table.name]
        self._change(f"move {len(new)} of {table.name}", lambda: kept.update(new))

    def drop_partitions(self, table: RegisteredTable, values: Iterable[tuple[str, ...]]) -> None:
        gone = list(values)
        kept = self.kept[table.name]
        self._change(
            f"drop {len(gone)} of {table.name}", lambda: [kept.pop(each, None) for each in gone]
        )

    def _change(self, words: str, change: Callable[[], T]) -> T:
        self.between()
        self.calls.append(words)
        is_last = len(self.calls) == self.dies_at
        if is_last and not self.after:
            raise MetastoreDiedError(words)
        done = change()
        if is_last:
            raise MetastoreDiedError(words)
        return done
