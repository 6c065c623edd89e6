"""New Iceberg tables: their columns, partitions, order and key, in folders and in catalogs."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, TableExistsError, TidelineError
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("ns", "UTC")),
        pa.field("place", pa.struct([("zip", pa.int16()), ("names", pa.list_(pa.string()))])),
        pa.field("price", pa.decimal128(9, 2), nullable=False),
        pa.field("tags", pa.map_(pa.string(), pa.large_string())),
    ]
)


def memory() -> str:
    return f"memory://{uuid.uuid4().hex}/table"


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_a_table_is_what_it_was_defined_as(version: int) -> None:
    made = tideline.create_iceberg(
        memory(),
        COLUMNS,
        key="id",
        partition_by="day(at), bucket(16, id), truncate(10, price)",
        sort_by=["place.zip DESC", "id"],
        format_version=version,
        properties={"write.parquet.compression-codec": "snappy", "mine": "kept"},
    )
    metadata = made.refresh().metadata
    schema = metadata.schema()
    # Level by level, as Iceberg numbers columns.
    assert [field.field_id for field in schema.fields] == [1, 2, 3, 4, 5]
    assert schema.name_of(6) == "place.zip"
    assert [str(schema.field(number).type) for number in (2, 6)] == [  # type: ignore[union-attr]
        "timestamptz_ns" if version > 2 else "timestamptz",
        "int",
    ]
    assert schema.identifier_field_ids == (1,)
    assert [field.required for field in schema.fields] == [True, False, False, True, False]
    parts = [(field.name, str(field.transform)) for field in metadata.spec().fields]
    assert parts == [
        ("at_day", "day"),
        ("id_bucket", "bucket[16]"),
        ("price_trunc", "truncate[10]"),
    ]
    assert [(key.source_id, key.is_descending) for key in metadata.sort_order().fields] == [
        (6, True),
        (1, False),
    ]
    assert metadata.format_version == version
    assert metadata.next_row_id == (0 if version > 2 else None)
    assert metadata.properties["mine"] == "kept"
    assert made.count() == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": "nothing"}, "names no column"),
        ({"key": "place"}, "identifies no row"),
        ({"partition_by": "day(id)"}, "day is not taken of a column of type long"),
        ({"partition_by": "bucket(id)"}, "no such transform"),
        ({"partition_by": "bucket(0, id)"}, "takes a number"),
        ({"partition_by": "id DESC"}, "partitions have no order"),
        ({"partition_by": "id, id"}, "one name"),
        ({"partition_by": "bucket(2147483648, id)"}, "no such transform"),
        ({"partition_by": "place"}, "cannot be sorted"),
        ({"sort_by": "zorder(id, at)"}, "z-order"),
        ({"format_version": 4}, "format_version is 1, 2 or 3"),
        ({"properties": {"write.format.default": "orc"}}, "write.format.default is parquet"),
        ({"properties": {"write.location-provider.impl": "x.Y"}}, "location-provider"),
        ({"properties": {"write.target-file-size-bytes": "0"}}, "whole number from 1"),
        ({"properties": {"format-version": "3"}}, "format-version is reserved"),
        ({"properties": {"tideline.hudi.table": "orders"}}, "is reserved"),
        ({"properties": {"encryption.key-id": "k"}}, "neither read nor written"),
        ({"properties": {"mine": 1}}, "a name and a text"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_is_refused_before_there_is_a_table(wrong: dict, said: str) -> None:  # type: ignore[type-arg]
    uri = memory()
    with pytest.raises(TidelineError, match=said):
        tideline.create_iceberg(uri, COLUMNS, **wrong)
    tideline.create_iceberg(uri, COLUMNS)


NAMES = (
    ([("a", pa.int64()), ("A", pa.int64())], "a column twice"),
    ([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))], "a column twice"),
    ([("a", pa.struct([("b", pa.int64()), ("B", pa.int64())]))], "a column twice"),
    ([("", pa.int64())], "every column has a name"),
    ([("_row_id", pa.int64())], "of their own"),
    ([("at", pa.timestamp("us")), ("at_day", pa.int64())], "the name of a column"),
)


@pytest.mark.parametrize(("columns", "said"), NAMES, ids=str)
def test_names_that_other_engines_could_not_read_are_refused(
    columns: list[tuple[str, pa.DataType]], said: str
) -> None:
    partition_by = "day(at)" if columns[0][0] == "at" else ""
    with pytest.raises(ConfigError, match=said):
        tideline.create_iceberg(memory(), pa.schema(columns), partition_by=partition_by)


def test_a_key_names_a_column_once_and_a_void_field_is_named_as_icebergs() -> None:
    made = tideline.create_iceberg(memory(), COLUMNS, key=["id", "id"], partition_by="void(at)")
    assert made.metadata.schema().identifier_field_ids == (1,)
    assert [field.name for field in made.metadata.spec().fields] == ["at_null"]


UNKNOWN = (pa.uint64(), pa.duration("s"), pa.decimal256(60, 2), pa.decimal128(3, 5),
           pa.decimal128(5, -2))  # fmt: skip


@pytest.mark.parametrize("kind", UNKNOWN, ids=str)
def test_a_type_that_iceberg_lacks_is_named(kind: pa.DataType) -> None:
    columns = pa.schema([("a", pa.struct([("b", kind)]))])
    with pytest.raises(ConfigError, match="no type for") as caught:
        tideline.create_iceberg(memory(), columns)
    assert caught.value.value == "a.b"


def test_a_place_has_one_table(tmp_path: Path) -> None:
    tideline.create_iceberg(str(tmp_path / "t"), COLUMNS)
    for place in (tmp_path / "t", tmp_path / "t" / "below"):
        with pytest.raises(ConfigError, match="choose another one"):
            tideline.create_iceberg(str(place), COLUMNS)


def test_a_catalog_gets_the_table_once(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    lake = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    made = tideline.create_iceberg("db.t", COLUMNS, catalog="lake", catalog_properties=lake)
    assert made.uri == f"file://{tmp_path}/warehouse/db/t"
    other = tideline.create_iceberg(
        "db.other",
        COLUMNS,
        catalog="lake",
        catalog_properties=lake,
        location=f"file://{tmp_path}/elsewhere",
    )
    assert other.uri == f"file://{tmp_path}/elsewhere"
    with pytest.raises(TableExistsError):
        tideline.create_iceberg("db.t", COLUMNS, catalog="lake", catalog_properties=lake)
    del lake["warehouse"]
    with pytest.raises(ConfigError, match="location"):
        tideline.create_iceberg("db.new", COLUMNS, catalog="lake", catalog_properties=lake)
