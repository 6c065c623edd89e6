"""Files that land for a table, and the ingests that take them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.locate import locate
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.source import Limits, Nothing
from tideline.lake_table import LakeTable
from tideline.testing.file_ingests import ingest_of_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = 4_000_000_000_000


@dataclass
class Feed:
    """A landing folder, a table, and the operations between them."""

    folder: Path
    spark: SparkSession
    target: TableTarget
    file_format: FileFormat = FileFormat.CSV

    @property
    def landing_folder(self) -> Path:
        return self.folder / "landing"

    @property
    def place(self) -> Location:
        location = locate(Location(str(self.landing_folder)))
        return Location(location.uri)

    def land(self, name: str, text: str, at_s: int) -> None:
        path = self.landing_folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (at_s, at_s))

    def land_parquet(self, name: str, columns: dict[str, list[Any]], at_s: int) -> None:
        path = self.landing_folder / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path)
        os.utime(path, (at_s, at_s))

    def rows_set_aside(self) -> list[dict[str, Any]]:
        """What is in the quarantine, row by row."""
        store = locate(self.place).open()
        files = [item.path for item in self.listing().rows_set_aside]
        return [json.loads(line) for path in files for line in store.get(path).splitlines()]

    def listing(self) -> FileListing:
        return list_arrived(locate(self.place).open(), self.file_format)

    def checkpoint(self, name: str = "landing") -> Checkpoint | None:
        return current_checkpoints(open_table(self.target), name).get(name)

    def plan(self, *, name: str = "landing", **work: Any) -> Operation:
        return Operation(f"feed-ingest-{name}", self.target, self.next_batch(name=name, **work))

    def next_batch(
        self, *, files_max: int = 100, name: str = "landing", **work: Any
    ) -> IngestRange:
        checkpoint = self.checkpoint(name)
        position = None if checkpoint is None else checkpoint.position
        planned = self.listing().at_once().plan(position, Limits(files_max, NOW_MS))
        files = () if isinstance(planned, Nothing) else planned.files
        generation = checkpoint.generation if checkpoint else 0
        given = {"files": files, "generation": generation, **work}
        return ingest_of_files(name, self.place, self.file_format, **given)

    def execute(self, operation: Operation) -> OperationResult:
        return execute_operation(operation, session_factory=lambda _: self.spark)

    def run(self, **plan: Any) -> OperationResult:
        return self.execute(self.plan(**plan))

    def table(self) -> LakeTable:
        table = open_table(self.target)
        assert table is not None
        return table

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        shown = columns or ("cast(id as long)", "v")  # undeclared keys are text
        frame = self.table().snapshot(self.spark).selectExpr(*shown)
        return sorted(tuple(row) for row in frame.collect())

    def commits(self) -> int:
        return len(self.table().timeline().completed())
