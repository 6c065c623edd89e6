"""The table of a random history with followers: how it is made, its rows, and writes that a model
is told of.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.write_operation import WriteOperation
from tideline.iceberg.table.catalog_name import DEFAULT_CATALOG, address_variable
from tideline.lake_table import LakeTable
from tideline.publication.place import CatalogPlace
from tideline.storage.object_store import ObjectStore
from tideline.testing.followed_checks import Followers
from tideline.testing.followed_model import Commit, FollowedModel, Values
from tideline.testing.followed_settings import PARTITIONS, FollowedSettings
from tideline.testing.small_table import memory_place
from tideline.testing.table_audit import open_fresh
from tideline.testing.write_batch import InterruptedEngine, batch_engine, write_batch
from tideline.write_and_serve import followed

KEYS = 20


@dataclass
class FollowedTable:
    """The table, in memory, and what is known of it; all is drawn from `seed`."""

    seed: int
    only: Collection[int] | None = None
    steps: list[str] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def _start(self, folder: Path) -> None:
        random = self._random = Random(self.seed)
        self._settings = FollowedSettings.drawn(random)
        self._location, self._clock = memory_place()
        self._database = folder / "catalog.db"
        properties = self._settings.properties()
        if self._settings.in_catalog:
            catalog = f"sqlite:///{self._database}"
            # The address that a table names is asked where the environment names it, too.
            os.environ[address_variable(DEFAULT_CATALOG)] = catalog
            properties |= CatalogPlace.of(catalog, "lake.followed").to_properties()
        self._types = {"v": pa.int32(), "w": pa.float32()}
        self._extra: list[str] = []
        self._value = 0
        self._is_outage = False
        self._has_died = False
        LakeTable.create(
            self._location.uri,
            record_key="id",
            partition_by="part" if self._settings.is_partitioned else (),
            ordering="v" if self._settings.is_ordered else (),
            table_type=self._settings.table_type,
            table_version=self._settings.version,
            properties=properties,
            clock=self._clock,
        )
        is_global = self._settings.is_global or not self._settings.is_partitioned
        self._model = FollowedModel(is_global, self._settings.is_ordered)
        self._followers = Followers(self._model, self._lake, self._clock)

    def _say(self, what: object) -> None:
        self.steps[-1] += f", {what}"

    def _lake(self, store: ObjectStore | None = None) -> LakeTable:
        return LakeTable(open_fresh(self._location, store, self._clock))

    # Rows

    @property
    def _rows_now(self) -> dict[str, Values]:
        return {key[1]: row.values for key, row in self._model.now.state.items()}

    def _values(self, number: int, v: int | None = None) -> dict[str, Any]:
        """A row of one key, where that is now or else where it belongs."""
        self._value += 1
        key = f"k{number:02d}"
        known = self._rows_now.get(key)
        part = known["part"] if known and self._settings.is_global else f"p{number % PARTITIONS}"
        v = self._value if v is None else v
        extra = dict.fromkeys(self._extra, self._value * 1000 + number)
        return {"id": key, "part": part, "v": v, "w": v / 4, **extra}

    def _some(self, most: int, among: Sequence[int] = range(KEYS)) -> list[int]:
        return self._random.sample(among, min(len(among), self._random.randint(1, most)))

    def _arrow(self, rows: Sequence[Values]) -> pa.Table:
        names = {"id": pa.string(), "part": pa.string(), **self._types}
        names |= dict.fromkeys(self._extra, pa.int64())
        if self._extra and self._random.random() < 0.3:
            names.pop(self._extra[-1])  # a producer that does not know the column
        schema = pa.schema(list(names.items()))
        return pa.Table.from_pylist(
            [{name: row.get(name) for name in names} for row in rows], schema
        )

    # Writes

    def _commit(
        self,
        operation: str,
        rows: Sequence[Values],
        store: ObjectStore | None = None,
        before_files: Callable[[], object] | None = None,
    ) -> None:
        """One write; a dead one counts when it has committed before."""
        self._say(f"{operation} of " + ", ".join(self._told(row) for row in rows))
        batch = self._arrow(rows)
        given = [{**dict.fromkeys(self._extra), **row} for row in batch.to_pylist()]
        before = self._known_commits()
        lake = self._lake(store)
        try:
            if operation == "delete_partition":
                lake.delete_partitions(sorted({row["part"] for row in rows}))
            else:
                wanted = WriteOperation.parse(operation)
                engine = batch_engine(lake, batch, wanted)
                write_batch(lake, InterruptedEngine(engine, before_files), wanted)
                followed(lake.hoodie_table)
        finally:
            self._note(operation, given, before)

    def _told(self, row: Values) -> str:
        return f"{row['id']}@{row['part']}={row['v']}"

    def _known_commits(self) -> frozenset[InstantTime]:
        return frozenset(commit.time for commit in self._commits())

    def _commits(self) -> list[Instant]:
        return list(self._lake().timeline().of(*COMMIT_ACTIONS).completed())

    def _note(
        self, operation: str, rows: Sequence[Values], before: Collection[InstantTime]
    ) -> None:
        """Tell the model of a commit that appeared and that nobody has told it of."""
        known = {commit.requested for commit in self._model.commits}
        schema = self._lake().schema
        for instant in self._commits():
            if instant.time in before or instant.time in known:
                continue
            assert instant.completed_at is not None
            columns = tuple(schema.names) if schema else ()
            self._model.add(Commit(instant.time, instant.completed_at, operation, rows, columns))
            self._say(f"at {instant.time} to {instant.completed_at}")
