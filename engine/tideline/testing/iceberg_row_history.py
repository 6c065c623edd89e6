"""Random histories of writes to an Iceberg table, with the rows that it must have after each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

import tideline
from tideline.clock import SystemClock
from tideline.iceberg.write.write_request import IcebergWrite, UpsertRules
from tideline.iceberg_writing import write_iceberg

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("note", pa.string()),
    ]
)
PLACEMENTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"partition_by": "part"},
    {"partition_by": "bucket(4, id)"},
    {"partition_by": "truncate(10, id), part", "sort_by": "n DESC"},
)
_KEYS = 60
Row: TypeAlias = dict[str, Any]


class RowHistory:
    """A table and the rows it must have, by key. Each step checks what the write reports."""

    def __init__(self, uri: str, *, version: int, mode: str, placement: int, seed: str) -> None:
        """A new table in which rows go by `mode`."""
        self.chance = random.Random(seed)
        granularity = self.chance.choice(["file", "partition"])
        modes = {f"write.{kind}.mode": mode for kind in ("delete", "merge", "update")}
        self.table = tideline.create_iceberg(
            uri,
            COLUMNS,
            key="id",
            format_version=version,
            properties={**modes, "write.delete.granularity": granularity},
            **PLACEMENTS[placement],
        )
        self.rows: dict[int, Row] = {}

    def row(self, number: int) -> Row:
        """A row of this key."""
        chance = self.chance
        part = chance.choice(["a", "b", "c", None])
        return {
            "id": number,
            "part": part,
            "n": chance.randrange(100),
            "note": f"{chance.random()}",
        }

    def some(self) -> list[Row]:
        numbers = self.chance.sample(range(_KEYS), self.chance.randrange(1, 15))
        return [self.row(number) for number in numbers]

    def append(self) -> None:
        given = [row for row in self.some() if row["id"] not in self.rows]
        report = self.table.write(given)
        assert report.rows_inserted == len(given)
        self.rows |= {row["id"]: row for row in given}

    def upsert(self) -> None:
        given = self.some()
        twice = [self.row(given[0]["id"])]
        report = self.table.write([*twice, *given], "upsert")
        updated = sum(row["id"] in self.rows for row in given)
        assert (report.rows_updated, report.rows_inserted) == (updated, len(given) - updated)
        self.rows |= {row["id"]: row for row in given}

    def merge(self) -> None:
        """Rows decided by `n`; some take rows out."""
        given = [
            {**row, "gone": self.chance.random() < 0.3} for row in [*self.some(), *self.some()]
        ]
        rules = UpsertRules(("n",), "gone")
        write = IcebergWrite.asked("upsert", rules=rules)
        before = dict(self.rows)
        last: dict[int, Row] = {}
        for row in given:
            known = last.get(row["id"])
            if known is None or row["n"] >= known["n"]:
                last[row["id"]] = row
        for number, row in last.items():
            stored = self.rows.get(number)
            if stored is None or row["n"] >= stored["n"]:
                self.rows.pop(number, None)
                if not row["gone"]:
                    self.rows[number] = {name: row[name] for name in COLUMNS.names}
        report = write_iceberg(self.table.table, given, write, SystemClock())
        came = {number for number, row in self.rows.items() if row != before.get(number)}
        assert report.rows_updated == len(came & set(before))
        assert report.rows_inserted == len(came - set(before))
        assert report.rows_deleted == len(set(before) - set(self.rows))

    def delete(self) -> None:
        given = [row["id"] for row in self.some()]
        report = self.table.write([{"id": number} for number in given], "delete")
        assert report.rows_deleted == len([number for number in given if number in self.rows])
        for number in given:
            self.rows.pop(number, None)

    def delete_where(self) -> None:
        bound = self.chance.randrange(100)
        conditions: list[tuple[str, Callable[[Row], bool]]] = [
            (f"n < {bound}", lambda row: row["n"] < bound),
            (f"part = 'a' and n > {bound}", lambda row: row["part"] == "a" and row["n"] > bound),
            ("part is null", lambda row: row["part"] is None),
            (f"id = {bound}", lambda row: row["id"] == bound),
        ]
        where, test = self.chance.choice(conditions)
        report = self.table.delete(where)
        gone = [number for number, row in self.rows.items() if test(row)]
        assert report.rows_deleted == len(gone)
        for number in gone:
            del self.rows[number]

    def overwrite(self) -> None:
        given = self.some()
        report = self.table.write(given, "overwrite")
        assert report.rows_deleted == len(self.rows)
        self.rows = {row["id"]: row for row in given}

    def overwrite_where(self) -> None:
        bound = self.chance.randrange(100)
        stay = {number: row for number, row in self.rows.items() if row["n"] < bound}
        given = [row for row in self.some() if row["id"] not in stay]
        self.table.write(given, "overwrite", where=f"n >= {bound}")
        self.rows = stay | {row["id"]: row for row in given}

    def overwrite_partitions(self) -> None:
        fields = self.placed_by()
        if fields not in ([], ["part"]):
            return
        given = self.some()
        parts = {row["part"] for row in given}
        stay = {
            number: row for number, row in self.rows.items() if fields and row["part"] not in parts
        }
        given = [row for row in given if row["id"] not in stay]
        if {row["part"] for row in given} == parts:
            self.table.write(given, "overwrite_partitions")
            self.rows = stay | {row["id"]: row for row in given}

    def placed_by(self) -> list[str]:
        """The fields of the current partition spec."""
        spec = self.table.metadata.spec(self.table.metadata.default_spec_id)
        return [field.name for field in spec.fields if field.transform.name != "void"]

    def evolve(self) -> None:
        fields = self.placed_by()
        with self.table.alter() as changes:
            if "part" in fields:
                changes.drop_partition_field("part")
            else:
                changes.add_partition_field("part")

    def optimize(self) -> None:
        self.table.rewrite(options={"rewrite-all": "true"})

    @property
    def steps(self) -> list[Callable[[], None]]:
        """What may happen next, the more often the more it is named."""
        usual = [self.append, self.upsert, self.merge, self.delete, self.delete_where]
        rare = [self.overwrite, self.overwrite_where, self.overwrite_partitions]
        return [*usual, *usual, *rare, self.evolve, self.optimize]

    def require(self, found: pa.Table) -> None:
        """The rows that a reader found are those of the model."""
        rows = found.select(COLUMNS.names).to_pylist()
        assert {row["id"]: row for row in rows} == self.rows
        assert len(rows) == len(self.rows)

    def step(self) -> None:
        """One step, and what the table has then."""
        self.chance.choice(self.steps)()
        self.require(self.table.to_arrow())
