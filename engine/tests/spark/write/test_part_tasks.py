"""Parts of a write that Spark's tasks do, for a batch that the driver holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import InvalidDataError
from tideline.hudi.write.work_parts import ThreadRunner
from tideline.lake_table import LakeTable
from tideline.spark.write.part_tasks import DRIVER_BYTES_MAX, SparkPartRunner
from tideline.storage.location import StoreLocation
from tideline.testing.numbered_part import NumberedPart
from tideline.testing.spark_stages import stages_begun

pytestmark = pytest.mark.spark


@pytest.fixture
def runner(spark: SparkSession, tmp_path: Path) -> SparkPartRunner:
    """Parts of a table in an empty folder."""
    location = StoreLocation.of(str(tmp_path))
    return SparkPartRunner(spark, location, ThreadRunner(location.open(), 2))


@pytest.mark.parametrize("size_bytes", [0, DRIVER_BYTES_MAX])
def test_answers_come_in_the_order_of_the_parts(
    spark: SparkSession, runner: SparkPartRunner, size_bytes: int
) -> None:
    before = stages_begun(spark)
    found = runner.run(NumberedPart, [size_bytes] * 5)
    assert found == [(number, "TaskNumbers") for number in range(5) for _ in range(2)]
    # Little work needs no job.
    assert (stages_begun(spark) > before) is (size_bytes > 0)
    assert runner.run(NumberedPart, []) == []


@pytest.mark.parametrize("size_bytes", [0, DRIVER_BYTES_MAX])
def test_what_a_part_raises_comes_back_as_it_was(runner: SparkPartRunner, size_bytes: int) -> None:
    with pytest.raises(InvalidDataError, match="bad luck") as caught:
        runner.run(NumberedPart, [size_bytes] * 20)
    assert caught.value.path == runner.location.uri


def test_a_task_is_given_the_rows_of_its_bucket_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.spark.write.held_rows.runs_here", lambda _: False)
    monkeypatch.setattr("tideline.spark.write.part_tasks.DRIVER_BYTES_MAX", -1)
    lake = LakeTable.create(str(tmp_path / "t"), record_key="id", partition_by="p")
    names = [f"{number:04}" for number in range(1_000)]
    rows = pa.table({"id": names, "p": [name[-1] for name in names], "v": [0] * 1_000})
    before = stages_begun(spark)
    report = lake.write(spark.createDataFrame(rows))
    assert (report.rows_inserted, report.files_written) == (1_000, 10)
    # One stage computes the frame, one writes; no keys are looked up in an empty table.
    assert stages_begun(spark) == before + 2
    (instant,) = lake.timeline()
    written = {path.name for path in (tmp_path / "t").glob("*/*.parquet")}
    tokens = {name.split("_")[1] for name in written}
    assert len(tokens) == 10
    assert all(str(instant.time) in name for name in written)
