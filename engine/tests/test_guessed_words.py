"""The words that other libraries have for what a table can do."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tideline
from tideline.errors import ConfigError, ConflictError, CorruptTableError, InvalidDataError
from tideline.formats.column_changes import with_changes
from tideline.lake_table import LakeTable

ROWS: list[dict[str, Any]] = [
    {"id": "a", "day": "mon", "n": 1, "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
    {"id": "b", "day": "mon", "n": 2},
    {"id": "c", "day": "tue", "n": 3, "at": dt.datetime(2026, 1, 3, tzinfo=dt.UTC)},
]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    found = tideline.create(
        str(tmp_path / "orders"), record_key="id", partition_by="day", table_type="MERGE_ON_READ"
    )
    found.write(ROWS)
    return found


def numbers(table: LakeTable) -> dict[str, int]:
    rows = table.to_arrow(["id", "n"])
    return dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))


def test_arrow_polars_pandas_and_duckdb_take_the_table_as_it_is(table: LakeTable) -> None:
    table.upsert([{"id": "a", "day": "mon", "n": 10}])
    wanted = {"a": 10, "b": 2, "c": 3}
    names = ["id", "day", "n", "at"]
    assert pa.table(table).column_names == names
    assert dict(pl.DataFrame(table).select("id", "n").iter_rows()) == wanted
    assert dict(table.to_polars(["id", "n"]).iter_rows()) == wanted
    assert dict(table.to_pandas(["id", "n"]).itertuples(index=False)) == wanted
    assert dict(table.to_duckdb().project("id, n").fetchall()) == wanted
    with duckdb.connect() as connection:
        t = table  # DuckDB finds the variable by its name
        assert connection.sql("select sum(n) from t").fetchall() == [(15,)]
        assert table.to_duckdb(connection).filter("n > 2").count("*").fetchall() == [(2,)]
        assert t is table


def test_a_lazy_frame_reads_what_its_query_needs(table: LakeTable) -> None:
    lazy = table.to_polars_lazy()
    assert lazy.filter(pl.col("n") >= 2).select("id").collect()["id"].sort().to_list() == ["b", "c"]


def test_a_condition_in_sql_and_a_limit_are_taken_everywhere(table: LakeTable) -> None:
    where = "n >= 2 and day = 'mon'"
    assert table.to_batches(["id"], where).read_all()["id"].to_pylist() == ["b"]
    for found in (table.to_arrow(["id"], where=where), table.to_arrow(["id"], filter=where)):
        assert found["id"].to_pylist() == ["b"]
    for reader in (table.scan(["id"], where=where), table.scan(["id"], filter=where)):
        assert reader.read_all()["id"].to_pylist() == ["b"]
    with pytest.raises(ConfigError, match="give where alone"):
        table.to_arrow(where=where, filter=where)
    assert table.count() == 3
    assert table.count("n > 1") == 2
    assert table.count(pc.field("at").is_null()) == 1
    assert table.head(2).num_rows == 2
    assert table.head(2, ["id"], "n = 3").to_pylist() == [{"id": "c"}]
    assert table.to_pandas(limit=1).shape == (1, 4)
    assert table.to_polars(where="n = 1")["id"].to_list() == ["a"]
    with pytest.raises(ConfigError, match="no such column"):
        table.to_batches(["m"])
    with pytest.raises(ConfigError, match="no such column"):
        table.count("m > 1")


def test_a_batch_that_was_not_taken_is_not_read(tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "t"), record_key="id", partition_by="part")
    table.write(pa.table({"id": range(40), "part": [f"{part:02d}" for part in range(40)]}))
    reader = table.to_batches(["id"])
    for file in (tmp_path / "t").glob("[1-3]?/*.parquet"):
        file.unlink()
    assert [next(reader)["id"].to_pylist() for _ in range(10)] == [[number] for number in range(10)]
    with pytest.raises(CorruptTableError):
        reader.read_all()


def test_a_limit_is_where_reading_ends(tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "t"), record_key="id", partition_by="part")
    table.write(pa.table({"id": range(40), "part": [f"{part:02d}" for part in range(40)]}))
    for file in (tmp_path / "t").glob("[1-3]?/*.parquet"):
        file.unlink()
    first = list(range(7))
    assert table.to_arrow(["id"], limit=7)["id"].to_pylist() == first
    assert table.scan(["id"], "id >= 0", limit=7).read_all()["id"].to_pylist() == first
    assert table.to_batches(["id"], limit=7).read_all()["id"].to_pylist() == first
    assert table.to_pandas(["id"], limit=7)["id"].to_list() == first
    assert table.to_polars(["id"], limit=7)["id"].to_list() == first
    assert table.to_pyarrow_dataset().head(7, ["id"])["id"].to_pylist() == first
    assert table.to_arrow(limit=0).num_rows == 0
    assert table.to_arrow(limit=np.int64(1)).num_rows == 1  # type: ignore[arg-type]
    for limit in (-1, "7", True, 1.0):
        with pytest.raises(ConfigError, match="a limit is a number of rows"):
            table.to_arrow(limit=limit)  # type: ignore[arg-type]


def test_rows_are_dicts_in_the_types_of_the_table(table: LakeTable) -> None:
    table.upsert([{"id": "d", "day": "wed", "n": 4, "new": 1.5}, {"id": "e", "day": "wed"}])
    assert table.schema is not None
    assert table.schema.field("new").type == pa.float64()
    assert table.count("new is null") == 4
    with pytest.raises(InvalidDataError, match="column n"):
        table.upsert([{"id": "f", "day": "wed", "n": "many"}])
    with pytest.raises(ConfigError, match="a list of dicts"):
        table.upsert([1, 2])


def test_words_for_writes_choose_the_operation(table: LakeTable) -> None:
    table.append([{"id": "d", "day": "wed", "n": 4}])
    assert numbers(table) == {"a": 1, "b": 2, "c": 3, "d": 4}
    table.merge([{"id": "d", "day": "wed", "n": 5}, {"id": "e", "day": "wed", "n": 6}])
    assert numbers(table) == {"a": 1, "b": 2, "c": 3, "d": 5, "e": 6}
    table.insert_overwrite([{"id": "f", "day": "wed", "n": 7}])
    assert numbers(table) == {"a": 1, "b": 2, "c": 3, "f": 7}
    table.overwrite([{"id": "z", "day": "sun", "n": 0}])
    assert numbers(table) == {"z": 0}
    assert table.partitions()["partition"].to_pylist() == ["sun"]


def test_an_update_sets_values_and_expressions(table: LakeTable) -> None:
    done = table.update("day = 'mon'", {"n": pc.field("n") * 10, "at": None})
    assert done.rows_updated == 2
    assert numbers(table) == {"a": 10, "b": 20, "c": 3}
    assert table.count("at is null") == 2
    assert table.update("n = 3", {"n": 4}).rows_updated == 1
    assert numbers(table)["c"] == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "x"}, "key or the partition path"),
        ({"day": "x"}, "key or the partition path"),
        ({"m": 1}, "no such column"),
        ({"_hoodie_record_key": "x"}, "no such column"),
        ({"n": "many"}, "no value for this column"),
        ({}, "which columns"),
    ],
)
def test_an_update_that_cannot_be_changes_nothing(
    table: LakeTable, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        table.update("n > 0", changes)
    assert numbers(table) == {"a": 1, "b": 2, "c": 3}


def test_an_update_reads_again_when_another_writer_came_between(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = with_changes
    came: list[bool] = []

    def changed(rows: pa.Table, changes: Any) -> pa.Table:
        if not came:
            came.append(True)
            tideline.open(table.uri).upsert([{"id": "a", "day": "mon", "n": 100}])
        return inner(rows, changes)

    monkeypatch.setattr("tideline.row_update.with_changes", changed)
    table.update("id = 'a'", {"n": pc.field("n") + 1})
    assert numbers(table)["a"] == 101

    def always(rows: pa.Table, changes: Any) -> pa.Table:
        came.append(True)
        tideline.open(table.uri).upsert([{"id": "b", "day": "mon", "n": len(came)}])
        return inner(rows, changes)

    monkeypatch.setattr("tideline.row_update.with_changes", always)
    with pytest.raises(ConflictError):
        table.update("id = 'a'", {"n": 0})
    assert numbers(table)["a"] == 101


def test_listings_are_arrow_tables(table: LakeTable) -> None:
    table.upsert([{"id": "a", "day": "mon", "n": 10}])
    files = table.files()
    assert files["partition"].to_pylist() == ["mon", "tue"]
    assert all(size > 0 for size in files["size_bytes"].to_pylist())
    history = table.history()
    writes = history.filter(pc.is_valid(history["rows_inserted"]))
    assert writes["rows_inserted"].to_pylist() == [3, 0]
    assert writes["rows_updated"].to_pylist() == [0, 1]
    assert writes["operation"].to_pylist() == ["upsert", "upsert"]
    assert abs(writes["completed_at"][1].as_py() - dt.datetime.now(dt.UTC)).total_seconds() < 600
    newest = table.latest_commit
    assert newest is not None
    assert writes["instant"].to_pylist()[-1] == str(newest.time)


def test_what_a_table_is_can_be_read_where_it_is_printed(tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "orders"), record_key="id")
    assert "no commit yet" in repr(table)
    table.write([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
    assert (table.name, table.version) == ("orders", 9)
    newest = table.latest_commit
    assert newest is not None
    assert repr(table) == (
        f"<LakeTable 'orders', COPY_ON_WRITE, version 9, newest commit {newest.time}, 2 rows, "
        f"at {table.uri}>"
    )


def test_printing_never_fails_and_says_nothing_that_is_not_known(tmp_path: Path) -> None:
    table = tideline.create(str(tmp_path / "t"), record_key="id", table_type="MERGE_ON_READ")
    table.write([{"id": "a", "n": 1}])
    table.write([{"id": "a", "n": 2}])
    assert "newest commit" in repr(table)
    assert "row" not in repr(table)
    for file in (tmp_path / "t").rglob("*"):
        if file.is_file():
            file.write_bytes(b"x")
    assert repr(table).startswith("<LakeTable 't', MERGE_ON_READ, version 9")


def test_words_for_services_run_them(table: LakeTable) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    table.upsert([{"id": "a", "day": "mon", "n": 10}])
    compacted, clustered = table.optimize(options=options)
    assert compacted.done
    runs = (compacted, clustered, table.clean(), table.vacuum(), table.compact(), table.cluster())
    assert [run.service.name for run in runs] == [
        "compaction", "clustering", "cleaning", "cleaning", "compaction", "clustering",
    ]  # fmt: skip
    assert numbers(table) == {"a": 10, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("package", "extra", "read"),
    [
        ("polars", "polars", LakeTable.to_polars),
        ("polars", "polars", LakeTable.to_polars_lazy),
        ("duckdb", "sql", LakeTable.to_duckdb),
        ("pandas", "spark", LakeTable.to_pandas),
    ],
)
def test_a_package_that_lacks_is_named_with_what_brings_it(
    package: str, extra: str, read: Any, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ConfigError, match=rf"{package}.*\[{extra}\]"):
        read(table)


def test_an_update_that_a_merge_would_drop_is_refused(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string(), "at": pa.int64(), "n": pa.int64()})
    table = tideline.create(
        str(tmp_path / "t"), record_key="id", ordering=["at", "n"], schema=schema
    )
    table.write([{"id": "a", "at": 5, "n": 1}, {"id": "b", "at": 5, "n": 1}])
    for changes in ({"at": 4}, {"n": 0}, {"at": 4, "n": 7}, {"n": pc.field("n") - 1}):
        with pytest.raises(ConfigError, match="the higher at, n counts"):
            table.update("id = 'a'", changes)
    table.update("id = 'a'", {"at": 6, "n": 0})
    table.update("id = 'b'", {"n": 2})
    found = {row["id"]: (row["at"], row["n"]) for row in table.to_arrow().to_pylist()}
    assert found == {"a": (6, 0), "b": (5, 2)}


def test_an_update_to_what_stands_for_the_stored_value_is_refused(tmp_path: Path) -> None:
    table = tideline.create(
        str(tmp_path / "t"),
        record_key="id",
        table_version=9,
        schema=pa.schema({"id": pa.string(), "v": pa.string()}),
    )
    hoodie = table.hoodie_table
    with hoodie.lock().acquire(timeout_s=10):
        hoodie.properties.update({"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    table = tideline.open(table.uri)
    table.write([{"id": "a", "v": "x"}])
    with pytest.raises(ConfigError, match="a null stands for the stored value"):
        table.update("id = 'a'", {"v": None})
    table.update("id = 'a'", {"v": "y"})
    assert table.to_arrow(["v"]).to_pylist() == [{"v": "y"}]
