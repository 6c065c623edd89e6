"""Tables whose columns Hudi's schema on read renames, drops, adds again and retypes, file by file.

Hudi alters the table between writes, so that its files are of several versions; we read, write and
run services; Hudi reads the rows of the model and continues altering and writing.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.testing.altered_table import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    AlteredTable,
    Row,
    renamed,
)
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

COLUMNS = (
    "a int, b string, s struct<x:int,y:string>, l array<struct<p:int,q:string>>, "
    "m map<string,struct<u:int>>, f float"
)


def insert(table: AlteredTable, *numbers: int) -> None:
    """Rows of the first version's columns, with Hudi."""
    rows = []
    for n in numbers:
        row = first_row(n)
        table.model[row["id"]] = row
        rows.append(
            f"('k{n}', {n}, 'b{n}', named_struct('x', {n}, 'y', 'y{n}'), "
            f"array(named_struct('p', {n}, 'q', 'q{n}')), map('m', named_struct('u', {n})), "
            f"cast({n}.1 as float), 1, '{row['region']}')"
        )
    table.sql(f"insert into {{t}} values {', '.join(rows)}")


def first_row(number: int) -> Row:
    return {
        "id": f"k{number}",
        "a": number,
        "b": f"b{number}",
        "s": {"x": number, "y": f"y{number}"},
        "l": [{"p": number, "q": f"q{number}"}],
        "m": [("m", {"u": number})],
        "f": pa.scalar(number + 0.1, pa.float32()).as_py(),
        "ts": 1,
        "region": "north" if number % 2 else "south",
    }


def test_rows_stay_whole_while_hudi_alters_and_both_write(
    spark: SparkSession, altering: HudiPeer, tmp_path: Path
) -> None:
    table = AlteredTable(tmp_path / "t", spark, altering, COPY_ON_WRITE, "altered_cow")
    run_history(table)


@pytest.mark.parametrize(
    ("kind", "has_metadata"), [(COPY_ON_WRITE, True), (MERGE_ON_READ, False), (MERGE_ON_READ, True)]
)
def test_rows_stay_whole_in_all_kinds_of_tables(
    spark: SparkSession, altering: HudiPeer, tmp_path: Path, kind: str, has_metadata: bool
) -> None:
    name = f"altered_{kind}_{has_metadata}".lower()
    run_history(AlteredTable(tmp_path / "t", spark, altering, kind, name, has_metadata))


def test_a_writer_of_hudis_without_schema_evolution_may_come_in_between(
    spark: SparkSession, altering: HudiPeer, tmp_path: Path
) -> None:
    """What it rewrites it nulls itself; what it leaves alone keeps its values."""
    table = AlteredTable(tmp_path / "t", spark, altering, COPY_ON_WRITE, "altered_between")
    table.create(COLUMNS)
    insert(table, 1, 2, 3)
    table.sql("alter table {t} rename column a to a2")
    table.reshape(lambda row: renamed(row, {"a": "a2"}))
    altering.run_statement("set hoodie.schema.on.read.enable=false")
    table.sql("update {t} set b = 'plain', ts = 2 where id = 'k2'")
    altering.run_statement("set hoodie.schema.on.read.enable=true")
    table.model["k2"] |= {"a2": None, "b": "plain", "ts": 2}
    assert "latest_schema" not in table.commits()[-1]
    rows = table.plain(table.lake.snapshot(spark).toArrow())
    assert rows == [table.model[key] for key in sorted(table.model)]

    table.upsert({**table.model["k3"], "a2": 30, "ts": 3})
    table.check()
    table.sql("alter table {t} rename column a2 to a3")
    table.reshape(lambda row: renamed(row, {"a2": "a3"}))
    table.check()

    # As the table was, and what came since: each with the columns of its end.
    first = table.lake.timeline().completed().first()
    newest = table.lake.timeline().completed().last()
    assert first is not None
    assert newest is not None
    then = table.plain(table.lake.snapshot(spark, as_of=first.time).toArrow())
    assert then == [first_row(number) for number in (1, 2, 3)]
    since = table.plain(table.lake.incremental(spark, first.time).toArrow())
    assert since == [table.model["k2"], table.model["k3"]]
    base = table.plain(table.lake.read_optimized(spark).toArrow())
    assert base == [table.model[key] for key in sorted(table.model)]


def run_history(table: AlteredTable) -> None:
    table.create(COLUMNS)
    insert(table, 1, 2, 3, 4, 5)
    insert(table, 6, 7)
    rename_and_drop(table)
    # A merge of a file of the first version: k3 is in the same one.
    table.sql("update {t} set b = 'new', ts = 2 where id = 'k1'")
    table.model["k1"] |= {"b": "new", "ts": 2}
    table.check()

    table.upsert({**table.model["k2"], "a2": 200, "b": "ours", "ts": 3})
    table.check()
    rename_nested(table)
    table.check()
    table.cluster_or_compact()
    table.check()

    # Retyped and renamed once more, after our rewrite.
    table.sql("alter table {t} rename column a2 to a3")
    table.sql("alter table {t} alter column a3 type string")
    table.reshape(lambda row: renamed(row, {"a2": "a3"}, a3=str(row["a2"])))
    table.check()
    table.upsert({**table.model["k3"], "a3": "three", "ts": 4})
    table.check()
    add_a_column(table)
    table.check()
    table.sql("update {t} set late = 'hudi', ts = 6 where id = 'k2'")
    table.model["k2"] |= {"late": "hudi", "ts": 6}
    table.check()
    table.cluster_or_compact()
    table.check()

    del table.model["k1"]
    gone = pa.table({"id": ["k1"], "region": ["north"]})
    table.write("delete", gone)
    table.check()
    table.sql("alter table {t} drop column late")
    table.reshape(lambda row: {name: row[name] for name in row if name != "late"})
    table.check()


def rename_and_drop(table: AlteredTable) -> None:
    """A rename, and a column that is dropped and added again: its old values are gone."""
    table.sql("alter table {t} rename column a to a2")
    table.sql("alter table {t} drop column b")
    table.sql("alter table {t} add columns (b string)")
    table.sql("alter table {t} alter column f type double")
    table.reshape(lambda row: renamed(row, {"a": "a2"}, b=None, f=float(f"{row['id'][1:]}.1")))


def rename_nested(table: AlteredTable) -> None:
    """Names inside a struct, a list and a map, and a field added in the middle."""
    table.sql("alter table {t} rename column s.x to x2")
    table.sql("alter table {t} rename column l.element.p to p2")
    table.sql("alter table {t} rename column m.value.u to u2")
    table.sql("alter table {t} add columns (s.z string after x2)")
    table.reshape(
        lambda row: (
            row
            | {
                "s": {"x2": row["s"]["x"], "z": None, "y": row["s"]["y"]},
                "l": [{"p2": item["p"], "q": item["q"]} for item in row["l"]],
                "m": [(key, {"u2": value["u"]}) for key, value in row["m"]],
            }
        )
    )


def add_a_column(table: AlteredTable) -> None:
    """Our batch brings a column, and Hudi learns its id."""
    table.reshape(lambda row: row | {"late": None})
    row = table.model["k1"] | {"late": "ours", "ts": 5}
    table.model["k1"] = row
    schema = table.rows().schema.append(pa.field("late", pa.string()))
    batch = pa.Table.from_pylist([row], schema=schema)
    before = json.loads(table.commits()[-1]["latest_schema"])
    table.write("upsert", batch)
    after = json.loads(table.commits()[-1]["latest_schema"])
    assert after["max_column_id"] == before["max_column_id"] + 1
    assert after["fields"][-1]["id"] == after["max_column_id"]
