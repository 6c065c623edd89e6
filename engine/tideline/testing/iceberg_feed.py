"""Parquet files that land for an Iceberg table, and the ingests that take them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.iceberg_table import IcebergIngestTable
from tideline.ingest.locate import locate
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import ICEBERG, IngestRange, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.source import Limits, Nothing
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.file_ingests import ingest_of_files

_NOW_MS = 4_000_000_000_000


def new_target(**fields: Any) -> TableTarget:
    """A table in memory that nobody has made yet."""
    place = Location(f"memory://{uuid4().hex}/table")
    return TableTarget("feed", place, ("id",), format=ICEBERG, **fields)


@dataclass
class IcebergFeed:
    """A landing folder, a table, and the operations between them."""

    folder: Path
    target: TableTarget = field(default_factory=new_target)
    landed: int = 0

    def land(self, rows: Sequence[dict[str, Any]], name: str | None = None) -> str:
        """A file with these rows, later than all others."""
        self.landed += 1
        known = name or f"{self.landed:05d}.parquet"
        path = self.folder / "landing" / known
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        os.utime(path, (self.landed, self.landed))
        return known

    def plan(self, name: str = "landing", files_max: int = 100, **work: Any) -> Operation:
        """An ingest of what is next."""
        known = newest_of(self.checkpoints(), name, work.get("former_name", ""))
        place = Location(locate(Location(str(self.folder / "landing"))).uri)
        listing = list_arrived(locate(place).open(), FileFormat.PARQUET)
        position = None if known is None else known.position
        planned = listing.at_once().plan(position, Limits(files_max, _NOW_MS))
        given = {
            "files": () if isinstance(planned, Nothing) else planned.files,
            "generation": known.generation if known else 0,
            "write_operation": "insert",
            **work,
        }
        taken = ingest_of_files(name, place, FileFormat.PARQUET, **given)
        return Operation(f"feed-ingest-{name}-{given['generation']}", self.target, taken)

    def execute(self, operation: Operation) -> OperationResult:
        """In this process."""
        handed_over = Operation.from_json_object(operation.to_json_object())
        return execute_operation(handed_over, session_factory=_no_session)

    def run(self, name: str = "landing", **work: Any) -> OperationResult:
        return self.execute(self.plan(name, **work))

    def opened(self) -> IcebergIngestTable:
        return IcebergIngestTable.open(Operation("feed", self.target, self._nothing()))

    def lake(self) -> IcebergLakeTable:
        found = self.opened().lake
        assert found is not None
        return found

    def checkpoints(self) -> dict[str, Checkpoint]:
        return self.opened().checkpoints(self._nothing())

    def ids(self) -> list[int]:
        """Of all rows; empty without a table."""
        found = self.opened().lake
        return [] if found is None else sorted(found.to_arrow(["id"])["id"].to_pylist())

    def elsewhere(self) -> IcebergFeed:
        """The same files for another table."""
        target = self.target
        fresh = new_target(partition_by=target.partition_by, ordering=target.ordering)
        return replace(self, target=fresh)

    def _nothing(self) -> IngestRange:
        place = Location(str(self.folder / "landing"))
        return ingest_of_files("landing", place, FileFormat.PARQUET, files=(), generation=0)


@contextmanager
def tables_through(wrapped: Callable[[ObjectStore], ObjectStore]) -> Iterator[None]:
    """The stores in memory, where tables are, as `wrapped` gives them: one for each place."""
    plain, known = StoreLocation.open, dict[str, ObjectStore]()

    def opened(place: StoreLocation) -> ObjectStore:
        if not place.uri.startswith("memory:"):
            return plain(place)
        if place.uri not in known:
            known[place.uri] = wrapped(plain(place))
        return known[place.uri]

    with patch.object(StoreLocation, "open", opened):
        yield


def _no_session(_: object) -> Any:
    raise AssertionError("rows of parquet files are taken in without Spark")
