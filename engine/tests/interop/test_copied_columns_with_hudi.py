"""Base files that a merge put together from pages of others: all engines find the same in them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import shake_256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.interop_rows import typed_rows

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROWS = 3_000
BODY_BYTES = 1_000
SMALL_ROW_GROUPS = {"hoodie.parquet.block.size": "3000000"}
PLAIN = {
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.compression.codec": "snappy",
    **SMALL_ROW_GROUPS,
}
UPDATED = ("count", "ts")
NAME = "copied"
_GENERATOR = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
KEYS = {
    "hoodie.table.name": NAME,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": _GENERATOR,
}


def rows(numbers: range | list[int], version: int) -> pa.Table:
    """Of every type, most of their bytes in one column; keys are in the order of numbers."""
    found = typed_rows(numbers, version=version)
    keys = pa.array([f"k{number:06d}" for number in numbers])
    bodies = [shake_256(str(number).encode()).hexdigest(BODY_BYTES) for number in numbers]
    return found.set_column(0, "id", keys).append_column("body", pa.array(bodies))


def updated(stored: pa.Table, numbers: list[int], version: int) -> pa.Table:
    """`stored` in the order of keys, some columns of some rows of another version."""
    incoming = rows(numbers, version)
    positions = dict(zip(numbers, range(len(numbers)), strict=True))
    taken = pa.array([positions.get(number) for number in range(ROWS)], pa.int64())
    for name in UPDATED:
        column = pc.if_else(taken.is_valid(), incoming[name].take(taken), stored[name])
        stored = stored.set_column(stored.schema.get_field_index(name), name, column)
    return stored


def differences(found: pa.Table, expected: pa.Table, columns: list[str]) -> list[str]:
    """The first rows that are others than expected."""
    assert found.num_rows == expected.num_rows
    both = [table.select(columns).sort_by("id").to_pylist() for table in (found, expected)]
    pairs = zip(*both, strict=True)
    return [f"{item} not {other}" for item, other in pairs if repr(item) != repr(other)][:2]


def base_files(uri: str) -> list[Path]:
    table = LakeTable.open(uri).hoodie_table
    return [Path(uri) / file.path for file in table.files.base_files()]


def codecs(metadata: pq.FileMetaData) -> set[str]:
    """Those of a file's first row group."""
    group = metadata.row_group(0)
    return {group.column(number).compression for number in range(group.num_columns)}


def newest(uri: str) -> Path:
    return max(base_files(uri), key=lambda path: path.name.rsplit("_", 1)[1])


def write(uri: str, source: pa.Table, **options: str) -> None:
    LakeTable.open(uri).write(source, "upsert", options={**PLAIN, **options})


def check(
    uri: str,
    expected: pa.Table,
    engines: tuple[SparkSession, HudiPeer, IcebergPeer],
    filters: Mapping[str, pc.Expression],
) -> None:
    """All engines read these rows, and with filters the rows that meet them."""
    spark, hudi, other = engines
    # Hudi's Java keeps maps in an order of its own.
    columns = [item.name for item in expected.schema if not pa.types.is_map(item.type)]
    file = newest(uri)
    flat = [item.name for item in expected.schema if not pa.types.is_nested(item.type)]
    assert not differences(LakeTable.open(uri).to_arrow(), expected, columns)
    assert not differences(pq.read_table(file), expected, columns)
    assert not differences(hudi.read(uri), expected, flat)
    assert not differences(hudi.read_with_hudi_rs(uri), expected, flat)
    assert not differences(other.duckdb_read_file(file), expected, flat)
    assert spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"
    frame = LakeTable.open(uri).snapshot(spark)
    assert not differences(frame.toArrow(), expected, flat)
    for condition, expression in filters.items():
        ids = sorted(expected.filter(expression)["id"].to_pylist())
        assert 0 < len(ids) < ROWS
        assert sorted(frame.where(condition).toArrow()["id"].to_pylist()) == ids
        found = hudi.sql(f"select id from t where {condition}", {"t": uri})
        assert sorted(found["id"].to_pylist()) == ids
        assert sorted(other.duckdb_read_file(file, condition)["id"].to_pylist()) == ids


FILTERS = {
    "id between 'k000990' and 'k001020'": (pc.field("id") >= "k000990")
    & (pc.field("id") <= "k001020"),
    "count = -37040": pc.field("count") == -37040,
    "ts = 3000": pc.field("ts") == 3000,
    "score > 15800": pc.field("score") > 15800,
}


@pytest.mark.parametrize("creator", ["tideline", pytest.param("hudi", marks=pytest.mark.slow)])
def test_every_engine_reads_what_was_copied_and_hudi_goes_on(
    creator: str,
    tmp_path: Path,
    spark: SparkSession,
    hudi_peer: HudiPeer,
    iceberg_peer: IcebergPeer,
) -> None:
    uri = str(tmp_path / NAME)
    expected = rows(range(ROWS), 2)
    if creator == "tideline":
        LakeTable.create(uri, name=NAME, record_key="id", ordering="ts", schema=expected.schema)
        write(uri, expected)
    else:
        single = {"hoodie.bulkinsert.shuffle.parallelism": "1"}
        options = {**KEYS, **PLAIN, **single}
        hudi_peer.write(uri, expected, operation="bulk_insert", options=options)
    assert pq.read_metadata(newest(uri)).num_row_groups > 1
    numbers = [1000, 1001, 1003]
    some = {"tideline.write.partial.update.columns": ",".join(UPDATED)}
    write(uri, rows(numbers, 3), **some)
    expected = updated(expected, numbers, 3)
    copied = pq.read_metadata(newest(uri))
    assert copied.created_by.startswith("tideline version")
    if creator == "tideline":
        assert codecs(copied) == {"SNAPPY", "UNCOMPRESSED"}
    engines = (spark, hudi_peer, iceberg_peer)
    check(uri, expected, engines, FILTERS)
    # Hudi merges into the file, and its file is merged into again.
    hudi_peer.write(uri, rows([2500], 4), operation="upsert", options={**KEYS, **PLAIN})
    expected = pa.concat_tables([expected.slice(0, 2500), rows([2500], 4), expected.slice(2501)])
    write(uri, rows([20, 2500], 5), **some)
    expected = updated(expected, [20, 2500], 5)
    check(uri, expected, engines, {"ts = 5000": pc.field("ts") == 5000})
