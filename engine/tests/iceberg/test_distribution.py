"""Which rows tasks get together, by the table's layout, its properties and the kind of write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.iceberg.write.distribution import Distribution
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_settings import WriteSettings

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.string())])
PLACE, PARTITION, ORDER = Distribution
MODE, MERGE = "write.distribution-mode", "write.merge.distribution-mode"


@pytest.mark.parametrize(
    ("partition_by", "sort_by", "properties", "appended", "upserted"),
    [
        ("", "", {}, PLACE, PLACE),
        ("", "", {MODE: "range"}, PLACE, PLACE),
        ("", "id", {}, ORDER, ORDER),
        ("", "id", {MODE: "range"}, ORDER, ORDER),
        ("", "id", {MODE: "hash"}, PLACE, PLACE),
        ("", "id", {MODE: "None"}, PLACE, PLACE),
        ("", "id", {MERGE: "none"}, ORDER, PLACE),
        ("", "id", {MODE: "none", MERGE: "range"}, PLACE, ORDER),
        ("part", "", {}, PARTITION, PARTITION),
        ("part", "id", {MODE: "range"}, PARTITION, PARTITION),
        ("part", "id", {MERGE: "none"}, PARTITION, PLACE),
    ],
)
def test_it_is_as_the_table_says(
    tmp_path: Path,
    partition_by: str,
    sort_by: str,
    properties: dict[str, str],
    appended: Distribution,
    upserted: Distribution,
) -> None:
    table = tideline.create_iceberg(
        str(tmp_path), COLUMNS, partition_by=partition_by, sort_by=sort_by, properties=properties
    )
    settings = WriteSettings.of(table.metadata, {})

    def of(operation: IcebergOperation) -> Distribution:
        return Distribution.of(table.metadata, settings, operation)

    assert of(IcebergOperation.APPEND) is of(IcebergOperation.OVERWRITE) is appended
    assert of(IcebergOperation.UPSERT) is upserted
    assert of(IcebergOperation.DELETE) is (PARTITION if partition_by else PLACE)
