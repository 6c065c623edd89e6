"""A driver asked to stop in the middle of a write: a real process, a real Java, a real SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation, RollBack, TableTarget, Work
from tideline.ingest.operation.result import STOPPED, OperationResult, Outcome
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import ingest_of_files
from tideline.testing.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 400_000
PARTITIONS = 40
WAIT_S = 240.0
COLUMNS = (
    Column("id", ColumnType.parse("string")),
    Column("p", ColumnType.parse("string")),
    Column("text", ColumnType.parse("string")),
)


@dataclass(frozen=True, slots=True)
class Driver:
    """Runs operations on the table `folder/table` as a Job's pod does."""

    folder: Path
    engine: str = "in_process"

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def start(self, work: Work, *, grace_s: float = 120) -> subprocess.Popen[bytes]:
        location = Location(StoreLocation.of(self.table).uri)
        settings = {"tideline.engine.small": self.engine}
        target = TableTarget(
            "orders", location, ("id",), ("p",), schema=COLUMNS, write_properties=settings
        )
        file = self.folder / "operation.json"
        file.write_text(json.dumps(Operation("orders-1", target, work).to_json_object()))
        self.message.write_text("")
        environment = {
            **os.environ,
            "TIDELINE_TERMINATION_LOG": str(self.message),
            "TIDELINE_GRACE_S": str(grace_s),
        }
        command = [sys.executable, "-m", "tideline", "execute", "--operation", str(file)]
        return subprocess.Popen(command, env=environment)

    def run(self, work: Work) -> OperationResult:
        with self.start(work) as process:
            code = process.wait(WAIT_S)
        result = self.result()
        assert code == result.exit_code
        return result

    def stop_mid_write(self, process: subprocess.Popen[bytes]) -> int:
        """Send SIGTERM once a data file is there; the exit code."""
        deadline = time.monotonic() + WAIT_S
        while not self.data_files():
            assert process.poll() is None, "it ended before it wrote a file"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        return process.wait(WAIT_S)

    @property
    def message(self) -> Path:
        return self.folder / "termination-log"

    def result(self) -> OperationResult:
        content: Any = json.loads(self.message.read_text())
        return OperationResult.from_json_object(content)

    def data_files(self) -> list[Path]:
        return [path for path in self.table.glob("*/*.parquet") if ".hoodie" not in path.parts]


@pytest.fixture(params=["in_process", "spark"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    return Driver(tmp_path, request.param)


def landed(folder: Path) -> IngestRange:
    """A batch that takes some seconds to write, in many files."""
    landing = folder / "landing"
    landing.mkdir()
    rows = {
        "id": [f"id-{number}" for number in range(ROWS)],
        "p": [f"p{number % PARTITIONS}" for number in range(ROWS)],
        "text": [os.urandom(30).hex() for _ in range(ROWS)],
    }
    pq.write_table(pa.table(rows), landing / "1.parquet")
    files = list_arrived(StoreLocation.of(landing).open(), FileFormat.PARQUET).files
    place = Location(StoreLocation.of(landing).uri)
    return ingest_of_files("landing", place, FileFormat.PARQUET, files, generation=0)


def test_a_write_that_is_asked_to_stop_is_undone_and_may_be_run_again(driver: Driver) -> None:
    ingest = landed(driver.folder)
    with driver.start(ingest) as process:
        code = driver.stop_mid_write(process)
    result = driver.result()
    assert (code, result.outcome, result.error) == (143, Outcome.FAILED, STOPPED)
    assert result.is_safe_to_retry
    assert not LakeTable.open(str(driver.table)).timeline().pending()
    again = driver.run(ingest)
    assert (again.outcome, again.rows_inserted) == (Outcome.SUCCEEDED, ROWS)
    assert not LakeTable.open(str(driver.table)).check()


def test_a_write_that_runs_out_of_time_leaves_what_rollback_recognises(driver: Driver) -> None:
    ingest = landed(driver.folder)
    with driver.start(ingest, grace_s=0.02) as process:
        code = driver.stop_mid_write(process)
    result = driver.result()
    assert (code, result.exit_code, result.error) == (143, 143, STOPPED)
    pending = [str(instant.time) for instant in LakeTable.open(str(driver.table)).timeline()
               if not instant.is_completed]  # fmt: skip
    if pending:
        rolled_back = driver.run(RollBack(tuple(pending)))
        assert rolled_back.outcome is Outcome.SUCCEEDED
    assert driver.run(ingest).rows_inserted == ROWS
    assert not LakeTable.open(str(driver.table)).check()


def test_a_driver_that_is_asked_to_stop_while_java_starts_ends_at_once(tmp_path: Path) -> None:
    driver = Driver(tmp_path, "spark")
    with driver.start(landed(driver.folder)) as process:
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
    assert code == 143
    assert driver.result().error == STOPPED
    assert not driver.data_files()
