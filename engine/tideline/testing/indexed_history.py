"""A history of a table of Hudi's that has every index, written and cared for by both engines.

1. A seed chooses the table (`IndexedTable`): its version and type, its partition column, the zone
   of Hudi's Java, which index writers use, whether Hudi's SQL or its data source makes it.
2. Steps of Hudi (SQL, data source, procedures) and ours alternate.
3. After each, conditions on every column are asked: Hudi with data skipping and every index, as by
   default, must find what it finds with none; a scan of ours must find the same, and `check`
   nothing wrong.

A failure names the seed, the table and the steps so far.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.check_finding import Severity
from tideline.errors import TidelineError
from tideline.hudi.table.table_config import TIMEZONE
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.indexed_values import (
    COLUMNS,
    KEYS,
    PARTITIONS,
    Row,
    conditions,
    literal,
)
from tideline.testing.table_audit import stale_listing

SKIPPING = ("hoodie.enable.data.skipping", "hoodie.metadata.enable")
LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
_WRITE = "hoodie.datasource.write."
_DUE = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}
_OFTEN = {"hoodie.metadata.compact.max.delta.commits": "4"}
_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """What a seed chose. `record_index` is global, partitioned or none; `columns` are those that a
    table has beside its key, partition and order."""

    seed: int
    version: int
    kind: str
    partition: str | None
    zone: str
    record_index: str
    index: str
    is_sql: bool
    hive_style: bool
    columns: tuple[str, ...]

    @classmethod
    def of(cls, seed: int) -> IndexedTable:
        chance = random.Random(seed)
        version = chance.choice((6, 8, 9, 9))
        record_index = chance.choice(("global", "global", "partitioned", "none"))
        if version == 6 and record_index == "partitioned":
            record_index = "global"
        by_index = {
            "global": ("RECORD_INDEX", "SIMPLE", "GLOBAL_SIMPLE"),
            "partitioned": ("RECORD_LEVEL_INDEX", "SIMPLE"),
            "none": ("SIMPLE", "BLOOM"),
        }
        return cls(
            seed,
            version,
            chance.choice(("cow", "mor")),
            chance.choice((None, *PARTITIONS)),
            chance.choice(("UTC", "UTC", "America/Los_Angeles", "Asia/Kolkata")),
            record_index,
            chance.choice(by_index[record_index]),
            chance.random() < 0.5,
            chance.random() < 0.5,
            tuple(chance.sample(list(COLUMNS), 9)),
        )

    @property
    def has_secondary(self) -> bool:
        """Whether a secondary index of a string column can be made."""
        return self.version > 6 and self.record_index == "global" and "s" in self.columns

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Of rows with these columns; the partition's is the last."""
        fields = [("id", pa.string()), ("ts", pa.int64())]
        fields += [(name, COLUMNS[name][0]) for name in columns]
        if self.partition is not None:
            fields.append(("p", PARTITIONS[self.partition][0]))
        return pa.schema(fields)

    def settings(self) -> dict[str, str]:
        """What every session and writer of Hudi has."""
        return {
            **LOCK,
            **version_options(self.version),
            **_SMALL_FILES,
            **_OFTEN,
            "hoodie.metadata.index.column.stats.enable": "true",
            "hoodie.metadata.index.bloom.filter.enable": "true",
            "hoodie.metadata.global.record.level.index.enable": _flag(self.record_index, "global"),
            "hoodie.metadata.record.level.index.enable": _flag(self.record_index, "partitioned"),
            "hoodie.index.type": self.index,
            "hoodie.bloom.index.use.metadata": "true",
            "hoodie.record.index.update.partition.path": "true",
            "hoodie.simple.index.update.partition.path": "true",
        }


@dataclass
class IndexedHistory:
    """One history under way."""

    seed: int
    folder: Path
    peer_in: Callable[[str], HudiPeer]
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = IndexedTable.of(self.seed)
        self.chance = random.Random(f"steps of {self.seed}")
        self.peer = self.peer_in(self.table.zone)
        self.uri = str(self.folder / "t")
        self.name = f"indexed{self.seed}_{next(_NUMBERS)}"
        self.columns = list(self.table.columns)
        self._ts = 0
        self._saved: Any = None

    def run(self, steps: int = 8) -> None:
        """Raise AssertionError with the seed and the steps when an answer is wrong."""
        try:
            with self.peer.settings(self.table.settings(), *SKIPPING):
                self._take("Hudi: creates", self._create)
                for number in range(steps):
                    choices = list(self._ours() if number % 2 else self._hudis())
                    self._take(*self.chance.choice(choices))
        except Exception as error:
            listed = "\n".join(f"  {n}. {step}" for n, step in enumerate(self.steps, 1))
            raise AssertionError(
                f"{error}\n{self.table}\n{listed}\nRepeat it with TIDELINE_SEED={self.seed}"
            ) from error

    def lake(self) -> LakeTable:
        return LakeTable.open(self.uri)

    def _take(self, name: str, step: Callable[[], object]) -> None:
        self.steps.append(name)
        step()
        self.steps[-1] += f" [{','.join(self.lake().hoodie_table.config.metadata_partitions)}]"
        self._check()

    # What either engine does

    def _hudis(self) -> Iterator[tuple[str, Callable[[], object]]]:
        yield "Hudi: upsert", lambda: self._by_data_source("upsert", self._changes())
        yield "Hudi: insert", lambda: self._by_data_source("insert", self._new(3))
        yield "Hudi: delete", lambda: self._by_data_source("delete", self._some(2))
        yield "Hudi: merge", self._merge
        yield "Hudi: update", self._update
        yield "Hudi: delete from", self._delete_from
        yield "Hudi: clustering", lambda: self._call("run_clustering")
        yield "Hudi: clean", lambda: self._call("run_clean", "retain_commits => 1")
        if self.table.kind == "mor":
            yield "Hudi: compaction", self._compact
        unused = [name for name in COLUMNS if name not in self.columns]
        if unused and not pa.types.is_nested(COLUMNS[unused[0]][0]):
            yield "Hudi: add a column", partial(self._add, unused[0])

    def _ours(self) -> Iterator[tuple[str, Callable[[], object]]]:
        yield "we: upsert", lambda: self._write("upsert", self._changes())
        yield "we: insert", lambda: self._write("insert", self._new(3))
        yield "we: delete", lambda: self._write("delete", self._some(2))
        yield "we: overwrite", lambda: self._write("insert_overwrite", self._new(3))
        for service in ("clustering", "cleaning", "archival"):
            yield f"we: {service}", partial(self._run, service)
        if self.table.kind == "mor":
            yield "we: compaction", partial(self._run, "compaction")
        if self._saved is None:
            yield "we: savepoint", self._save
        else:
            yield "we: restore", self._restore
        yield "we: drop and create an index", self._remake
        for version in (6, 8, 9):
            if version != self.table.version:
                yield f"we: version {version} and back", partial(self._change, version)

    def _create(self) -> None:
        rows = self._new(14)
        if self.table.is_sql:
            self._create_by_sql(rows)
        else:
            self._by_data_source("insert", rows)
            self._sql(f"create table {self.name} using hudi location '{self.uri}'")
        if self.table.zone != "UTC":
            table = self.lake().hoodie_table
            with table.lock().acquire(timeout_s=10):
                table.properties.update({TIMEZONE: self.table.zone})
        if self.table.has_secondary:
            self._sql(f"create index byvalue on {self.name} (s)")

    def _create_by_sql(self, rows: list[Row]) -> None:
        view = self._view(rows)
        partitioned = "partitioned by (p)" if self.table.partition is not None else ""
        self._sql(
            f"create table {self.name} using hudi {partitioned} tblproperties (type = "
            f"'{self.table.kind}', primaryKey = 'id', preCombineField = 'ts', "
            f"'hoodie.datasource.write.hive_style_partitioning' = "
            f"'{str(self.table.hive_style).lower()}') location '{self.uri}' "
            f"as select * from {view}"
        )

    def _by_data_source(self, operation: str, rows: list[Row]) -> None:
        part = "" if self.table.partition is None else "p"
        kind = "Nonpartitioned" if not part else "Simple"
        options = {
            "hoodie.table.name": self.name,
            f"{_WRITE}table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[
                self.table.kind
            ],
            f"{_WRITE}recordkey.field": "id",
            f"{_WRITE}partitionpath.field": part,
            f"{_WRITE}precombine.field": "ts",
            f"{_WRITE}hive_style_partitioning": str(self.table.hive_style).lower(),
            f"{_WRITE}keygenerator.class": f"org.apache.hudi.keygen.{kind}KeyGenerator",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **self.table.settings(),
        }
        if self.table.is_sql:
            del options[f"{_WRITE}keygenerator.class"]
        self.peer.write(self.uri, self._arrow(rows), operation=operation, options=options)

    def _merge(self) -> None:
        view = self._view(self._changes())
        on = "t.id = s.id" + ("" if self.table.partition is None else " and t.p = s.p")
        self._sql(
            f"merge into {self.name} t using {view} s on {on} "
            "when matched then update set * when not matched then insert *"
        )

    def _update(self) -> None:
        name = self.chance.choice([n for n in self.columns if n not in ("n", "l")])
        value = self.chance.choice(COLUMNS[name][1])
        text = "null" if value is None else literal(value)
        kind = self._spark_type(name)
        where = next(conditions(self.chance, [], self.columns))
        self._sql(f"update {self.name} set {name} = cast({text} as {kind}) where {where}")

    def _delete_from(self) -> None:
        rows = self._some(2)
        keys = ", ".join(literal(row["id"]) for row in rows)
        self._sql(f"delete from {self.name} where id in ({keys})")

    def _compact(self) -> None:
        self._call("run_compaction", "op => 'schedule'")
        self._call("run_compaction", "op => 'run'")

    def _call(self, procedure: str, more: str = "") -> None:
        self._sql(f"call {procedure}(table => '{self.name}'{', ' if more else ''}{more})")

    def _add(self, name: str) -> None:
        self._sql(f"alter table {self.name} add columns ({name} {self._spark_type(name)})")
        self.columns.append(name)

    def _write(self, operation: str, rows: list[Row]) -> None:
        self.lake().write(self._arrow(rows), operation, options={**_SMALL_FILES, **_OFTEN})

    def _run(self, service: str) -> None:
        self.lake().run(service, options=_DUE)

    def _save(self) -> None:
        self._saved = (self.lake().savepoint().instant, list(self.columns))

    def _restore(self) -> None:
        instant, columns = self._saved
        if columns != self.columns:
            return
        self.lake().restore(instant)

    def _remake(self) -> None:
        indexes = self.lake().indexes({})
        name = self.chance.choice([index.name for index in indexes.list() if index.name != "files"])
        for dropped in sorted(indexes.drop(name), key=lambda other: other != name):
            if not (self.table.record_index == "partitioned" and dropped == "record_index"):
                self.lake().indexes({}).create(dropped)

    def _change(self, version: int) -> None:
        self.lake().change_version(version)
        self._name_again()
        self._check()
        self.lake().change_version(self.table.version)
        self._name_again()

    def _name_again(self) -> None:
        """Another name in Hudi's catalog, which keeps where the timeline is."""
        self.name = f"indexed{self.seed}_{next(_NUMBERS)}"
        self._sql(f"create table {self.name} using hudi location '{self.uri}'")

    # Rows

    def _new(self, count: int) -> list[Row]:
        chosen = (self.chance.choice(KEYS) for _ in range(count))
        return [self._valued({"id": f"{start}{self._tick()}"}, moves=True) for start in chosen]

    def _some(self, count: int) -> list[Row]:
        """Rows that are stored now."""
        stored = self.lake().to_arrow().select(self._arrow([]).column_names).to_pylist()
        return self.chance.sample(stored, min(count, len(stored)))

    def _changes(self) -> list[Row]:
        changed = [self._valued(row, moves=self.chance.random() < 0.2) for row in self._some(4)]
        return [*changed, *self._new(2)]

    def _valued(self, row: Row, *, moves: bool) -> Row:
        values: Row = {name: self.chance.choice(COLUMNS[name][1]) for name in self.columns}
        if self.table.partition is not None and moves:
            values["p"] = self.chance.choice(PARTITIONS[self.table.partition][1])
        return {**row, **values, "ts": self._tick()}

    def _arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self.table.schema(self.columns))

    def _view(self, rows: list[Row]) -> str:
        name = f"v{self.name}_{self._tick()}"
        path = self.folder / f"{name}.parquet"
        pq.write_table(self._arrow(rows), path)
        self._sql(f"create temporary view {name} using parquet options (path '{path}')")
        return name

    def _spark_type(self, name: str) -> str:
        kind = COLUMNS[name][0]
        named = {
            pa.int64(): "bigint",
            pa.int32(): "int",
            pa.bool_(): "boolean",
            pa.date32(): "date",
        }
        named |= {pa.float64(): "double", pa.float32(): "float", pa.binary(): "binary"}
        if pa.types.is_timestamp(kind):
            return "timestamp"
        if pa.types.is_decimal(kind):
            return f"decimal({kind.precision},{kind.scale})"
        return named.get(kind, "string")

    def _tick(self) -> int:
        self._ts += 1
        return self._ts

    def _sql(self, statement: str) -> None:
        self.peer.run_statement(statement)

    # What they see

    def _check(self) -> None:
        self._sql(f"refresh table {self.name}")
        stored = self.lake().to_arrow(columns=["id"]).to_pylist()
        added = self.columns[len(self.table.columns) :]
        choices = conditions(self.chance, stored, self.table.columns, added)
        asked = list(dict.fromkeys(itertools.islice(choices, 18)))
        expected = dict(self._without_indexes(asked))
        ids = sorted(row["id"] for row in stored)
        assert expected.pop("true") == ids, "our reader and Hudi's see other rows"
        union = " union all ".join(
            f"select {n} as q, id from {self.name} where {where}" for n, where in enumerate(asked)
        )
        found: dict[str, list[str]] = {where: [] for where in asked}
        for row in self.peer.sql(union).to_pylist():
            found[asked[row["q"]]].append(row["id"])
        wrong = [
            f"Hudi, by its indexes, where {where}: {_difference(sorted(ids), expected[where])}"
            for where, ids in found.items()
            if sorted(ids) != expected[where]
        ]
        for where in asked:
            try:
                answer = self.lake().scan(columns=["id"], where=where).read_all()
            except TidelineError:
                continue
            ours = sorted(answer["id"].to_pylist())
            if ours != expected[where]:
                wrong.append(f"our scan, where {where}: {_difference(ours, expected[where])}")
        table = self.lake().hoodie_table
        errors = [f for f in self.lake().check(keys=True) if f.severity is Severity.ERROR]
        lacking = [f"of {name}: Hudi's queries may lose rows" for name in added]
        said = [*map(str, errors), *stale_listing(table)]
        # Hudi lists a column that it adds, which older files have no row of.
        wrong += [text for text in said if not any(known in text for known in lacking)]
        assert not wrong, "\n".join(wrong)

    def _without_indexes(self, asked: Sequence[str]) -> Mapping[str, list[str]]:
        """The ids of the rows that each condition finds when every row is looked at."""
        named = ", ".join(f"({where}) as q{n}" for n, where in enumerate(asked))
        with self.peer.settings(dict.fromkeys(SKIPPING, "false")):
            rows = self.peer.sql(f"select id, {named} from {self.name}").to_pylist()
        found = {
            where: sorted(row["id"] for row in rows if row[f"q{n}"])
            for n, where in enumerate(asked)
        }
        return {**found, "true": sorted(row["id"] for row in rows)}


def _flag(chosen: str, name: str) -> str:
    return str(chosen == name).lower()


def _difference(found: Sequence[str], expected: Sequence[str]) -> str:
    missing = [key for key in expected if key not in found]
    other = [key for key in found if key not in expected]
    return f"{len(found)} for {len(expected)}; missing {missing[:4]}; not expected {other[:4]}"
