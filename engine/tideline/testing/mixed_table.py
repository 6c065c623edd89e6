"""What a random history of Hudi and Tideline is about: a table that a seed chose, and its model.

`MixedTable` says the type, index, zone of instants, key generator, merge mode and metadata
partitions, and what settings writers of either engine need. `Model` is the rows it must hold.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tideline.testing.interop_table import METADATA_TABLE_OFF, METADATA_TABLE_ON, InteropLayout

VERSIONS = (6, 8, 9)
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")
# By its default a record index leaves a row where it is, and readers do not agree on its partition.
MOVING = {"hoodie.record.index.update.partition.path": "true"}
_THREE_BUCKETS = {"hoodie.bucket.index.num.buckets": "3"}
_PROPERTIES = {
    "BUCKET": _THREE_BUCKETS,
    "CONSISTENT_HASHING": {
        **_THREE_BUCKETS,
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    },
    "RECORD_INDEX": MOVING,
}
"""What Hudi's writers are given in addition to the name of an index."""
_METADATA_PARTITIONS = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}
SCHEMA_ON_READ = {
    "hoodie.schema.on.read.enable": "true",
    # Without it Hudi refuses to rename or drop a column.
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}


class Keys(Enum):
    """How rows are keyed: the key columns and the partition columns."""

    SIMPLE = ("id", "p")
    COMPOSITE = ("id,line", "p")
    TWO_FOLDERS = ("id,line", "p,q")
    ONE_FOLDER = ("id", "")

    def __init__(self, record_key: str, partition_by: str) -> None:
        self.record_key = tuple(record_key.split(","))
        self.partition_by = tuple(filter(None, partition_by.split(",")))


@dataclass(frozen=True, slots=True)
class MixedTable:
    """What a seed chose.

    `index` is the writers'; `metadata` names what Hudi's metadata table holds in addition to
    `files`, None when it is off; columns of a table that `is_altered` are renamed, dropped and
    added by Hudi's schema on read.
    """

    seed: int
    table_type: str
    index: str
    keys: Keys
    merge_mode: str
    metadata: str | None
    zone: str
    hive_style: bool
    is_altered: bool
    version: int

    @classmethod
    def of(cls, seed: int) -> MixedTable:
        chance = random.Random(seed)
        index = chance.choice(("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX",
                               "BUCKET", "CONSISTENT_HASHING"))  # fmt: skip
        keys = chance.choice(tuple(Keys))
        table_type = chance.choice(("COPY_ON_WRITE", "MERGE_ON_READ"))
        if index == "CONSISTENT_HASHING":
            table_type = "MERGE_ON_READ"
        metadata = chance.choice((None, None, "", "column_stats"))
        if index == "RECORD_INDEX":
            metadata = "record_index"
        return cls(
            seed,
            table_type,
            index,
            keys,
            chance.choice(("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")),
            metadata,
            chance.choice(ZONES),
            chance.random() < 0.3,
            chance.random() < 0.4,
            chance.choice(VERSIONS),
        )

    @property
    def name(self) -> str:
        """As Hudi's catalog knows it."""
        return f"mixed{self.seed}"

    @property
    def is_global(self) -> bool:
        """Whether a key is one row, regardless of its partition."""
        return self.index.startswith("GLOBAL_") or self.index == "RECORD_INDEX"

    @property
    def places_by_hash(self) -> bool:
        return self.index in ("BUCKET", "CONSISTENT_HASHING")

    @property
    def is_read_by_hudi_rs(self) -> bool:
        """In version 6 hudi-rs merges logs by event time alone; it finds columns by name. In later
        ones it misses groups of logs alone, which that index begins with, in a metadata table.
        """
        if self.version > 6 and self.index == "CONSISTENT_HASHING" and self.metadata is not None:
            return False
        merges = self.version > 6 or self.merge_mode == "EVENT_TIME_ORDERING"
        return (merges or self.table_type == "COPY_ON_WRITE") and not self.is_altered

    def hudi_options(self) -> dict[str, str]:
        """All that every writer of Hudi is given."""
        layout = InteropLayout(
            self.name,
            record_key=self.keys.record_key,
            partition_by=self.keys.partition_by,
            index="BUCKET" if self.places_by_hash else self.index,
            hive_style=self.hive_style,
            properties=_PROPERTIES.get(self.index, {}),
            version=self.version,
        )
        options = {
            **layout.creating_options(),
            **(METADATA_TABLE_OFF if self.metadata is None else METADATA_TABLE_ON),
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.write.record.merge.mode": self.merge_mode,
            "hoodie.compact.inline": "false",
        }
        if self.is_altered:
            options |= SCHEMA_ON_READ
        if self.metadata is not None:
            options |= {
                key: str(self.metadata == name).lower()
                for name, key in _METADATA_PARTITIONS.items()
            }
        return options

    def our_options(self) -> dict[str, str]:
        """What nothing on disk says, and a declaration that was not made has to."""
        if self.index.startswith("GLOBAL_") or self.index in ("SIMPLE", "BLOOM"):
            return {"hoodie.index.type": self.index}
        return MOVING if self.index == "RECORD_INDEX" else {}


Row = dict[str, Any]
Identity = tuple[Any, ...]


@dataclass
class Model:
    """The rows that the table must hold."""

    table: MixedTable
    columns: list[str] = field(default_factory=lambda: ["v", "text"])
    rows: dict[Identity, Row] = field(default_factory=dict)
    once_deleted: set[Identity] = field(default_factory=set)

    def identity(self, row: Row) -> Identity:
        key = tuple(row[name] for name in self.table.keys.record_key)
        if self.table.is_global:
            return key
        return (*key, *(row[name] for name in self.table.keys.partition_by))

    def upsert(self, rows: Sequence[Row]) -> None:
        for row in rows:
            identity = self.identity(row)
            now = self.rows.get(identity)
            is_older = now is not None and row["ts"] < now["ts"]
            if not (is_older and self.table.merge_mode == "EVENT_TIME_ORDERING"):
                self.rows[identity] = row

    def delete(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.rows.pop(self.identity(row), None)
            self.once_deleted.add(self.identity(row))

    def rename(self, old: str, new: str) -> None:
        self.columns[self.columns.index(old)] = new
        for row in self.rows.values():
            row[new] = row.pop(old, None)

    def drop(self, name: str) -> None:
        self.columns.remove(name)
        for row in self.rows.values():
            row.pop(name, None)

    def names(self) -> list[str]:
        return ["id", "line", "p", "q", "ts", *self.columns]

    def expected(self) -> list[tuple[Any, ...]]:
        names = self.names()
        return sorted((tuple(row.get(name) for name in names) for row in self.rows.values()),
                      key=repr)  # fmt: skip
