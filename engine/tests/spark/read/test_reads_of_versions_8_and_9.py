"""Tables of versions 8 and 9 read on Spark, as others read them; ranges go by completion."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tideline.hudi.open_table import open_table
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.lake_table import LakeTable
from tideline.spark.read.frames import incremental, snapshot
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import canonical_rows, expected, fixture_table, tables_of_versions

pytestmark = [pytest.mark.spark, pytest.mark.fixtures]

# Without a metadata table: all that a reader without one has.
PLAIN = (
    "hudi-rs.cow.v8_complexkeygen_hivestyle/data/v8_complexkeygen_hivestyle",
    "hudi-rs.cow.v8_simplekeygen_nonhivestyle_overwritetable/"
    "data/v8_simplekeygen_nonhivestyle_overwritetable",
    "hudi-rs.cow.v9_txns_complex_nometa/data/v9_txns_complex_nometa",
    "hudi-rs.mor-avro.v9_txns_simple_nometa/data/v9_txns_simple_nometa",
    "hudi-rs.trips-mor-avro.v8_mor_boundary_windows/data/v8_mor_boundary_windows",
    "hudi-rs.trips-mor-avro.v9_mor_compacted_incremental/data/v9_mor_compacted_incremental",
    "hudi-upgrade.mor-tables.hudi-v9-table-mor/data/hudi-v9-table-mor",
)
BOOTSTRAPPED = "hudi-common.bootstrap_data/data/bootstrap_data"
IN_LANCE = [path for path in tables_of_versions("8", "9") if "lance" in path]
OTHERS = [
    path for path in tables_of_versions("8", "9") if path not in (*PLAIN, *IN_LANCE, BOOTSTRAPPED)
]
UPDATED = "hudi-rs.trips-mor-avro.v8_mor_boundary_windows/data/v8_mor_boundary_windows"


def assert_rows(spark: SparkSession, path: str) -> None:
    answer = expected(path)["expected"]
    rows = LakeTable.open(str(fixture_table(path))).snapshot(spark).toArrow()
    assert rows.num_rows == answer["rows"]
    if answer["sha256_user_columns"]:
        _, lines = canonical_rows().rows(rows)
        assert canonical_rows().digest(lines) == answer["sha256_user_columns"]


@pytest.mark.parametrize("path", PLAIN)
def test_a_snapshot_has_the_expected_rows(spark: SparkSession, path: str) -> None:
    assert_rows(spark, path)


@pytest.mark.slow
@pytest.mark.parametrize("path", OTHERS)
def test_a_snapshot_of_any_table_has_the_expected_rows(spark: SparkSession, path: str) -> None:
    assert_rows(spark, path)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("path", IN_LANCE)
def test_a_snapshot_of_a_table_in_lance_has_the_expected_rows(
    lance_on_spark: SparkSession, path: str
) -> None:
    assert_rows(lance_on_spark, path)


def test_an_earlier_instant_shows_the_rows_of_then(spark: SparkSession) -> None:
    table = open_table(StoreLocation.of(fixture_table(UPDATED)))
    commits = table.timeline().completed().instants
    counts = []
    for instant in commits:
        frame = snapshot(spark, table, instant.time)
        times = {row[0] for row in frame.select("_hoodie_commit_time").collect()}
        assert max(times) == str(instant.time)
        counts.append(len(times))
    assert counts == sorted(counts)
    assert len(counts) == 4


def test_an_incremental_read_goes_by_completion(spark: SparkSession) -> None:
    table = open_table(StoreLocation.of(fixture_table(UPDATED)))
    commits = table.timeline().of(*COMMIT_ACTIONS).completed().instants
    everything = {tuple(row) for row in snapshot(spark, table).collect()}
    assert {tuple(row) for row in incremental(spark, table, "0").collect()} == everything
    for instant in commits:
        assert instant.completed_at is not None
        later = {
            str(commit.time)
            for commit in commits
            if commit.completed_at is not None and commit.completed_at > instant.completed_at
        }
        rows = incremental(spark, table, instant.completed_at).collect()
        assert {tuple(row) for row in rows} == {row for row in everything if row[0] in later}
