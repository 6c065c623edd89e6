"""Statistics of a metadata table that is made again, where not all of their columns can have them
any more: the others keep theirs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from tideline.check_finding import Severity
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.table.table_config import COLUMN_STATS, FILES, PARTITION_STATS
from tideline.lake_table import LakeTable
from tideline.storage.memory.store import MemoryStore
from tideline.testing.small_table import CHEAP, QUIET

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.int64()),
        ("wide", pa.decimal128(20, 4)),
        ("part", pa.string()),
    ]
)


def rows(key: str, **more: int) -> pa.Table:
    made = {"id": [key], "v": [1], "wide": [Decimal("-1.5000")], "part": ["a"]}
    table = pa.table(made, schema=SCHEMA)
    for name, value in more.items():
        table = table.append_column(name, pa.array([value], pa.int64()))
    return table


@pytest.fixture
def uri() -> Iterator[str]:
    name = uuid.uuid4().hex
    LakeTable.create(
        f"memory://{name}",
        record_key=["id"],
        partition_by=["part"],
        schema=SCHEMA,
        table_version=9,
        properties={**CHEAP, "hoodie.metadata.enable": "true"},
    )
    yield f"memory://{name}"
    MemoryStore.forget(name)


def make(uri: str) -> None:
    for name in (COLUMN_STATS, PARTITION_STATS):
        LakeTable.open(uri).indexes({}).create(name)


def assert_there(uri: str, *columns: str) -> None:
    lake = LakeTable.open(uri)
    assert lake.hoodie_table.config.metadata_partitions == (COLUMN_STATS, FILES, PARTITION_STATS)
    listed = read_definitions(lake.hoodie_table)[COLUMN_STATS]["sourceFields"]
    assert {name for name in listed if not name.startswith("_")} == {*columns}
    assert [f for f in lake.check(keys=True) if f.severity is Severity.ERROR] == []
    assert lake.scan(where="v = 1").read_all().num_rows == lake.to_arrow().num_rows


def test_a_change_of_the_version_leaves_out_what_the_other_cannot_bound(uri: str) -> None:
    """The first version of the index has no room for as many digits."""
    LakeTable.open(uri).write(rows("k1"), "insert", options=QUIET)
    make(uri)
    assert_there(uri, "id", "v", "wide", "part")
    LakeTable.open(uri).change_version(8)
    assert_there(uri, "id", "v", "part")
    LakeTable.open(uri).write(rows("k2"), "upsert", options=QUIET)
    assert_there(uri, "id", "v", "part")


def test_a_restore_leaves_out_columns_that_came_later(uri: str) -> None:
    LakeTable.open(uri).write(rows("k1"), "insert", options=QUIET)
    saved = LakeTable.open(uri).savepoint().instant
    LakeTable.open(uri).write(rows("k2", later=7), "upsert", options=QUIET)
    make(uri)
    assert_there(uri, "id", "v", "wide", "part", "later")
    LakeTable.open(uri).restore(saved)
    assert_there(uri, "id", "v", "wide", "part")
