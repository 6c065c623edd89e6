"""Nested namespaces, pages and views of Iceberg's own REST catalog."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_search import list_tables

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.usefixtures("catalogs_name_folders"),
]
NAMES = [f"nested.deeper.t{number}" for number in range(7)]


def test_tables_of_all_levels_are_created_and_found_page_by_page(
    iceberg_peer: IcebergPeer,
    iceberg_rest_server: IcebergRestServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = iceberg_rest_server.uri
    peer = iceberg_peer
    peer.add_catalog("levels", {"type": "rest", "uri": address})
    peer.run("create namespace levels.nested", "create namespace levels.nested.deeper")
    columns = pa.schema([pa.field("id", pa.int64())])
    for name in ("nested.top", *NAMES):
        made = tideline.create_iceberg(name, columns, catalog=address)
        made.write([{"id": 1}])
    peer.run("create view levels.nested.seen as select id from levels.nested.deeper.t3")
    assert peer.sql("select id from levels.nested.seen")["id"].to_pylist() == [1]
    assert peer.sql("select id from levels.nested.deeper.t3")["id"].to_pylist() == [1]
    found: list[set[str]] = []
    for size in ("1", "3", "100"):
        catalog = open_catalog("default", {"uri": address, "rest-page-size": size})
        listed = {".".join(table.parts) for table in list_tables(catalog)}
        found.append({name for name in listed if name.startswith("nested")})
    assert found == [{"nested.top", *NAMES}] * 3
    assert run(["read", "nested.seen", "--catalog", address]) == 1
    assert "no such table" in capsys.readouterr().err
    assert run(["read", NAMES[0], "--catalog", address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"id": 1}]
