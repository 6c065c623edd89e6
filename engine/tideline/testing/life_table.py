"""What a life is about: a table that a seed chose, in the words of Hudi's SQL, and its model.

`LifeTable` says how Hudi makes the table (one of its surfaces), in which version, type and index,
and which columns key and partition it. `LifeRows` is a dictionary of the rows that it must hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from tideline.testing.hudi_peer import version_options
from tideline.testing.life_index import LifeIndex
from tideline.testing.life_values import ColumnType

VERSIONS = (6, 8, 9)
JAVA_ZONES = ("UTC", "Asia/Kolkata")
SESSION_ZONES = ("America/New_York", "Asia/Kolkata", "UTC")
SCHEMA_ON_READ = {
    "hoodie.schema.on.read.enable": "true",
    # Without it Hudi refuses to rename a column.
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}
WRITE = "hoodie.datasource.write."
_KEYS_OF_ONE = tuple(kind for kind in ColumnType if kind is not ColumnType.BOOLEAN)


class Surface(Enum):
    """How Hudi makes the table."""

    CREATE_AND_INSERT = "create table, insert into"
    CREATE_AS_SELECT = "create table as select"
    DATA_SOURCE = "data source"
    BULK_INSERT = "data source, bulk insert"

    @property
    def is_sql(self) -> bool:
        return self in (Surface.CREATE_AND_INSERT, Surface.CREATE_AS_SELECT)


@dataclass(frozen=True, slots=True)
class LifeTable:
    """What a seed chose.

    `java_zone` is the local time of Hudi's JVM, `session_zone` that of its Spark session.
    `keys` and `partitions` are the types of the columns `k0`, ... and `p0`, ...
    """

    seed: int
    surface: Surface
    table_type: str
    version: int
    keys: tuple[ColumnType, ...]
    partitions: tuple[ColumnType, ...]
    has_ordering: bool
    hive_style: bool
    java_zone: str
    session_zone: str
    has_metadata_table: bool
    is_altered: bool
    index: LifeIndex = LifeIndex.DEFAULT

    @classmethod
    def of(cls, seed: int) -> LifeTable:
        """The index is drawn apart, so that it changes nothing of the other tables."""
        drawn = replace(cls._without_index(seed), index=LifeIndex.of(seed))
        if drawn.index is LifeIndex.RECORD_INDEX:
            # It is a partition of the metadata table.
            return replace(drawn, version=max(drawn.version, 8), has_metadata_table=True)
        return drawn

    @classmethod
    def _without_index(cls, seed: int) -> LifeTable:
        chance = random.Random(f"life {seed}")
        surface = chance.choice(tuple(Surface))
        count = chance.choice((1, 1, 2))
        keys = chance.sample(_KEYS_OF_ONE if count == 1 else tuple(ColumnType), count)
        partitions = chance.sample(tuple(ColumnType), chance.choice((0, 1, 1, 2)))
        version = chance.choice(VERSIONS)
        return cls(
            seed,
            surface,
            chance.choice(("cow", "mor")),
            version,
            tuple(keys),
            tuple(partitions),
            chance.random() < 0.7,
            chance.random() < 0.5,
            chance.choice(JAVA_ZONES),
            chance.choice(SESSION_ZONES),
            # Hudi 1.2 makes none in version 6 from its SQL.
            chance.random() < 0.6 and version > 6,
            chance.random() < 0.4,
        )

    def hides_rows_by(self, name: str) -> bool:
        """Whether Hudi's queries find no row by an equality of this column: they look for the days
        since 1970 in a record index whose keys are dates as text."""
        is_indexed = self.index is LifeIndex.RECORD_INDEX and self.key_names == (name,)
        return is_indexed and self.keys == (ColumnType.DATE,)

    @property
    def first_name(self) -> str:
        """As Hudi's catalog knows it until it is renamed."""
        return f"life{self.seed}"

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(f"k{number}" for number in range(len(self.keys)))

    @property
    def partition_names(self) -> tuple[str, ...]:
        return tuple(f"p{number}" for number in range(len(self.partitions)))

    @property
    def hudi_loses_keys(self) -> bool:
        """Whether Hudi itself does not find the rows that the surface stored: their keys have times
        as text, and those of its SQL and upserts have numbers."""
        as_text = self.surface in (Surface.CREATE_AS_SELECT, Surface.BULK_INSERT)
        return as_text and ColumnType.TIMESTAMP in self.keys

    @property
    def has_times_in_paths(self) -> bool:
        """Whether Hudi's SQL and its data source store one row under two paths."""
        return ColumnType.TIMESTAMP in self.partitions

    def first_columns(self) -> dict[str, ColumnType]:
        """Name and type of the columns at first, in the order of SQL: partitions come last."""
        return {
            **dict(zip(self.key_names, self.keys, strict=True)),
            "ts": ColumnType.LONG,
            "n": ColumnType.LONG,
            "w": ColumnType.INT,
            "s": ColumnType.STRING,
            **dict(zip(self.partition_names, self.partitions, strict=True)),
        }

    def settings(self) -> dict[str, str]:
        """What every session of Hudi that works on the table has."""
        return {
            "spark.sql.session.timeZone": self.session_zone,
            "hoodie.metadata.enable": str(self.has_metadata_table).lower(),
            "hoodie.compact.inline": "false",
            # No release of Hudi that spells such keys otherwise has written the table.
            "hoodie.write.complex.keygen.validation.enable": "false",
            **version_options(self.version),
            **(SCHEMA_ON_READ if self.is_altered else {}),
            **self.index.hudi_settings(self.key_names),
        }

    def our_settings(self) -> dict[str, str]:
        """What a write of ours needs in its options."""
        return dict(self.index.our_settings(self.key_names))

    def create(self, uri: str, rows: Sequence[Row] | None) -> str:
        """The statement that creates the table, of rows if given."""
        columns = self.first_columns()
        ordering = ", preCombineField = 'ts'" if self.has_ordering else ""
        properties = (
            f"type = '{self.table_type}', primaryKey = '{','.join(self.key_names)}'{ordering}, "
            f"'{WRITE}hive_style_partitioning' = '{str(self.hive_style).lower()}'"
        )
        parted = f"partitioned by ({', '.join(self.partition_names)}) " if self.partitions else ""
        listed = ", ".join(f"{name} {kind.sql}" for name, kind in columns.items())
        declared = f"({listed}) " if rows is None else ""
        selected = "" if rows is None else f"as select * from {values_of(rows, columns)}"
        return (
            f"create table {self.first_name} {declared}using hudi location '{uri}' "
            f"tblproperties({properties}) {parted}{selected}"
        )

    def data_source_options(self) -> dict[str, str]:
        """What a user of Hudi's data source must say, and the settings."""
        options = {
            "hoodie.table.name": self.first_name,
            f"{WRITE}table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[self.table_type],
            f"{WRITE}recordkey.field": ",".join(self.key_names),
            f"{WRITE}partitionpath.field": ",".join(self.partition_names),
            f"{WRITE}hive_style_partitioning": str(self.hive_style).lower(),
            **{name: text for name, text in self.settings().items() if name.startswith("hoodie.")},
        }
        if self.has_ordering:
            options[f"{WRITE}precombine.field"] = "ts"
        return options


Row = dict[str, Any]
Identity = tuple[Any, ...]


@dataclass
class LifeRows:
    """The rows that the table must hold, and its columns now."""

    table: LifeTable
    columns: dict[str, ColumnType]
    rows: dict[Identity, Row] = field(default_factory=dict)
    never_late: set[Identity] = field(default_factory=set)
    """Keys whose rows may not come late: what becomes of it is an engine's own affair."""

    @classmethod
    def of(cls, table: LifeTable) -> LifeRows:
        return cls(table, table.first_columns())

    def copy(self) -> LifeRows:
        """As it is now, for later."""
        rows = {identity: dict(row) for identity, row in self.rows.items()}
        return LifeRows(self.table, dict(self.columns), rows, set(self.never_late))

    def identity(self, row: Row) -> Identity:
        parts = () if self.table.index.is_global else self.table.partition_names
        return tuple(row[name] for name in (*self.table.key_names, *parts))

    def upsert(self, rows: Iterable[Row]) -> None:
        for row in rows:
            now = self.rows.get(self.identity(row))
            if now is None or not self.table.has_ordering or row["ts"] >= now["ts"]:
                self.rows[self.identity(row)] = dict(row)

    def delete(self, rows: Iterable[Row]) -> None:
        for row in list(rows):
            self.rows.pop(self.identity(row), None)
            self.never_late.add(self.identity(row))

    def note_merged_in_part(self, rows: Iterable[Row]) -> None:
        """In logs Hudi puts these columns over a row that comes late, not over the stored one."""
        if self.table.table_type == "mor":
            self.never_late.update(map(self.identity, rows))

    def matching(self, condition: Callable[[Row], bool]) -> list[Row]:
        return [row for row in self.rows.values() if condition(row)]

    def in_partition_of(self, row: Row) -> list[Row]:
        names = self.table.partition_names
        return self.matching(lambda other: all(other[name] == row[name] for name in names))

    def add(self, name: str, kind: ColumnType) -> None:
        """A column after the others, as SQL adds it: before those that partition the table."""
        last = {each: self.columns[each] for each in self.table.partition_names}
        first = {each: held for each, held in self.columns.items() if each not in last}
        self.columns = {**first, name: kind, **last}
        for row in self.rows.values():
            row[name] = None

    def rename(self, old: str, new: str) -> None:
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
        for row in self.rows.values():
            row[new] = row.pop(old)

    def arrow(self, rows: Iterable[Row]) -> pa.Table:
        schema = pa.schema([(name, kind.arrow) for name, kind in self.columns.items()])
        return pa.Table.from_pylist(list(rows), schema=schema)

    def values(self, rows: Sequence[Row]) -> str:
        """The rows as a relation of SQL."""
        return values_of(rows, self.columns)

    def expected(self, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """The rows in order; the values of these columns, or of all."""
        return self.found(self.arrow(self.rows.values()), names)

    def found(self, rows: pa.Table, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """What a reader answers, in the form of `expected`."""
        return in_order(self.in_rows(rows, names))

    def in_rows(self, rows: pa.Table, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """The values of these columns, row by row."""
        chosen = self.columns if names is None else names
        columns = [rows[name].cast(self.columns[name].arrow).to_pylist() for name in chosen]
        return list(zip(*columns, strict=True))


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def values_of(rows: Sequence[Row], columns: dict[str, ColumnType]) -> str:
    """Rows as a relation of SQL."""
    listed = ", ".join(
        f"({', '.join(kind.literal(row[name]) for name, kind in columns.items())})" for row in rows
    )
    return f"values {listed} as x({', '.join(columns)})"
