"""Files of a landing prefix, a table, and the ingests between them, without Spark where it can."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.column_type import Column
from tideline.ingest.execute.open_ingest_table import open_ingest_table
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.testing.stream_feed import StreamFeed, columns

SCHEMA = columns(id="long", ts="long", v="string")
_BEGIN_S = 1_700_000_000


@dataclass
class LandingFeed(StreamFeed):
    """Ingests, of that `name`, of files with the columns `landed`, with SQL of their own where that
    is given; `files_max` are one commit."""

    source: DeclaredFiles
    schema: tuple[Column, ...] = SCHEMA
    name: str = "landing"
    landed: tuple[Column, ...] = SCHEMA
    files_max: int = 2
    transform: str | None = None
    delete_when: str | None = None

    @classmethod
    def of(cls, folder: Path, *, name: str = "landing", **given: Any) -> Self:
        """Parquet files below a folder of that name, unless `declared` says else."""
        landing = folder / name
        landing.mkdir()
        declared = given.pop("declared", {})
        file_format = declared.pop("file_format", FileFormat.PARQUET)
        source = DeclaredFiles(Location(f"file://{landing}"), file_format, **declared)
        return cls(folder, source, name=name, **given)

    @property
    def landing(self) -> Path:
        return Path(self.source.landing.uri.removeprefix("file://"))

    @property
    def work(self) -> IngestRange:
        """The ingest, as one that takes nothing in."""
        return IngestRange(
            self.name,
            self.source,
            self.source.no_range(),
            0,
            self.operation,
            self.transform,
            self.delete_when,
            bad_rows_max=self.bad_rows_max,
        )

    @property
    def declared(self) -> Operation:
        return Operation(f"verify-{self.name}", self.target, self.work)

    def land(self, number: int, rows: Iterable[tuple[Any, ...]], *, at: int | None = None) -> Path:
        """A file of rows that arrived as that number, or `at` another one."""
        names = [item.name for item in self.landed]
        path = self.landing / f"{number:04d}.{self.source.file_format}"
        if self.source.file_format is FileFormat.PARQUET:
            found = [dict(zip(names, row, strict=True)) for row in rows]
            pq.write_table(pa.Table.from_pylist(found, arrow_schema(self.landed)), path)
        elif self.source.file_format is FileFormat.CSV:
            with path.open("w", newline="") as stream:
                csv.writer(stream).writerows([names, *rows])
        else:
            lines = (json.dumps(dict(zip(names, row, strict=False))) for row in rows)
            path.write_text("\n".join(lines))
        moment_s = _BEGIN_S + (number if at is None else at)
        os.utime(path, (moment_s, moment_s))
        return path

    def checkpoint(self) -> Checkpoint | None:
        return open_ingest_table(self.declared).checkpoints(self.work).get(self.name)

    def plan(self) -> Operation | Nothing | Lost:
        checkpoint = self.checkpoint()
        position = None if checkpoint is None else checkpoint.position
        look = self._look(checkpoint).at_once()
        found = look.plan(position, Limits(self.files_max, 0))
        is_left = self.source.settles and look.backlog(position, Limits(1, 0)).remembered
        if isinstance(found, Nothing) and is_left:
            found = self.source.no_range()
        if isinstance(found, Nothing):
            return found
        generation = 0 if checkpoint is None else checkpoint.generation
        work = replace(self.work, range=found, generation=generation)
        return Operation(f"{self.name}-ingest", self.target, work)
