"""A delete by condition of PyIceberg that began before a rewrite of files it does not select."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.table.open_table import IcebergTable

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from tideline.iceberg.table.catalog_table import CatalogTable

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])


@pytest.mark.usefixtures("catalogs_name_folders")
def test_it_does_not_fail(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/c.db"
    catalog = SqlCatalog("test", uri=place, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.events", SCHEMA)
    with table.update_spec() as update:
        update.add_field("kind", IdentityTransform(), "kind")
    table.append(pa.table({"id": [0, 1], "kind": ["busy", "busy"]}, schema=SCHEMA))
    for number in (2, 3):
        table.append(pa.table({"id": [number], "kind": ["quiet"]}, schema=SCHEMA))
    began_before = catalog.load_table("lake.events")
    options = RewriteOptions.parse({"min-input-files": "2"}, properties={})
    ours = IcebergTable(CatalogTable(catalog, "lake.events"))
    assert rewrite_data_files(ours, options, write_groups_here).files_rewritten == 2
    began_before.delete("kind = 'busy' and id = 0")
    left = catalog.load_table("lake.events").scan().to_arrow()["id"].to_pylist()
    assert sorted(left) == [1, 2, 3]
