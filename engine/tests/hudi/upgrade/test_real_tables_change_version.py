"""Tables that others made, of all versions, go to all versions: the rows are those from before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.open_table import open_table
from tideline.hudi.services.runs import TableServices
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.upgrade.run import run_version_change
from tideline.hudi.write.table_writer import TableWriter
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import canonical_rows, expected, fixture_table, tables_of_versions
from tideline.testing.table_audit import merged_rows

pytestmark = pytest.mark.fixtures

OTHERS = ("bootstrap", "lance", "variant", "vector")
"""What is not read at all."""
FIRST = (
    "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor",
    "hudi-upgrade.mor-tables.hudi-v9-table-mor/data/hudi-v9-table-mor",
    "hudi-upgrade.cow-tables.hudi-v8-table-cow/data/hudi-v8-table-cow",
    "hudi-upgrade.unsupported-upgrade-tables.hudi-v5-table/data/hudi-v5-table",
    "hudi-trino.hudi_v6_composite_key/data/hudi_v6_composite_key",
)
"""Of each kind one; the others in `make slow`."""


def cases() -> list[object]:
    found: list[object] = []
    for path in tables_of_versions("3", "4", "5", "6", "8", "9"):
        if any(word in path for word in OTHERS):
            continue
        marks = () if path in FIRST else (pytest.mark.slow,)
        for version in (6, 8, 9):
            if int(expected(path)["table_version"]) != version:
                found.append(pytest.param(path, version, marks=marks, id=f"{path}-{version}"))
    return found


def opened(folder: Path) -> HoodieTable:
    return open_table(StoreLocation.of(folder))


def change(folder: Path, version: int) -> None:
    table = opened(folder)
    services = TableServices(TableWriter(table), {}, InProcessServiceEngine(table, threads=1))
    run_version_change(services, version)


def digest(rows: pa.Table) -> str:
    _, lines = canonical_rows().rows(rows)
    found: str = canonical_rows().digest(lines)
    return found


@pytest.mark.parametrize(("path", "version"), cases())
def test_the_rows_are_those_from_before(path: str, version: int, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    shutil.copytree(fixture_table(path), folder)
    before = opened(folder)
    rows, archived = digest(merged_rows(before)), instants_archived(before)
    try:
        change(folder, version)
    except UnsupportedTableError as error:
        if "`default`" not in str(error) and "key generator" not in str(error):
            raise
        assert expected(path)["table_version"] == "3"
        return
    table = opened(folder)
    assert table.config.version == version
    assert digest(merged_rows(table)) == rows
    assert instants_archived(table) >= archived


def instants_archived(table: HoodieTable) -> set[str]:
    return {str(entry.instant.time) for entry in table.commits.archive().completed()}
