"""A published table stays a Hudi table: Hudi's Spark reads and writes it, and is caught up with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.hudi.table.table_config import ICEBERG, PUBLISH, PUBLISH_MERGE
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, metadata_table, version_options
from tideline.testing.iceberg_peer import metadata_file

pytestmark = pytest.mark.interop


def rows(keys: list[int], v: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{key}" for key in keys],
            "day": [f"2026-01-0{1 + key % 2}" for key in keys],
            "v": pa.array([v] * len(keys), pa.int64()),
        }
    )


def values(read: pa.Table) -> dict[str, int]:
    return {row["id"]: row["v"] for row in read.select(["id", "v"]).to_pylist()}


def by_pyiceberg(folder: Path) -> dict[str, int]:
    return values(StaticTable.from_metadata(metadata_file(str(folder))).scan().to_arrow())


@pytest.mark.slow_with("9-day-COPY_ON_WRITE", "9-day-MERGE_ON_READ")
@pytest.mark.parametrize(
    ("version", "partition_by", "table_type"),
    [
        (6, "day", "COPY_ON_WRITE"),
        (9, "day", "COPY_ON_WRITE"),
        (9, "", "COPY_ON_WRITE"),
        (6, "day", "MERGE_ON_READ"),
        (9, "day", "MERGE_ON_READ"),
    ],
)
def test_hudi_reads_and_writes_a_published_table(
    version: int, partition_by: str, table_type: str, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    folder = tmp_path / "t"
    table = LakeTable.create(
        str(folder),
        record_key="id",
        partition_by=partition_by,
        table_type=table_type,
        table_version=version,
        properties={PUBLISH: ICEBERG, PUBLISH_MERGE: "true", "hoodie.compact.inline": "false"},
    )
    table.write(rows([1, 2, 3], 1))
    assert values(hudi_peer.read(str(folder))) == {"k1": 1, "k2": 1, "k3": 1}
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": partition_by,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.compact.inline": "false",
        **version_options(version),
        **metadata_table(version),
    }
    hudi_peer.write(str(folder), rows([2, 4], 2), operation="upsert", options=options)
    wanted = {"k1": 1, "k2": 2, "k3": 1, "k4": 2}
    assert values(hudi_peer.read(str(folder))) == wanted
    assert by_pyiceberg(folder) == {"k1": 1, "k2": 1, "k3": 1}
    assert LakeTable.open(str(folder)).publish().is_new
    assert by_pyiceberg(folder) == wanted
    LakeTable.open(str(folder)).write(rows([1], 3))
    assert by_pyiceberg(folder) == values(hudi_peer.read(str(folder))) == wanted | {"k1": 3}
    assert LakeTable.open(str(folder)).check() == ()
    assert "metadata" not in LakeTable.open(str(folder)).hoodie_table.files.partitions()


@pytest.mark.slow_with("9-COPY_ON_WRITE")
@pytest.mark.parametrize(
    ("version", "table_type"),
    [(6, "COPY_ON_WRITE"), (9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")],
)
def test_what_hudi_archives_and_cleans_between_two_publications_is_caught_up_with(
    version: int, table_type: str, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    folder = tmp_path / "t"
    table = LakeTable.create(
        str(folder),
        record_key="id",
        partition_by="day",
        table_type=table_type,
        table_version=version,
        properties={PUBLISH: ICEBERG, PUBLISH_MERGE: "true"},
    )
    table.write(rows([1, 2], 1))
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.compact.inline": str(table_type == "MERGE_ON_READ").lower(),
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        **version_options(version),
        **metadata_table(version),
    }
    for v in range(2, 9):
        # The last commits leave one of the partitions alone.
        keys = [2, 2 * v] if v > 4 else [1, 2, v]
        hudi_peer.write(str(folder), rows(keys, v), operation="upsert", options=options)
    opened = LakeTable.open(str(folder))
    assert opened.hoodie_table.commits.archive().files()
    opened.publish()
    assert by_pyiceberg(folder) == values(hudi_peer.read(str(folder)))
