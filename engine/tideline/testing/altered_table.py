"""A table that Hudi makes and alters with its schema on read, and the rows it has to hold.

Hudi and Tideline write it by turns; both have to read the rows of the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPY_ON_WRITE, MERGE_ON_READ = "cow", "mor"
SETTINGS = {
    "hoodie.schema.on.read.enable": "true",
    # Without it Hudi refuses to rename or drop a column at the top.
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.spark.sql.insert.into.operation": "upsert",
    # Hudi cannot read nested fields whose names changed with the other one.
    "spark.sql.parquet.enableVectorizedReader": "false",
}
CLUSTERING_DUE = {"hoodie.clustering.inline.max.commits": "1"}
COMPACTION_DUE = {"hoodie.compact.inline.max.delta.commits": "1"}
Row = dict[str, Any]


@dataclass
class AlteredTable:
    """A table that Hudi makes and alters, and the rows it has to hold."""

    folder: Path
    spark: SparkSession
    peer: HudiPeer
    kind: str
    name: str
    has_metadata: bool = False
    model: dict[str, Row] = field(default_factory=dict)

    @property
    def lake(self) -> LakeTable:
        return LakeTable.open(str(self.folder))

    def sql(self, statement: str) -> None:
        self.peer.run_statement(f"set hoodie.metadata.enable={str(self.has_metadata).lower()}")
        self.peer.run_statement(statement.format(t=self.name))

    def create(self, columns: str) -> None:
        """Make the table, with Hudi, of these columns and a key, `id`, and an ordering, `ts`."""
        self.sql(
            f"create table {{t}} (id string, {columns}, ts bigint, region string) using hudi "
            f"tblproperties(type='{self.kind}', primaryKey='id', preCombineField='ts', "
            "'hoodie.write.table.version'='6') partitioned by (region) "
            f"location '{self.folder}'"
        )

    def reshape(self, change: Any) -> None:
        """Apply to the model what an ALTER does to every row."""
        self.model = {key: change(dict(row)) for key, row in self.model.items()}

    def upsert(self, *changed: Row) -> None:
        """Whole rows of the table's present columns, with Tideline."""
        for row in changed:
            self.model[row["id"]] = row
        self.write("upsert", self.rows(*changed))

    def write(self, operation: str, rows: pa.Table) -> None:
        """Write with Tideline; services run when they are asked to."""
        frame = self.spark.createDataFrame(rows)
        self.lake.write(frame, operation, options={"hoodie.compact.inline": "false"})

    def rows(self, *rows: Row) -> pa.Table:
        table = self.lake.hoodie_table
        schema = table.schemas.newest(table.timeline())
        assert schema is not None
        return pa.Table.from_pylist(list(rows), schema=schema)

    def check(self) -> None:
        """Both engines read the model's rows."""
        expected = [self.model[key] for key in sorted(self.model)]
        wrong = {
            reader: differences(found, expected)
            for reader, found in self.answers().items()
            if found != expected
        }
        assert not wrong, f"other rows than the model's, found and expected: {wrong}"

    def answers(self) -> dict[str, list[Row]]:
        """The rows of each reader."""
        from tideline.spark.read.data_source import register

        register(self.spark)
        loaded = self.spark.read.format("tideline").load(str(self.folder))
        options = {name: text for name, text in SETTINGS.items() if name.startswith("hoodie.sch")}
        return {
            "tideline": self.plain(self.lake.snapshot(self.spark).toArrow()),
            "tideline's data source": self.plain(loaded.toArrow()),
            "hudi": self.plain(self.peer.read(str(self.folder), options)),
        }

    def plain(self, rows: pa.Table) -> list[Row]:
        found = sorted(rows.to_pylist(), key=lambda row: str(row["id"]))
        return [
            {name: value for name, value in row.items() if not name.startswith("_hoodie")}
            for row in found
        ]

    def commits(self) -> list[dict[str, str]]:
        """The extra metadata of all commits, oldest first."""
        paths = sorted(self.folder.glob(".hoodie/*commit"))
        return [json.loads(path.read_text())["extraMetadata"] for path in paths]

    def cluster_or_compact(self) -> None:
        """Rewrite every file, with Tideline."""
        if self.kind == MERGE_ON_READ:
            assert self.lake.run("compaction", options=COMPACTION_DUE).done
        assert self.lake.run("clustering", options=CLUSTERING_DUE).done


def differences(found: list[Row], expected: list[Row]) -> list[Any]:
    """Where rows differ: key, column, found, expected; or the rows, where keys or columns do."""
    if [(row["id"], *row) for row in found] != [(row["id"], *row) for row in expected]:
        return [found, expected]
    return [
        (row["id"], name, value, wanted[name])
        for row, wanted in zip(found, expected, strict=True)
        for name, value in row.items()
        if value != wanted[name]
    ]


def renamed(row: Row, names: dict[str, str], **values: Any) -> Row:
    """The row as columns are in the table after the change."""
    changed = {names.get(name, name): value for name, value in row.items()}
    return changed | values


@pytest.fixture
def altering(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    """A Hudi whose session evolves schemas."""
    with hudi_peer.settings(SETTINGS, "hoodie.metadata.enable"):
        yield hudi_peer
