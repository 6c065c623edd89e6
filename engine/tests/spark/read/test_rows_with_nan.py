"""Rows with NaN, for Spark the greatest number, are found in files that we wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tideline


@pytest.mark.spark
def test_a_native_read_finds_nan_by_comparisons(spark: SparkSession, tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "t"), record_key="id")
    x = [1.0, float("nan"), 2.0]
    nested = pa.array([{"x": number} for number in x])
    table.write(pa.table({"id": ["a", "b", "c"], "x": x, "st": nested}))
    frame = table.snapshot(spark)
    for column in ("x", "st.x"):
        for condition in (f"{column} > 1e300", f"{column} = double('NaN')", f"isnan({column})"):
            assert [row["id"] for row in frame.where(condition).collect()] == ["b"], condition
        assert {row["id"] for row in frame.where(f"{column} >= 2").collect()} == {"b", "c"}
