"""Rows of pyarrow, pandas and Arrow streams are written without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.run import why_spark

ROWS = {"id": ["a", "b"], "day": ["mon", "tue"], "n": [1, 2]}
WITHOUT_SPARK = """
import sys
import pyarrow as pa
import tideline

table = tideline.create(sys.argv[1], record_key="id", partition_by="day", ordering="n")
table.write(pa.table({"id": ["a", "b"], "day": ["mon", "tue"], "n": [1, 2]}))
table.write(pa.table({"id": ["a", "b"], "day": ["mon", "tue"], "n": [0, 3]}))
table.write(pa.table({"id": ["b"], "day": ["tue"]}), "delete")
print(table.to_arrow(["id", "n"]).to_pylist())
print([name for name in sys.modules if name.startswith("pyspark")])
"""

BY_HOUR = """
import sys
import pyarrow as pa
import tideline

times = "hoodie.keygen.timebased."
table = tideline.create(
    sys.argv[1], record_key="id", partition_by="at", key_generator="TIMESTAMP",
    properties={
        f"{times}timestamp.type": "DATE_STRING",
        f"{times}input.dateformat": "yyyy-MM-dd'T'HH:mm:ssZ",
        f"{times}output.dateformat": "yyyy/MM/dd/HH",
        f"{times}output.timezone": "Europe/Berlin",
    },
)
table.write(pa.table({"id": ["a", "b"], "at": ["2024-03-31T00:59:59Z", "2024-03-31T01:00:00Z"]}))
table.write(pa.table({"id": ["a", "c"], "at": ["2024-03-31T00:30:00Z", None]}))
table.delete_partitions(["1970/01/01/01"])
print(table.to_arrow(["id", "_hoodie_partition_path"]).to_pylist())
print([name for name in sys.modules if name.startswith("pyspark")])
"""


class Stream:
    """What Polars and DuckDB give: an object with an Arrow stream."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


@pytest.fixture
def table(tmp_path: Path) -> tideline.LakeTable:
    return tideline.create(str(tmp_path / "t"), record_key="id", partition_by="day", ordering="n")


def test_no_spark_is_imported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path / "t")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["[{'id': 'a', 'n': 1}]", "[]"]


def test_no_spark_is_imported_for_partitions_by_hour(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BY_HOUR, str(tmp_path / "t")],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = [
        {"id": "a", "_hoodie_partition_path": "2024/03/31/01"},
        {"id": "b", "_hoodie_partition_path": "2024/03/31/03"},
    ]
    assert done.stdout.splitlines() == [str(rows), "[]"]


def test_patterns_that_are_left_to_spark_are_named(tmp_path: Path) -> None:
    table = tideline.create(
        str(tmp_path / "t"),
        record_key="id",
        partition_by="n",
        key_generator="TIMESTAMP",
        properties={
            "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
            "hoodie.keygen.timebased.output.dateformat": "xxxx",
        },
    )
    reason = why_spark(1, table.hoodie_table, WriteConfig())
    assert reason is not None
    assert "output format 'xxxx'" in reason


@pytest.mark.parametrize(
    "rows",
    [
        pa.table(ROWS),
        pa.table(ROWS).to_batches()[0],
        pd.DataFrame(ROWS, index=[7, 9]),
        Stream(pa.table(ROWS)),
        pa.table(ROWS).to_reader(),
        pa.table({**ROWS, "day": pa.array(ROWS["day"]).dictionary_encode()}),
        pa.table({**ROWS, "id": pa.array(ROWS["id"], pa.large_string())}),
        pa.table(ROWS).to_pylist(),
    ],
    ids=["table", "batch", "pandas", "stream", "reader", "dictionary", "large text", "dicts"],
)
def test_every_form_of_rows_is_written(rows: object, table: tideline.LakeTable) -> None:
    assert table.write(rows).rows_written == 2
    assert table.to_arrow(["id", "day", "n"]).to_pydict() == ROWS
    assert table.schema is not None
    assert table.schema.types == [pa.string(), pa.string(), pa.int64()]


def test_what_holds_no_rows_is_refused(table: tideline.LakeTable) -> None:
    with pytest.raises(ConfigError, match="rows are written from pyarrow"):
        table.write(["a", "b"])


def test_rows_in_several_parts_are_one_batch(table: tideline.LakeTable) -> None:
    parts = [pa.table({"id": [f"k{n % 7}"], "day": ["mon"], "n": [n]}) for n in range(40)]
    assert table.write(pa.concat_tables(parts)).rows_written == 7
    assert sorted(table.to_arrow(["n"])["n"].to_pylist()) == list(range(33, 40))


def test_of_rows_with_equal_ordering_values_the_later_wins(table: tideline.LakeTable) -> None:
    rows = pa.table({"id": ["a"] * 3, "day": ["mon"] * 3, "n": [5, 4, 5], "v": ["x", "y", "z"]})
    table.write(rows)
    assert table.to_arrow(["v"])["v"].to_pylist() == ["z"]


def test_the_highest_ordering_value_is_what_java_takes_for_it(tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "f"), record_key="id", ordering="x")
    numbers = [1.0, np.inf, np.nan, -np.inf]
    rows = {"id": ["a"] * 4, "x": pa.array(numbers), "v": ["one", "inf", "nan", "low"]}
    table.write(pa.table(rows))
    assert table.to_arrow(["v"])["v"].to_pylist() == ["nan"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": ["a", None, ""], "day": ["m"] * 3, "n": [1, 2, 3]}, "2 incoming rows have a null"),
        ({"id": ["a"], "day": ["m"], "n": pa.array([None], pa.int64())}, "null ordering value"),
        ({"id": ["a"], "day": ["../x"], "n": [1]}, "makes no path inside the table"),
        ({"id": ["a"], "day": ["m"], "n": [1], "d": [{}]}, "cannot store values of type struct"),
    ],
)
def test_bad_rows_are_refused_before_anything_is_written(
    rows: dict[str, object], message: str, table: tideline.LakeTable
) -> None:
    with pytest.raises(InvalidDataError, match=message) as caught:
        table.write(pa.table(rows))
    assert caught.value.table == table.uri
    assert len(table.timeline().instants) == 0


def test_a_value_that_does_not_fit_its_column_is_refused(table: tideline.LakeTable) -> None:
    table.write(pa.table(ROWS))
    with pytest.raises(InvalidDataError, match="column n cannot change from int64 to string"):
        table.write(pa.table({**ROWS, "n": ["1", "2"]}))
    with pytest.raises(ConfigError, match="ordering field 'n' is not a column of the input"):
        table.write(pa.table({"id": ["a"], "day": ["mon"]}))
