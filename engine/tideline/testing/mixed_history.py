"""Random histories of one table that Hudi's bundle made, and that Hudi and Tideline write by turns.

1. A seed chooses the table: type, index, zone of its instants, key generator, merge mode, metadata
   partitions (`MixedTable`).
2. Hudi creates it. Each turn is then one of Hudi's or one of ours: an upsert (of newer, older and
   moving rows), an insert, a delete, a schema change, a table service or a change of version.
3. Every turn goes to the model as well, a dictionary. After each, Hudi, Tideline and, where it can
   read such a table, hudi-rs must see the model's rows, and the metadata table must say what the
   files hold.

A failure names the seed, the table and the turns so far.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tideline.hudi.table.table_config import TIMEZONE
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.mixed_table import SCHEMA_ON_READ, VERSIONS, MixedTable, Model, Row
from tideline.testing.table_audit import stale_listing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = ("a", "b", "c")
_KEYS = 60
_DUE = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}
Write = Callable[[str, list[Row]], None]


class MixedHistory:
    """One history under way; `peer_in` starts Hudi in a zone."""

    def __init__(
        self, seed: int, folder: Path, spark: SparkSession, peer_in: Callable[[str], HudiPeer]
    ) -> None:
        self.table = MixedTable.of(seed)
        self.turns: list[str] = []
        self._chance = random.Random(f"turns of {seed}")
        self._model = Model(self.table)
        self._uri = str(folder / "mixed")
        self._spark = spark
        self._peer = peer_in(self.table.zone)
        self._ts = 1_000
        self._has_dropped = False

    def run(self, turns: int = 7) -> None:
        """Raise AssertionError with the seed and the turns when a reader sees other rows."""
        try:
            self._take("Hudi creates", lambda: self._hudi_writes("upsert", self._new_rows(30)))
            if self.table.is_altered:
                self._sql(f"create table {self.table.name} using hudi location '{self._uri}'")
            if self.table.zone != "UTC":
                self._declare_zone()
            for _ in range(turns):
                name, turn = self._chance.choice(list(self._choices()))
                self._take(name, turn)
        except Exception as error:
            listed = "\n".join(f"  {n}. {turn}" for n, turn in enumerate(self.turns, 1))
            raise AssertionError(
                f"{error}\n{self.table}\n{listed}\nRepeat it with TIDELINE_SEED={self.table.seed}"
            ) from error

    def _take(self, name: str, turn: Callable[[], None]) -> None:
        self.turns.append(name)
        turn()
        self._check()

    def _choices(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for who, write in (("Hudi", self._hudi_writes), ("we", self._we_write)):
            yield f"{who} upsert", partial(self._changed_by, write)
            yield f"{who} upsert late rows", partial(self._changed_late_by, write)
            yield f"{who} insert", partial(self._added_by, write)
            yield f"{who} delete", partial(self._deleted_by, write)
        if self.table.table_type == "MERGE_ON_READ":
            yield "Hudi compacts", lambda: self._hudi_serves("hoodie.compact.inline")
            yield "we compact", lambda: self._we_serve("compaction")
        if not self.table.places_by_hash:
            yield "Hudi clusters", lambda: self._hudi_serves("hoodie.clustering.inline")
            yield "we cluster", lambda: self._we_serve("clustering")
        if self.table.is_altered:
            yield "Hudi adds a column", self._hudi_adds
            # Of its own table, too: dropped, written and then renamed is not read by Hudi 1.2.
            if not self._has_dropped:
                yield "Hudi renames a column", self._hudi_renames
            if len(self._model.columns) > 1:
                yield "Hudi drops a column", self._hudi_drops
        yield "we clean", lambda: self._we_serve("cleaning")
        yield "we archive", lambda: self._we_serve("archival")
        for version in VERSIONS:
            if version != self.table.version:
                yield f"we bring it to version {version}", partial(self._we_change_version, version)

    def _changed_by(self, write: Write) -> None:
        write("upsert", self._changes())

    def _changed_late_by(self, write: Write) -> None:
        write("upsert", self._late())

    def _added_by(self, write: Write) -> None:
        write("insert", self._new_rows(8))

    def _deleted_by(self, write: Write) -> None:
        write("delete", self._some(6))

    # Rows of a turn

    def _new_rows(self, count: int) -> list[Row]:
        """Rows of keys that are not stored now, deleted ones among them."""
        taken = {row["id"] for row in self._model.rows.values()}
        free = [number for number in range(_KEYS * 3) if f"k{number}" not in taken]
        return [self._row(number) for number in self._chance.sample(free, count)]

    def _some(self, count: int) -> list[Row]:
        rows = list(self._model.rows.values())
        return self._chance.sample(rows, min(count, len(rows)))

    def _changes(self) -> list[Row]:
        """Stored rows changed, some in other partitions, and new ones."""
        changed = [self._changed(row, moves=self._chance.random() < 0.2) for row in self._some(10)]
        changed += self._new_rows(4)
        return list({self._model.identity(row): row for row in changed}.values())

    def _late(self) -> list[Row]:
        """Stored rows with an ordering value from before; only of keys that never were deleted.

        What an engine keeps of the ordering of deleted rows is its own affair.
        """
        gone = self._model.once_deleted
        rows = [row for row in self._some(12) if self._model.identity(row) not in gone]
        return [{**self._changed(row), "ts": row["ts"] - 500} for row in rows] or self._new_rows(2)

    def _changed(self, row: Row, *, moves: bool = False) -> Row:
        self._ts += 1
        values = {name: self._value(name) for name in self._model.columns}
        partition = self._chance.choice(PARTITIONS) if moves else row["p"]
        return {**row, **values, "p": partition, "ts": self._ts}

    def _row(self, number: int) -> Row:
        chance = random.Random(number)
        keyed = {
            "id": f"k{number}",
            "line": chance.randrange(3),
            "p": chance.choice(PARTITIONS),
            "q": chance.choice(("x", "y")),
        }
        return self._changed(keyed)

    def _value(self, name: str) -> Any:
        number = self._chance.randrange(10_000)
        return f"{name} {number}" if name.startswith("text") else number

    def _arrow(self, rows: Sequence[Row]) -> pa.Table:
        types = {"line": pa.int32(), "ts": pa.int64()}
        text = {"id", "p", "q"}
        fields = [
            (name, pa.string() if name in text or name.startswith("text")
             else types.get(name, pa.int64()))
            for name in self._model.names()
        ]  # fmt: skip
        return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))

    # What either engine does

    def _hudi_writes(
        self, operation: str, rows: list[Row], more: Mapping[str, str] | None = None
    ) -> None:
        options = {**self.table.hudi_options(), **(more or {})}
        self._peer.write(self._uri, self._arrow(rows), operation=operation, options=options)
        self._note(operation, rows)

    def _we_write(self, operation: str, rows: list[Row]) -> None:
        frame = self._spark.createDataFrame(self._arrow(rows))
        self._lake().write(frame, operation, options=self.table.our_options())
        self._note(operation, rows)

    def _note(self, operation: str, rows: list[Row]) -> None:
        (self._model.delete if operation == "delete" else self._model.upsert)(rows)

    def _hudi_serves(self, switch: str) -> None:
        """An upsert that is followed by a service."""
        due = {name: value for name, value in _DUE.items() if "inline.max" in name}
        self._hudi_writes("upsert", self._changes(), {switch: "true", **due})

    def _hudi_adds(self) -> None:
        """A column whose name may be a dropped one's."""
        name = self._new_name()
        kind = "string" if name.startswith("text") else "bigint"
        self._alter(f"add columns ({name} {kind})")
        self._model.columns.append(name)

    def _hudi_renames(self) -> None:
        old = self._chance.choice(self._model.columns)
        new = self._new_name(old.rstrip("0123456789"))
        self._alter(f"rename column {old} to {new}")
        self._model.rename(old, new)

    def _hudi_drops(self) -> None:
        name = self._chance.choice(self._model.columns)
        self._alter(f"drop column {name}")
        self._has_dropped = True
        self._model.drop(name)

    def _new_name(self, stem: str = "") -> str:
        names = [f"{stem or start}{number}" for start in ("v", "text") for number in range(4)]
        return self._chance.choice([name for name in names if name not in self._model.columns])

    def _alter(self, change: str) -> None:
        self._sql(f"alter table {self.table.name} {change}")

    def _sql(self, statement: str) -> None:
        metadata = {"hoodie.metadata.enable": str(self.table.metadata is not None).lower()}
        settings = {**version_options(self.table.version), **SCHEMA_ON_READ, **metadata}
        with self._peer.settings(settings):
            self._peer.run_statement(statement)

    def _we_serve(self, service: str) -> None:
        self._lake().run(service, options=_DUE, spark=self._spark)

    def _we_change_version(self, version: int) -> None:
        self._lake().change_version(version, spark=self._spark)
        self.table = self._model.table = replace(self.table, version=version)

    def _declare_zone(self) -> None:
        hoodie = self._lake().hoodie_table
        with hoodie.lock().acquire(timeout_s=10):
            hoodie.properties.update({TIMEZONE: self.table.zone})

    def _lake(self) -> LakeTable:
        return LakeTable.open(self._uri)

    # What they see

    def _check(self) -> None:
        expected = self._model.expected()
        names = self._model.names()
        answers = {
            "tideline": self._lake().snapshot(self._spark).toArrow(),
            "hudi": self._peer.read(self._uri, SCHEMA_ON_READ if self.table.is_altered else {}),
        }
        if self.table.is_read_by_hudi_rs:
            answers["hudi-rs"] = self._peer.read_with_hudi_rs(self._uri)
        wrong = []
        for reader, answer in answers.items():
            columns = [answer[name].to_pylist() for name in names]
            found = sorted(zip(*columns, strict=True), key=repr)
            if found != expected:
                wrong.append(f"{reader} sees other rows: {difference(found, expected)}")
        hoodie = self._lake().hoodie_table
        if hoodie.config.keeps_metadata_table and not self.table.is_altered:
            wrong += stale_listing(hoodie)
        assert not wrong, "\n".join(wrong)


def difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """What is in one of the two only, the first few."""
    missing = [row for row in expected if row not in found][:3]
    other = [row for row in found if row not in expected][:3]
    return f"{len(found)} for {len(expected)}; missing {missing}; not expected {other}"
