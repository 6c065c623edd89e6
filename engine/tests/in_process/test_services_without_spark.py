"""Services that move rows need no Spark where their work is small."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, ConflictError, StorageUnavailableError
from tideline.hudi.services.registry import service_named
from tideline.hudi.services.runs import TableServices
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.in_process.service_size import MemoryBudget
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, RunService, TableTarget
from tideline.ingest.operation.result import Outcome
from tideline.settings.setting import SettingPlace

QUIET = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false",
         "hoodie.parquet.small.file.limit": "0"}  # fmt: skip
DUE = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.clustering.inline.max.commits": "1",
       "hoodie.log.compaction.blocks.threshold": "1"}  # fmt: skip
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "v,id"}
MERGE_MODE = "hoodie.record.merge.mode"
MERGE_MODES = ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
COMMAND_WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from tideline.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Lake:
    """A merge-on-read table with base files, logs and deletes in two partitions."""

    folder: Path

    @classmethod
    def create(
        cls, folder: Path, version: int = 9, properties: Mapping[str, str] | None = None
    ) -> Lake:
        table = tideline.create(
            str(folder), record_key="id", partition_by="region", ordering="ts",
            table_type="MERGE_ON_READ", table_version=version,
            properties={**QUIET, **(properties or {})},
        )  # fmt: skip
        table.write(batch(range(200), 1), "insert")
        table.write(batch(range(200, 400), 1), "insert")
        table.write(batch(range(100, 250), 2))
        table.write(batch(range(150, 160), 0))
        table.write(batch(range(20, 30), 3).select(["id", "region", "ts"]), "delete")
        return cls(folder)

    @property
    def table(self) -> tideline.LakeTable:
        return tideline.open(str(self.folder))

    def rows(self) -> list[dict[str, object]]:
        """Everything but the names of the files that hold them, which a service changes."""
        rows = self.table.to_arrow().drop_columns(["_hoodie_file_name"])
        found: list[dict[str, object]] = rows.sort_by("id").to_pylist()
        return found

    def log_files(self) -> int:
        hoodie = self.table.hoodie_table
        view = hoodie.files.view(hoodie.timeline())
        slices = [file_slice for part in view.partitions for file_slice in view.latest_slices(part)]
        return sum(len(file_slice.log_files) for file_slice in slices)

    def in_parts(self, threads: int, options: Mapping[str, str]) -> TableServices:
        """Services whose engine sorts next to nothing at once."""
        table = self.table
        given = table.writer.given({**DUE, **SORTED, **options}, SettingPlace.SERVICE)
        budget = MemoryBudget(part_bytes_max=5_000)
        engine = InProcessServiceEngine(table.hoodie_table, threads, budget)
        return TableServices(table.writer, given, engine)

    def command(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        options = [word for name in settings for word in ("--option", f"{name}={settings[name]}")]
        return subprocess.run(
            [sys.executable, "-c", COMMAND_WITHOUT_SPARK, *words, str(self.folder), *options],
            capture_output=True,
            text=True,
            check=False,
        )


def batch(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": list(numbers),
            "region": [f"r{number % 2}" for number in numbers],
            "ts": [version] * len(numbers),
            "v": [f"v{(number * 37) % 101}" if number % 7 else None for number in numbers],
            "w": [float(number) if (number + version) % 2 else None for number in numbers],
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "t")


@pytest.mark.parametrize("service", ["log_compaction", "compaction", "clustering"])
def test_a_command_runs_a_small_service_where_spark_is_not_installed(
    service: str, lake: Lake
) -> None:
    before = lake.rows()
    done = lake.command("execute", service, **DUE, **SORTED)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(service)
    assert lake.rows() == before
    assert (lake.log_files() == 0) is (service != "log_compaction")


def test_without_spark_a_large_service_says_what_to_install_and_keeps_its_plan(lake: Lake) -> None:
    before = lake.rows()
    done = lake.command("execute", "compaction", **DUE, **{"tideline.engine.small": "spark"})
    assert done.returncode == 2
    assert "this service needs pyspark, because tideline.engine.small is spark" in done.stderr
    assert "pip install 'tideline-lakehouse[spark]'" in done.stderr
    assert lake.rows() == before
    assert len(lake.table.timeline().pending()) == 1
    assert len(lake.table.run("compaction", options=DUE).done) == 1
    assert lake.rows() == before


@pytest.mark.parametrize(
    ("version", "properties"),
    [
        *[(version, {MERGE_MODE: mode}) for version in (6, 8, 9) for mode in MERGE_MODES],
        (9, {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}),
    ],
)
@pytest.mark.parametrize("service", ["log_compaction", "compaction", "clustering"])
def test_every_service_keeps_the_rows_of_every_version_and_merge_mode(
    version: int, properties: Mapping[str, str], service: str, tmp_path: Path
) -> None:
    lake = Lake.create(tmp_path / "t", version, properties)
    before = lake.rows()
    assert len(before) == 390
    run = lake.table.run(service, options={**DUE, **SORTED})
    assert len(run.done) == 1
    assert lake.rows() == before
    lake.table.write(batch(range(5), 9))
    assert [row["ts"] for row in lake.rows()[:6]] == [9] * 5 + [before[5]["ts"]]


@pytest.mark.parametrize("layout", ["LINEAR", "ZORDER", "HILBERT"])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_group_that_is_too_large_to_sort_is_sorted_in_parts(
    layout: str, threads: int, lake: Lake
) -> None:
    before = lake.rows()
    lake.in_parts(threads, {"hoodie.layout.optimize.strategy": layout}).run("clustering")
    assert lake.rows() == before
    if layout == "LINEAR":
        stored = lake.table.to_arrow(["region", "v", "id"]).to_pylist()
        keys = [(row["region"], row["v"] or "", row["id"]) for row in stored]
        assert keys == sorted(keys)


def test_every_batch_of_a_part_is_sorted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_ROWS_MAX", 64)
    before = lake.rows()
    lake.in_parts(2, {}).run("clustering")
    assert lake.rows() == before


def test_a_service_that_takes_too_long_is_given_up_and_keeps_its_plan(lake: Lake) -> None:
    before = lake.rows()
    with pytest.raises(ConflictError, match="did not finish within"):
        lake.table.run("compaction", options={**DUE, "tideline.service.timeout.seconds": "0.0001"})
    assert lake.rows() == before
    assert len(lake.table.run("compaction", options=DUE).done) == 1
    assert lake.rows() == before


def test_a_folder_for_temporary_files_that_fails_leaves_rows_and_plan(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    before = lake.rows()
    with pytest.raises(StorageUnavailableError, match="TMPDIR names another"):
        lake.in_parts(2, {}).run("clustering")
    assert lake.rows() == before
    assert len(lake.table.timeline().pending()) == 1


def test_a_plan_that_is_larger_than_this_process_takes_goes_to_spark(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tideline.spark.services.engine", None)
    monkeypatch.setattr("tideline.service_engine.memory_bytes", lambda: 100_000)
    with pytest.raises(ImportError, match=r"tideline\.spark\.services\.engine"):
        lake.table.run("compaction", options=DUE)


def test_an_operation_of_a_small_service_starts_no_session(lake: Lake) -> None:
    def no_session(_: object) -> NoReturn:
        raise AssertionError("small work asks for no Spark")

    target = TableTarget("t", Location(str(lake.folder)), ("id",))
    work = RunService(service_named("compaction"), "", DUE)
    done = execute_operation(Operation("x", target, work), session_factory=no_session)
    assert done.outcome is Outcome.SUCCEEDED, done.message
    assert done.rows_written == 390


def test_arrow_is_named_where_it_is_not_installed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = lake.table.services().context.engine
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith("tideline.in_process")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match="needs pyarrow, because it moves rows"):
        engine.compact_logs(None, ())  # type: ignore[arg-type]
