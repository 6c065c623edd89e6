"""Tables of catalogs with columns of types that PyIceberg does not parse."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import UnsupportedTableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.strange_types import in_own_words, with_stand_ins, without_stand_ins
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.named_places import SETTING as EXTRA_LOCATIONS
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import HostileCatalog

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable

TYPES = (
    "variant",
    "geometry(srid:4326)",
    "geography(OGC:CRS84, spherical)",
    "geometry('odd \"quotes\" % ü')",
    "geometry",
    "timestamp_ns",
    "unknown",
)


def strange(document: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a table with a column of every type, and of lists, maps and structs of it."""
    fields = document["schemas"][0]["fields"]
    for number, kind in enumerate(TYPES):
        at = 100 + 10 * number
        listed = {"type": "list", "element-id": at + 2, "element": kind, "element-required": False}
        mapped = {"type": "map", "key-id": at + 4, "key": "string", "value-id": at + 5,
                  "value": kind, "value-required": False}  # fmt: skip
        inner = {"id": at + 7, "name": "variant", "required": False, "type": kind}
        for offset, value in enumerate((kind, listed, None, mapped, None, None, "struct")):
            if value is not None:
                made = {"type": "struct", "fields": [inner]} if value == "struct" else value
                name = f"c{at + offset}"
                fields.append({"id": at + offset, "name": name, "required": False, "type": made})
    return document | {"format-version": 3, "last-column-id": 999, "next-row-id": 0}


def columns(document: Any) -> Any:
    return [item for schema in document["schemas"] for item in schema["fields"]]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostileCatalog:
    monkeypatch.setenv(EXTRA_LOCATIONS, f"file://{tmp_path}")
    return HostileCatalog(f"file://{tmp_path}/orders")


def test_a_rest_catalogs_table_is_loaded_and_committed_to(catalog: HostileCatalog) -> None:
    catalog.metadata = strange(catalog.metadata)
    with catalog:
        opened = open_catalog("lake", {"uri": catalog.url}, credentials={"token": "t"})
        table = CatalogTable(opened, "shop.orders", clock=FakeClock())
        base = table.load()
        assert columns(base.metadata.json()) == columns(catalog.metadata)
        outcome = table.commit(base, (), (SetProperties({"a": "b"}),))
        assert isinstance(outcome, Committed)
        assert columns(outcome.loaded.metadata.json()) == columns(catalog.metadata)
    assert "tideline:" not in "".join(received.text for received in catalog.received)


@pytest.mark.parametrize("suffix", [".metadata.json", ".gz.metadata.json"])
def test_an_sql_catalogs_table_is_loaded_and_not_changed(suffix: str, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/c.db"
    peer = SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}")
    peer.create_namespace("shop")
    made = peer.create_table("shop.orders", Schema())
    old = Path(made.metadata_location.removeprefix("file://"))
    document = strange(json.loads(old.read_text()))
    new = old.with_name(f"00001-{made.metadata.table_uuid}{suffix}")
    body = json.dumps(document).encode()
    new.write_bytes(gzip.compress(body) if suffix.startswith(".gz") else body)
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute("update iceberg_tables set metadata_location = ?", (f"file://{new}",))
    opened = open_catalog("lake", {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}"})
    table = CatalogTable(opened, "shop.orders", clock=FakeClock())
    base = table.load()
    assert columns(base.metadata.json()) == columns(document)
    with pytest.raises(UnsupportedTableError):
        table.commit(base, (), (SetProperties({"a": "b"}),))
    assert not any(b"tideline:" in path.read_bytes() for path in new.parent.iterdir())


def test_other_documents_stay_as_they_are() -> None:
    plain = b'{"type": "long", "name": "variants"}'
    assert with_stand_ins(plain) is plain
    assert in_own_words(plain) is plain
    body = json.dumps(
        {"type": "variant", "name": "geometry(x)", "list": [{"value": "geometry(a)"}]}
    )
    changed = with_stand_ins(body.encode())
    assert b'"type": "variant"' not in changed
    assert b'"geometry(x)"' in changed
    assert without_stand_ins(json.loads(changed)) == json.loads(body)
    assert json.loads(in_own_words(changed)) == json.loads(body)
