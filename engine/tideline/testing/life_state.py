"""What the steps of a life share: the table, its model, both engines, and rows and conditions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tideline.hudi.table.table_config import TIMEZONE
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.life_table import WRITE, LifeRows, LifeTable, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = 6
"""How many values the column `n` has."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A point of the table's time, and what it held then."""

    until: Any
    model: LifeRows


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL, and the same for a row of the model."""

    sql: str
    holds: Callable[[Row], bool]


@dataclass
class LifeState:
    """A life under way. `name` is the table's in Hudi's catalog, `seen` are points of before."""

    table: LifeTable
    uri: str
    spark: SparkSession
    peer: HudiPeer
    chance: random.Random
    model: LifeRows
    name: str
    seen: list[Seen] = field(default_factory=list)
    savepoint: Seen | None = None
    _ts: int = 1_000
    _number: int = 0

    @classmethod
    def of(cls, table: LifeTable, uri: str, spark: SparkSession, peer: HudiPeer) -> LifeState:
        chance = random.Random(f"steps of {table.seed}")
        return cls(table, uri, spark, peer, chance, LifeRows.of(table), table.first_name)

    def next_number(self) -> int:
        """A number for a new name."""
        self._number += 1
        return self._number

    def lake(self) -> LakeTable:
        return LakeTable.open(self.uri)

    def sql(self, statement: str) -> None:
        self.peer.run_statement(statement)

    def data_source(self, operation: str, rows: list[Row]) -> None:
        options = {**self.table.data_source_options(), "hoodie.table.name": self.name}
        options[f"{WRITE}operation"] = operation
        self.peer.write(self.uri, self.model.arrow(rows), operation=operation, options=options)

    def declare_zone(self) -> None:
        if self.table.java_zone != "UTC":
            hoodie = self.lake().hoodie_table
            with hoodie.lock().acquire(timeout_s=10):
                hoodie.properties.update({TIMEZONE: self.table.java_zone})

    def may_restore(self) -> bool:
        """Spark's catalog keeps columns that came after the savepoint."""
        saved = self.savepoint
        return saved is not None and saved.model.columns == self.model.columns

    def note_restored(self, saved: Seen) -> None:
        never_late = self.model.never_late
        self.model = saved.model.copy()
        self.model.never_late |= never_late
        self.seen.clear()

    def tick(self) -> int:
        self._ts += 1
        return self._ts

    def new_rows(self, count: int) -> list[Row]:
        """Rows of keys that are not stored now."""
        found: dict[Any, Row] = {}
        pools = {
            name: kind.some(self.chance, 40 if name[0] == "k" else 4)
            for name, kind in self.model.columns.items()
            if name[0] in "kp"
        }
        for _ in range(count * 20):
            row = self.valued({name: self.chance.choice(pool) for name, pool in pools.items()})
            if self.model.identity(row) not in self.model.rows:
                found[self.model.identity(row)] = row
        return list(found.values())[:count]

    def valued(self, row: Row) -> Row:
        """The row with other values in all columns but those of its key and partition."""
        valued = dict(row)
        for name, kind in self.model.columns.items():
            if name[0] not in "kp":
                is_null = name not in ("ts", "n") and self.chance.random() < 0.1
                valued[name] = None if is_null else self.chance.choice(kind.some(self.chance, 6))
        return {**valued, "ts": self.tick(), "n": self.chance.randrange(NUMBERS)}

    def some(self, count: int) -> list[Row]:
        rows = list(self.model.rows.values())
        return [dict(row) for row in self.chance.sample(rows, min(count, len(rows)))]

    def changes(self) -> list[Row]:
        """Stored rows changed, some of them late, and new ones."""
        rows = [self.valued(row) for row in self.some(6)]
        for row in rows[:2]:
            if self.model.identity(row) not in self.model.never_late:
                row["ts"] -= 2_000
        return [*rows, *self.new_rows(3)]

    def condition(self) -> Condition:
        """On ordinary numbers, or on a column of the key or partition, which prunes files."""
        numbers = sorted(self.chance.sample(range(NUMBERS), 2))
        listed = ", ".join(map(str, numbers))
        on_numbers = Condition(f"n in ({listed})", lambda row: row["n"] in numbers)
        rows = list(self.model.rows.values())
        if not rows or self.chance.random() < 0.5:
            return on_numbers
        name = self.chance.choice((*self.table.key_names, *self.table.partition_names))
        value = self.chance.choice(rows)[name]
        if self.table.hides_rows_by(name):
            return on_numbers
        literal = self.model.columns[name].literal(value)
        return Condition(f"{name} = {literal}", lambda row: row[name] == value)
