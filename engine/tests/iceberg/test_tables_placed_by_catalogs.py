"""New tables of REST catalogs, for which nobody says a location: the server creates them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import StorageUnavailableError, TableExistsError, UnsupportedTableError
from tideline.iceberg_lake_table import IcebergLakeTable

pytest.importorskip("pyiceberg")

from tideline.cli.main import run
from tideline.testing.hostile_catalog import Answer, Received
from tideline.testing.served_catalog import ServedCatalog, refusal

NAME = "shop.orders"
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("region", pa.string()),
        ("place", pa.struct([("city", pa.string()), ("marks", pa.list_(pa.int32()))])),
    ]
)


@pytest.fixture
def catalog() -> Iterator[ServedCatalog]:
    with ServedCatalog() as served:
        yield served


def created(catalog: ServedCatalog, version: int = 2, **more: str) -> IcebergLakeTable:
    return tideline.create_iceberg(
        NAME,
        COLUMNS,
        key="id",
        partition_by="bucket(4, id), region",
        sort_by="region DESC",
        format_version=version,
        properties={"mine": "kept"},
        catalog="lake",
        catalog_properties={"uri": catalog.url, **more},
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("warehouse", [{}, {"warehouse": "main"}, {"warehouse": "arn:a:b/c"}])
def test_the_server_says_where_it_goes(
    catalog: ServedCatalog, version: int, warehouse: dict[str, str]
) -> None:
    table = created(catalog, version, **warehouse)
    made = catalog.tables[NAME].metadata
    assert table.metadata.location == made.location
    assert table.version == version
    assert made.properties["mine"] == "kept"
    assert [str(item.name) for item in made.spec().fields] == ["id_bucket", "region"]
    assert [str(item.transform) for item in made.spec().fields] == ["bucket[4]", "identity"]
    assert [item.source_id for item in made.sort_order().fields] == [2]
    assert [made.schema().name_of(number) for number in made.schema().identifier_field_ids] == [
        "id"
    ]
    assert table.schema.equals(COLUMNS)
    rows = [{"id": 1, "region": "eu", "place": {"city": "x", "marks": [1]}}]
    table.write(rows)
    assert (
        tideline.open_iceberg(NAME, catalog="lake", catalog_properties={"uri": catalog.url})
        .to_arrow()
        .to_pylist()
        == rows
    )


def test_one_that_is_there_stays(catalog: ServedCatalog) -> None:
    created(catalog).write([{"id": 1}])
    before = catalog.tables[NAME]
    with pytest.raises(TableExistsError, match="already"):
        created(catalog)
    assert catalog.tables[NAME] == before


def test_what_the_server_refuses_is_named(catalog: ServedCatalog) -> None:
    def reply(request: Received) -> Answer:
        if request.kind == "tables":
            return refusal(400, "BadRequestException", "no tables on Mondays")
        return catalog.honest(request)

    catalog.reply = reply
    with pytest.raises(UnsupportedTableError, match="no tables on Mondays"):
        created(catalog)
    assert NAME not in catalog.tables


def test_another_version_than_asked_for_is_named(catalog: ServedCatalog) -> None:
    def reply(request: Received) -> Answer:
        if request.kind == "tables":
            asked = json.loads(request.body)
            asked["properties"]["format-version"] = "2"
            request = replace(request, body=json.dumps(asked).encode())
        return catalog.honest(request)

    catalog.reply = reply
    with pytest.raises(UnsupportedTableError, match="another version than 3"):
        created(catalog, 3)


def test_an_answer_that_is_lost_leaves_a_whole_table_or_none(catalog: ServedCatalog) -> None:
    for is_done in (False, True):
        catalog.tables.clear()

        def reply(request: Received, is_done: bool = is_done) -> Answer:
            if request.kind != "tables":
                return catalog.honest(request)
            if is_done:
                catalog.honest(request)
            return refusal(500, "Broken")

        catalog.reply = reply
        with pytest.raises(StorageUnavailableError):
            created(catalog)
        assert (NAME in catalog.tables) is is_done
        catalog.reply = catalog.honest
        if is_done:
            with pytest.raises(TableExistsError):
                created(catalog)
            table = tideline.open_iceberg(
                NAME, catalog="lake", catalog_properties={"uri": catalog.url}
            )
        else:
            table = created(catalog)
        assert table.write([{"id": 1}]).rows_inserted == 1


def test_the_command_names_no_location(
    catalog: ServedCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "columns.parquet")
    words = ["create", NAME, "--catalog", catalog.url, "--format", "iceberg"]
    assert run([*words, "--schema", str(tmp_path / "columns.parquet"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["uri"] == catalog.tables[NAME].metadata.location
