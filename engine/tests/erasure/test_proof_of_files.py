"""The proof of an erasure counts every file below the table's root, or names it: without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest

from tideline.erasure.prove import listed
from tideline.erasure.stored_rows import StoredRowsReader
from tideline.hudi.table.table_config import PUBLISH_MERGE, TableType
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import QUIET, SCHEMA, SmallTable, batch

KINDS = [(version, kind) for version in (6, 9) for kind in TableType]


@pytest.fixture(params=KINDS, ids=[f"v{version}-{kind.value}" for version, kind in KINDS])
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    version, kind = request.param
    made = SmallTable.in_memory({PUBLISH_MERGE: "true"}, table_type=kind, table_version=version)
    yield made
    made.forget()


def write(table: SmallTable, operation: str, rows: pa.Table) -> None:
    table.fake_clock.advance(60)
    table.write(operation, rows, options=QUIET)


def stored_values(table: SmallTable) -> dict[str, set[int]]:
    """The values of `v` in each file that is counted."""
    hoodie = table.lake().hoodie_table
    files, _ = listed(hoodie)
    reader = StoredRowsReader.of(hoodie, table.lake().timeline()).with_columns(["v"])
    complaints: list[str] = []
    found = {
        file.path: {
            v for rows in reader.batches(file, complaints.append) for v in rows["v"].to_pylist()
        }
        for file in files
    }
    assert not complaints
    return found


def named(table: SmallTable) -> set[str]:
    return {file.path for file in listed(table.lake().hoodie_table)[1]}


def test_older_versions_replaced_groups_and_undone_writes_are_counted(table: SmallTable) -> None:
    write(table, "upsert", batch([0], 1))
    write(table, "upsert", batch([0], 2))
    write(table, "insert_overwrite", batch([2], 3))
    for writes in range(8, 40):
        table.fake_clock.advance(7200)
        with suppress(SimulatedCrash):
            store = FaultyStore(table.store(), FaultPlan(crash_before_write=writes))
            table.write("upsert", batch([2], writes), store=store, options=QUIET)
        if any(writes in values for values in stored_values(table).values()):
            break
    assert (2, writes) not in {(int(key[1:]), v) for key, v in table.values()}
    assert set().union(*stored_values(table).values()) == {1, 2, 3, writes}


def test_what_a_publication_has_copies_of_is_counted(table: SmallTable) -> None:
    write(table, "upsert", batch([0], 1))
    write(table, "upsert", batch([0], 2))
    table.lake().publish()
    own = [path for path in stored_values(table) if path.startswith("metadata/merged/")]
    is_merged = table.lake().hoodie_table.config.table_type is TableType.MERGE_ON_READ
    assert [stored_values(table)[path] for path in own] == [{2}] * is_merged
    assert not named(table)


def test_a_partition_may_have_the_name_of_icebergs_folder(table: SmallTable) -> None:
    rows = pa.table({"id": ["k000"], "part": ["metadata"], "v": [7]}, schema=SCHEMA)
    write(table, "upsert", rows)
    ((path, values),) = stored_values(table).items()
    assert path.startswith("metadata/")
    assert values == {7}


def test_whatever_else_has_bytes_is_named(table: SmallTable) -> None:
    write(table, "upsert", batch([0], 1))
    table.lake().publish()
    store = table.store()
    others = {
        "extract.csv", "p0/part-00000.parquet", "metadata/copy.parquet",
        "metadata/merged/p0/rows.tmp", "metadata/rows.csv", "p0/.hidden",
    }  # fmt: skip
    for path in others:
        store.put(path, b"x")
    for path in ("_SUCCESS", "p0/.gitkeep", "p0/empty"):
        store.put(path, b"")
    store.put("p0/.part-0.parquet.crc", b"crc")
    assert named(table) == others
