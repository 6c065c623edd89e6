"""A table that tests write through the facade, on Spark or in this process, and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa
import pytest

from tideline.commit_report import CommitReport
from tideline.lake_table import LakeTable
from tideline.testing.plain_reader import leftovers, newest_commit, stored_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Bloom filters of the default size take most of the time of a tiny write.
SMALL_BLOOM = {
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.bloom.index.filter.dynamic.max.entries": "20",
}


class Engine(Enum):
    """What writes the rows: Spark's shuffles, this process, or Spark's tasks for rows that this
    process holds."""

    SPARK = "spark"
    IN_PROCESS = "in_process"
    PARTS = "parts"


@dataclass
class Chosen:
    """The engine of the test that runs."""

    engine: Engine = Engine.SPARK


CHOSEN = Chosen()
"""The one value; the fixture `either_engine` changes it for a test."""


@pytest.fixture(
    params=["spark", "in_process", pytest.param("parts", marks=pytest.mark.slow)],
)
def either_engine(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The test runs once on each engine: it writes what the test writes to a `WrittenTable`."""
    CHOSEN.engine = Engine(request.param)
    if CHOSEN.engine is Engine.PARTS:
        monkeypatch.setattr("tideline.spark.write.held_rows.runs_here", lambda _: False)
        monkeypatch.setattr("tideline.spark.write.part_tasks.DRIVER_BYTES_MAX", -1)
    yield
    CHOSEN.engine = Engine.SPARK


Rows: TypeAlias = "Iterable[Sequence[Any]] | pa.Table | DataFrame"


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table in a local folder. `schema` gives plain rows their types."""

    spark: SparkSession
    folder: Path
    schema: pa.Schema

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        folder: Path,
        schema: pa.Schema,
        *,
        properties: Mapping[str, str] | None = None,
        **definition: Any,
    ) -> WrittenTable:
        """A new table keyed by `id` by default; `definition` as in LakeTable.create."""
        settings: dict[str, Any] = {"record_key": ["id"], "schema": schema, **definition}
        LakeTable.create(str(folder), properties={**SMALL_BLOOM, **(properties or {})}, **settings)
        return cls(spark, folder, schema)

    @property
    def lake(self) -> LakeTable:
        """The table as a new reader opens it."""
        return LakeTable.open(str(self.folder))

    def frame(self, rows: Iterable[Sequence[Any]] | pa.Table) -> DataFrame:
        """Plain rows, in the order of the schema's columns, as a Spark frame."""
        if not isinstance(rows, pa.Table):
            named = [dict(zip(self.schema.names, row, strict=True)) for row in rows]
            rows = pa.Table.from_pylist(named, schema=self.schema)
        return self.spark.createDataFrame(rows)

    def write(
        self,
        rows: Rows,
        operation: str = "upsert",
        options: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> CommitReport:
        """One write. Nothing of an unfinished write may be left after it."""
        in_memory = CHOSEN.engine is Engine.IN_PROCESS
        given = self._in_memory(rows) if in_memory else self._on_spark(rows)
        if CHOSEN.engine is Engine.SPARK:
            options = {"tideline.engine.small": "spark", **(options or {})}
        report = self.lake.write(given, operation, options=options, **settings)
        assert leftovers(self.folder) == []
        return report

    def _on_spark(self, rows: Rows) -> DataFrame:
        is_frame = hasattr(rows, "sparkSession")
        return cast("DataFrame", rows) if is_frame else self.frame(cast("pa.Table", rows))

    def _in_memory(self, rows: Rows) -> pa.Table:
        return rows if isinstance(rows, pa.Table) else self._on_spark(rows).toArrow()

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The stored rows, sorted; all columns of the schema or those named."""
        names = columns or tuple(self.schema.names)
        found = [tuple(row[name] for name in names) for row in stored_rows(self.folder)]
        return sorted(found, key=lambda row: tuple(map(str, row)))

    def stats(self) -> list[dict[str, Any]]:
        """The write stats of the newest commit."""
        by_partition = newest_commit(self.folder)["partitionToWriteStats"]
        return [stat for stats in by_partition.values() for stat in stats]
