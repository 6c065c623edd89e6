"""Three people in a parquet file, and the operations of a table of theirs, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation, TableTarget, Work
from tideline.ingest.operation.result import OperationResult
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import ingest_of_files


def people_table(folder: Path) -> TableTarget:
    """The table below the folder."""
    return TableTarget("air/people", Location(f"file://{folder}/table"), ("id",))


def people_ingest(folder: Path, *, is_dry: bool = False) -> IngestRange:
    """What takes in the file, which lands now."""
    landing = folder / "landing"
    landing.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), landing / "first.parquet")
    location = Location(f"file://{landing}")
    arrived = list_arrived(StoreLocation.of(location.uri).open(), FileFormat.PARQUET).files
    files = ingest_of_files("people", location, FileFormat.PARQUET, arrived, generation=0)
    return replace(files, is_dry=is_dry)


def run_on_people(folder: Path, work: Work, **given: Any) -> OperationResult:
    """Carry work on the table out; `given` is for `execute_operation`."""
    operation = Operation("people-1", people_table(folder), work)
    return execute_operation(operation, session_factory=no_session, **given)


def no_session(_: object) -> NoReturn:
    """A session factory of work that needs none."""
    raise AssertionError("this needs no Spark")
