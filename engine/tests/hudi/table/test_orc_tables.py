"""Tables of ORC base files: read as any other, cleaned and rolled back, but no row is written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from tideline.check_finding import Severity
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.look import look_at
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.check.run import check_table
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.table.table_config import TableType
from tideline.storage.location import StoreLocation
from tideline.testing.hand_written_table import HandWrittenTable, instant_time
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import merged_rows

GROUP = "11111111-2222-3333-4444-555555555555-0"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
    ]
)
AS_ORC = pa.schema([*list(SCHEMA)[:2], ("at", pa.timestamp("us")), ("local", pa.int64()),
                    SCHEMA.field("tags")])  # fmt: skip
"""As Hudi stores it: moments without their zone, times of a clock as plain numbers."""


def rows(schema: pa.Schema = AS_ORC, **values: int) -> pa.Table:
    naive, local = NOON.replace(tzinfo=None), int(NOON.timestamp()) * 1_000_000
    columns: list[Any] = [
        list(values),
        list(values.values()),
        [naive] * len(values),
        [local] * len(values),
        [["x"]] * len(values),
    ]
    arrays = zip(columns, schema.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in arrays], schema=schema)


@pytest.fixture
def table(tmp_path: Path) -> HandWrittenTable:
    """Commit 1 has a=1, b=1, c=1; 2 updates a and adds d in a log; 3 deletes b in another."""
    made = HandWrittenTable.create(
        tmp_path, SCHEMA, file_format="orc", table_type=TableType.MERGE_ON_READ, ordering=("n",)
    )
    made.commit("1", {("", GROUP): rows(a=1, b=1, c=1)})
    made.append("2", {("", GROUP): rows(SCHEMA, a=2, d=2)})
    made.append("3", {}, {("", GROUP): ["b"]})
    return made


def numbers(table: HandWrittenTable) -> dict[str, int]:
    found = merged_rows(table.open())
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def test_logs_are_merged_into_them(table: HandWrittenTable) -> None:
    assert list(table.path("").glob("*.orc"))
    assert numbers(table) == {"a": 2, "c": 1, "d": 2}


def test_values_have_the_types_of_the_table(table: HandWrittenTable) -> None:
    found = merged_rows(table.open())
    assert found.select(SCHEMA.names).schema.types == SCHEMA.types
    for row in found.to_pylist():
        assert (row["at"], row["local"], row["tags"]) == (NOON, NOON.replace(tzinfo=None), ["x"])
    assert found["_hoodie_commit_time"].to_pylist()[1] == str(instant_time("1"))


def test_columns_that_a_file_lacks_are_null_and_widened_ones_are_read(tmp_path: Path) -> None:
    narrow = pa.schema([("id", pa.string()), ("n", pa.int32())])
    made = HandWrittenTable.create(tmp_path, narrow, file_format="orc")
    made.commit("1", {("", GROUP): pa.table([["a"], pa.array([1], pa.int32())], schema=narrow)})
    wide = pa.schema([("id", pa.string()), ("n", pa.float64()), ("later", pa.string())])
    other = f"2{GROUP[1:]}"
    made.commit("2", {("", other): pa.table([["b"], [2.5], ["x"]], schema=wide)}, schema=wide)
    found = merged_rows(made.open()).select(wide.names)
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [
        ("a", 1.0, None),
        ("b", 2.5, "x"),
    ]


def test_a_file_that_is_no_orc_file_is_named(table: HandWrittenTable) -> None:
    (file,) = table.path("").glob("*.orc")
    file.write_bytes(b"PAR1" * 100)
    with pytest.raises(CorruptTableError, match=rf"no orc file.*{file.name}"):
        merged_rows(table.open())


def test_no_row_is_written_and_the_refusal_says_why(table: HandWrittenTable) -> None:
    capabilities = look_at(table.location)
    refused = {candidate for candidate in Permission if capabilities.may(candidate) is not None}
    assert refused == {
        Permission.WRITE,
        Permission.COMPACTION,
        Permission.LOG_COMPACTION,
        Permission.CLUSTERING,
        Permission.UPGRADE,
    }
    assert capabilities.as_json()["base_file_format"] == "ORC"
    for permission in refused:
        refusal = capabilities.may(permission)
        assert refusal is not None
        assert refusal.value == "hoodie.table.base.file.format=ORC"
        with pytest.raises(UnsupportedTableError, match="base files in ORC are read, not written"):
            admit(table.open(), permission)
    with pytest.raises(UnsupportedTableError, match="base files in ORC are read, not written"):
        SmallTable(table.location).write("upsert", rows(SCHEMA, a=3))


def test_a_check_finds_nothing_wrong_and_says_what_is_refused(table: HandWrittenTable) -> None:
    findings = check_table(table.open(), keys=True)
    assert {finding.severity for finding in findings} == {Severity.NOTE}
    assert any("base files in ORC are read" in finding.message for finding in findings)


def test_a_check_counts_the_rows_of_each_file(table: HandWrittenTable) -> None:
    (file,) = table.path("").glob("*.orc")
    orc.write_table(rows(a=1), file)
    found = {finding.message: finding for finding in check_table(table.open())}
    wrong = found["holds 1 row, its commit says 3"]
    assert (wrong.severity, wrong.path) == (Severity.ERROR, file.name)


def test_older_versions_are_cleaned_and_failed_writes_rolled_back(table: HandWrittenTable) -> None:
    table.commit("4", {("", GROUP): rows(a=2, c=1, d=2)})
    table.commit("5", {("", GROUP): rows(a=5, c=1, d=2)})
    table.commit("6", {("", GROUP): rows(a=6)}, completed=False)
    assert len(list(table.path("").glob("*.orc"))) == 4
    services = local_services(
        SmallTable(StoreLocation.of(table.location.uri)),
        {
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.fileversions.retained": "1",
        },
    )
    services.run(ROLLBACK)
    assert services.run(CLEANING).done
    left = [file.name for file in table.path("").glob("*") if file.suffix == ".orc"]
    assert [name.rpartition("_")[2] for name in left] == [f"{instant_time('5')}.orc"]
    assert numbers(table) == {"a": 5, "c": 1, "d": 2}
