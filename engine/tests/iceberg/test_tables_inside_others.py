"""A table whose location a tenant has put into the folder of another: services of it delete nothing
of the other one's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.errors import UnsupportedTableError
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.storage.named_places import SETTING

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog

ALL = OrphanOptions(2**62, is_forced=True)


class Lake:
    """A catalog with one table, whose snapshot names the file `row`."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.catalog = SqlCatalog("lake", uri=self.uri, warehouse=f"file://{folder}/w")
        self.catalog.create_namespace("a")
        self.victim: Any = self.create("victim", None)
        self.location = str(self.victim.metadata.location)
        (self.row,) = Path(f"{folder}/w/a/victim/data").glob("*.parquet")

    def create(self, name: str, location: str | None) -> Any:
        schema = pa.schema([pa.field("id", pa.int64())])
        made = self.catalog.create_table(f"a.{name}", schema=schema, location=location)
        made.append(pa.table({"id": [1, 2, 3]}))
        return made

    def opened(self, name: str) -> IcebergLakeTable:
        properties = {"uri": self.uri, "type": "sql"}
        return tideline.open_iceberg(f"a.{name}", catalog="lake", catalog_properties=properties)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv(SETTING, f"file://{tmp_path}")
    return Lake(tmp_path)


@pytest.mark.parametrize("folder", ["data", "data/part=1", "metadata/x", "own"])
def test_a_search_for_orphans_does_not_take_the_files_of_a_table_around(
    lake: Lake, folder: str
) -> None:
    lake.create("evil", f"{lake.location}/{folder}")
    operations = lake.opened("evil").table.operations
    words = rf"lies inside the Iceberg table at {lake.location}, whose files would count"
    with pytest.raises(UnsupportedTableError, match=words):
        plan_orphans(operations, ALL)
    with pytest.raises(UnsupportedTableError, match=words):
        lake.opened("evil").run("remove_orphan_files")
    assert lake.row.exists()
    assert plan_orphans(lake.opened("victim").table.operations, ALL).orphans == ()


def test_folders_that_are_named_are_searched(lake: Lake) -> None:
    lake.create("inner", f"{lake.location}/own")
    stray = Path(lake.location.removeprefix("file://")) / "own" / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    operations = lake.opened("inner").table.operations
    options = OrphanOptions(2**62, (f"{lake.location}/own/data",), is_forced=True)
    done = execute_orphans(operations, plan_orphans(operations, options))
    assert [file.location for file in done.deleted] == [f"file://{stray}"]


@pytest.mark.parametrize("folder", ["data", "own"])
def test_an_expiry_does_not_take_files_of_a_table_around(lake: Lake, folder: str) -> None:
    """Not even those that its own snapshots name."""
    evil = lake.create("evil", f"{lake.location}/{folder}")
    if folder == "data":
        evil.add_files([f"file://{lake.row}"])
    evil.overwrite(pa.table({"id": [9]}))
    table = lake.opened("evil")
    own = list(Path(f"{lake.location}/{folder}/data".removeprefix("file://")).glob("*.parquet"))
    table.run("expire_snapshots", options={"older_than_age_ms": "0", "retain_last": "1"})
    assert lake.row.exists()
    assert lake.opened("victim").to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert len(table.refresh().snapshots) == 1
    left = sum(path.exists() for path in own)
    assert left == (len(own) if folder == "data" else 1)
