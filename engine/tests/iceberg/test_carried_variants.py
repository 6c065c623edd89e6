"""Writes into Iceberg tables with columns of type variant: those of rows that stay are carried to
new files as they are, and new rows have null, or variants as Spark has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import InvalidDataError, UnsupportedTableError
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.parquet import parallel_sink
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
BYTES = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
"""The members as Spark has them, in no order that counts."""


def variant(number: int) -> dict[str, bytes]:
    """A whole number of one byte, with an empty dictionary."""
    return {"value": bytes([0b1100, number]), "metadata": b"\x01\x00\x00"}


def rows(*numbers: int, n: int = 0) -> pa.Table:
    return pa.table([list(numbers), [n] * len(numbers)], schema=COLUMNS)


def with_variants(*numbers: int) -> pa.Table:
    values = pa.array([variant(number) for number in numbers], BYTES)
    return rows(*numbers).append_column("v", values)


def opened(uri: str, store: ObjectStore | None = None) -> IcebergLakeTable:
    return IcebergLakeTable(IcebergTable(FileSystemTable(StoreLocation.of(uri), store=store)))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with a column `v`, in front of another one with a struct of a `v`."""
    found = tideline.create_iceberg(
        str(tmp_path / "table"), COLUMNS, key="id", format_version=3, sort_by="id"
    )
    newest = max((tmp_path / "table" / "metadata").glob("v*.metadata.json"))
    document = json.loads(newest.read_text())
    inner = {"id": 12, "name": "v", "required": False, "type": "long"}
    outer = {"type": "struct", "fields": [inner]}
    for schema in document["schemas"]:
        schema["fields"].insert(1, {"id": 10, "name": "v", "required": False, "type": "variant"})
        schema["fields"].append({"id": 11, "name": "s", "required": False, "type": outer})
    newest.write_text(json.dumps(document | {"last-column-id": 12}))
    return found.uri


def stored(uri: str) -> dict[int, Any]:
    """The variant of each row of the table's files, as readers have it."""
    found: dict[int, Any] = {}
    for path in opened(uri).files()["file"].to_pylist():
        file = pq.ParquetFile(path.removeprefix("file://"))
        assert str(file.schema).count("(Variant(1))") == 1
        assert "field_id=10 v (Variant(1))" in str(file.schema)
        table = file.read()
        found |= dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    return found


@pytest.mark.parametrize("threads", [False, True])
def test_copied_rows_keep_theirs(uri: str, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if threads:
        monkeypatch.setattr(parallel_sink, "_BYTES_MIN", 1)
        monkeypatch.setattr(parallel_sink, "processors", lambda: 2)
    opened(uri).append(with_variants(*range(8)))
    opened(uri).append(rows(100))
    opened(uri).upsert(rows(1, 2, 100, 200))
    opened(uri).delete("id = 3")
    opened(uri).update("id = 4", {"n": 5})
    expected = {n: variant(n) if n in {0, 4, 5, 6, 7} else None for n in (0, 1, 2, *range(4, 8))}
    assert stored(uri) == expected | {100: None, 200: None}
    assert opened(uri).count("n = 5") == 1
    assert not opened(uri).check()


def test_a_list_of_rows_and_nulls_are_taken(uri: str) -> None:
    opened(uri).write([{"id": 1, "n": 2}, {"id": 2, "n": 3}])
    opened(uri).write(pa.table({"id": [3], "v": pa.nulls(1), "n": [1]}))
    assert stored(uri) == {1: None, 2: None, 3: None}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (pa.array([7]), "the column v is variant in the table, not int64"),
        (pa.array(['{"a": 1}']), "is variant in the table, not string"),
        (pa.array([{"value": b"x"}]), "is variant in the table"),
        (pa.array([{"value": "x", "metadata": "y"}]), "is variant in the table"),
        (pa.array([{"value": None, "metadata": b"y"}], BYTES), "lacks its metadata or its value"),
    ],
)
def test_what_is_no_variant_is_refused(uri: str, value: pa.Array, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        opened(uri).append(rows(1).append_column("v", value))
    assert not opened(uri).snapshots


def test_a_shredded_variant_is_not_copied(uri: str, tmp_path: Path) -> None:
    opened(uri).append(with_variants(1, 2))
    (path,) = (tmp_path / "table" / "data").rglob("*.parquet")
    file = pq.read_table(path)
    shredded = pa.struct([*file.schema.field("v").type, ("typed_value", pa.int64())])
    cells = [{**cell, "typed_value": 1} for cell in file["v"].to_pylist()]
    marked = file.schema.field("v").with_type(shredded)
    pq.write_table(file.set_column(1, marked, pa.array(cells, shredded)), path)
    with pytest.raises(UnsupportedTableError, match=r"'v' is a variant that is shredded.*shred-v"):
        opened(uri).delete("id = 1")
    assert opened(uri).count() == 2


def test_a_write_that_died_anywhere_is_repeated(uri: str) -> None:
    opened(uri).append(with_variants(1, 2))
    opened(uri).upsert(rows(2, n=2))
    counted, number = FaultyStore(StoreLocation.of(uri).open()), 3
    opened(uri, counted).upsert(rows(2, n=number))
    for at in range(1, len(counted.writes) + 1):
        for plan in (FaultPlan(at), FaultPlan(crash_after_write=at)):
            number += 1
            broken = FaultyStore(StoreLocation.of(uri).open(), plan)
            with pytest.raises(SimulatedCrash):
                opened(uri, broken).write(rows(2, n=number), "upsert", token=str(number))
            opened(uri).write(rows(2, n=number), "upsert", token=str(number))
            assert opened(uri).count(f"n = {number}") == 1 and opened(uri).count() == 2
    assert stored(uri) == {1: variant(1), 2: None}
    assert not opened(uri).check()
