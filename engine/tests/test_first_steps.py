"""What somebody does first: reads a table without rows, misspells, gives frames of all sorts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import tideline
from tideline.errors import ConfigError, InvalidDataError
from tideline.lake_table import LakeTable

ROWS: list[dict[str, Any]] = [{"id": "a", "amount": 1}, {"id": "b", "amount": 2}]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    found = tideline.create(str(tmp_path / "orders"), record_key="id")
    found.write(ROWS)
    return found


def test_a_table_without_a_write_is_read_as_empty(tmp_path: Path) -> None:
    empty = tideline.create(str(tmp_path / "orders"), record_key="id")
    assert (empty.count(), empty.head().num_rows, pa.table(empty).num_columns) == (0, 0, 0)
    assert empty.to_pandas().empty
    assert empty.to_polars().is_empty()
    assert empty.to_polars_lazy().collect().is_empty()
    assert list(empty.to_batches()) == []
    with pytest.raises(ConfigError, match="no columns before its first write"):
        empty.to_duckdb()
    with pytest.raises(ConfigError, match="no such column; there is none before the first write"):
        empty.count("id = 'a'")
    assert empty.write([{"id": "a"}]).rows_inserted == empty.count() == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["amout"], "no such column, did you mean amount\\? there are id, amount \\["),
        (["place.zip"], "no such column; there are id, amount"),
        (["id.zip"], "did you mean id\\?"),
        (["id", "id"], "a column is named twice"),
        ([], "no column is named"),
    ],
)
def test_columns_that_are_not_there_are_named_with_those_that_are(
    table: LakeTable, columns: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        table.to_arrow(columns)


def test_one_column_may_be_given_as_a_text(table: LakeTable) -> None:
    assert table.to_arrow("amount").to_pydict() == {"amount": [1, 2]}
    assert table.to_pandas("id")["id"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("amout = 1", "did you mean amount\\?"),
        ("id = 1", "type string is compared with a text in quotes"),
        ("amount > '5'", "type int64 is compared with a whole number, without quotes"),
    ],
)
def test_a_condition_that_does_not_suit_says_what_would(
    table: LakeTable, where: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        table.count(where)


def test_a_time_with_a_zone_is_not_compared_with_a_column_without(tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "t"), record_key="id")
    table.write(pa.table({"id": ["a"], "at": pa.array([0], pa.timestamp("us"))}))
    with pytest.raises(ConfigError, match="a time without a zone, such as"):
        table.count("at > '2026-01-01T00:00:00Z'")


def test_an_index_with_a_name_is_a_column(table: LakeTable) -> None:
    frame = pd.DataFrame({"amount": [5, 7]}, index=pd.Index(["a", "c"], name="id"))
    done = table.upsert(frame)
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert table.count("amount = 7 and id = 'c'") == 1
    levels = pd.MultiIndex.from_tuples([("d", 1)], names=["id", "amount"])
    assert table.upsert(pd.DataFrame({"note": ["x"]}, index=levels)).rows_inserted == 1
    assert table.upsert(pd.DataFrame({"id": ["e"], "amount": [1]}, index=[9])).rows_inserted == 1
    assert table.to_arrow("note")["note"].drop_null().to_pylist() == ["x"]


def test_a_dataset_is_written_and_an_empty_list_writes_nothing(table: LakeTable) -> None:
    assert table.upsert(ds.dataset(pa.table({"id": ["c"], "amount": [3]}))).rows_inserted == 1
    assert table.upsert([]).rows_written == 0
    assert table.count() == 3


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            pd.DataFrame({"id": ["c"], "o": [1]}, dtype=object).assign(o=[object()]),
            InvalidDataError,
            "column o with type object.*one type",
        ),
        (
            pa.table([pa.array(["c"]), pa.array([1]), pa.array([2])], names=["id", "n", "n"]),
            InvalidDataError,
            "rows have a column twice.*value=n",
        ),
        (pl.DataFrame({"id": ["c"]}).lazy(), ConfigError, "collect\\(\\) a LazyFrame first"),
        (pd.Series(["c"], name="id"), ConfigError, "as a DataFrame"),
        ({"id": ["c"]}, ConfigError, "a list of dicts"),
        (["a", "b"], ConfigError, "rows are written from pyarrow, pandas, Polars"),
    ],
    ids=["mixed types", "twice", "lazy", "series", "dict", "texts"],
)
def test_what_has_no_rows_to_write_is_refused_with_a_way_out(
    table: LakeTable, tmp_path: Path, rows: Any, error: type[Exception], message: str
) -> None:
    iceberg = tideline.create_iceberg(str(tmp_path / "i"), pa.schema([("id", pa.string())]))
    for wanted in (table, iceberg):
        with pytest.raises(error, match=message):
            wanted.append(rows)
    assert table.count() == 2


@pytest.mark.spark
@pytest.mark.parametrize("where", ["id = 'a", ""])
def test_a_condition_that_spark_cannot_read_is_an_error_of_ours(
    table: LakeTable, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="Spark refuses the condition"):
        table.delete(where)
    with pytest.raises(ConfigError, match="Spark refuses the condition"):
        table.erase("nope = 1")
    assert "SQLQueryContextLogger" not in capfd.readouterr().err
