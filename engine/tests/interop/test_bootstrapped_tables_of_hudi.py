"""Tables that Hudi bootstrapped of files that were there already, read as Hudi reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.check_finding import Severity
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.table.file_group import METADATA_BOOTSTRAP
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.storage.named_places import SETTING as EXTRA_LOCATIONS
from tideline.testing.hudi_peer import HudiPeer, metadata_table, version_options
from tideline.testing.table_audit import merged_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.spark]

FULL_BOOTSTRAP = InstantTime("00000000000002")
"""Of base files that Hudi wrote whole; those without rows of their own are a commit before."""
BOOTSTRAP = "org.apache.hudi.client.bootstrap.selector."
FIRST_DAY_ALONE = {
    "hoodie.bootstrap.mode.selector": f"{BOOTSTRAP}BootstrapRegexModeSelector",
    "hoodie.bootstrap.mode.selector.regex": "day=d1",
    "hoodie.bootstrap.mode.selector.regex.mode": "METADATA_ONLY",
    "hoodie.bootstrap.full.input.provider": (
        "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider"
    ),
}
"""Of the other day rows are written again."""
ALL_OF_IT = {"hoodie.bootstrap.mode.selector": f"{BOOTSTRAP}MetadataOnlyBootstrapModeSelector"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("n", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("inner", pa.struct([("a", pa.int64()), ("Deep", pa.string())])),
        ("day", pa.string()),
    ]
)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The source files of a bootstrapped table are outside of it."""
    monkeypatch.setenv(EXTRA_LOCATIONS, f"file://{tmp_path}")


def rows(day: str, n: int, *keys: str) -> pa.Table:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    values = [
        {"id": key, "ts": n, "n": n + i, "at": noon, "inner": {"a": i, "Deep": key}, "day": day}
        for i, key in enumerate(keys)
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)


def write_sources(folder: Path) -> None:
    """Two files of five rows in each of two days, in small row groups, without the day."""
    for day in ("d1", "d2"):
        (folder / f"day={day}").mkdir(parents=True)
        for part in range(2):
            made = rows(day, 1, *(f"{day}-{part}-{i}" for i in range(5))).drop(["day"])
            pq.write_table(made, folder / f"day={day}" / f"part-{part}.parquet", row_group_size=2)


def bootstrap(
    peer: HudiPeer, folder: Path, table_type: str, version: int, selected: dict[str, str]
) -> Path:
    """The table next to its sources, with an update, an insert and a delete on top of them."""
    write_sources(folder / "sources")
    path = folder / "table"
    options = {
        "hoodie.table.name": "boot",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.index.type": "SIMPLE",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.compact.inline": "false",
        "hoodie.metadata.index.column.stats.enable": "false",
        **version_options(version),
        **metadata_table(version),
    }
    made_of = {
        "hoodie.bootstrap.base.path": str(folder / "sources"),
        "hoodie.bootstrap.keygen.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        **selected,
    }
    peer.write(
        str(path), rows("d1", 1), operation="bootstrap", options=options | made_of, mode="overwrite"
    )
    for operation, changed in (
        ("upsert", rows("d1", 100, "d1-0-1", "new")),
        ("upsert", rows("d2", 100, "d2-1-0")),
        ("delete", rows("d1", 100, "d1-0-2")),
    ):
        peer.write(str(path), changed, operation=operation, options=options)
    return path


def by_key(table: pa.Table) -> list[dict[str, Any]]:
    names = ["_hoodie_commit_time", "_hoodie_record_key", *SCHEMA.names]
    found = table.select(names).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


@pytest.mark.parametrize(
    ("table_type", "version", "selected"),
    [
        ("COPY_ON_WRITE", 6, ALL_OF_IT),
        ("MERGE_ON_READ", 6, FIRST_DAY_ALONE),
        ("COPY_ON_WRITE", 9, FIRST_DAY_ALONE),
        ("MERGE_ON_READ", 9, ALL_OF_IT),
    ],
)
def test_the_rows_are_those_that_hudi_reads(
    spark: SparkSession,
    tmp_path: Path,
    hudi_peer: HudiPeer,
    table_type: str,
    version: int,
    selected: dict[str, str],
) -> None:
    path = bootstrap(hudi_peer, tmp_path, table_type, version, selected)
    assert list(path.rglob(f"*_{METADATA_BOOTSTRAP}.parquet"))
    wanted = by_key(hudi_peer.read(str(path)))
    assert len(wanted) == 20
    lake = LakeTable.open(str(path))
    assert by_key(merged_rows(lake.hoodie_table)) == wanted
    frame = lake.snapshot(spark)
    assert by_key(frame.toArrow()) == wanted
    assert frame.where("day = 'd2'").count() == sum(row["day"] == "d2" for row in wanted)
    begun = lake.timeline().completed().up_to(FULL_BOOTSTRAP)
    after = max(instant.completed_at or instant.time for instant in begun)
    changed = by_key(lake.incremental(spark, after).toArrow())
    assert {row["id"] for row in changed} == {"d1-0-1", "new", "d2-1-0"}
    assert [
        finding for finding in lake.check(keys=True) if finding.severity is Severity.ERROR
    ] == []
    with pytest.raises(UnsupportedTableError, match="bootstrapped tables are read, not changed"):
        lake.run("cleaning")
    moved_together(tmp_path, path, wanted)
    changed_sources(path)


def moved_together(folder: Path, path: Path, wanted: list[dict[str, Any]]) -> None:
    """The sources are found below the table, and named where they are nowhere."""
    (folder / "sources").rename(folder / "away")
    with pytest.raises(CorruptTableError, match=r"source of a bootstrapped file is missing"):
        merged_rows(LakeTable.open(str(path)).hoodie_table)
    (folder / "away").rename(path / "sources")
    assert by_key(merged_rows(LakeTable.open(str(path)).hoodie_table)) == wanted


def changed_sources(path: Path) -> None:
    """A source that is another file now would give its rows to the keys of others."""
    file = path / "sources" / "day=d1" / "part-1.parquet"
    pq.write_table(rows("d1", 1, "x"), file)
    with pytest.raises(CorruptTableError, match=r"bytes, and had .*part-1\.parquet"):
        merged_rows(LakeTable.open(str(path)).hoodie_table)
