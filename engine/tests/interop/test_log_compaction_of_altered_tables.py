"""Log compactions of ours on a table that Hudi altered: blocks of several versions become one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.testing.altered_table import MERGE_ON_READ, AlteredTable, renamed
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

DUE = {"hoodie.log.compaction.blocks.threshold": "2"}
COMPACTS = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}


@pytest.mark.parametrize("has_metadata", [False, True])
def test_hudi_reads_and_compacts_what_our_log_compaction_left(
    spark: SparkSession, altering: HudiPeer, tmp_path: Path, has_metadata: bool
) -> None:
    name = f"log_compacted_{has_metadata}".lower()
    table = AlteredTable(tmp_path / "t", spark, altering, MERGE_ON_READ, name, has_metadata)
    table.create("a int, b string, s struct<x:int,y:string>, f float")
    rows = []
    for n in range(1, 8):
        struct = {"x": n, "y": f"y{n}"}
        row = {"id": f"k{n}", "a": n, "b": f"b{n}", "s": struct, "f": 0.5, "ts": 1,
               "region": "north"}  # fmt: skip
        table.model[f"k{n}"] = row
        rows.append(
            f"('k{n}', {n}, 'b{n}', named_struct('x', {n}, 'y', 'y{n}'), cast(0.5 as float), 1, "
            "'north')"
        )
    table.sql(f"insert into {{t}} values {', '.join(rows)}")
    # Blocks of three versions: with the names `a` and `b`, after a rename, after a drop and an add.
    table.sql("update {t} set b = 'first', ts = 2 where id in ('k1', 'k2', 'k3')")
    for key in ("k1", "k2", "k3"):
        table.model[key] |= {"b": "first", "ts": 2}
    table.sql("alter table {t} rename column a to a2")
    table.sql("alter table {t} rename column s.x to x2")
    table.sql("alter table {t} alter column f type string")
    table.reshape(
        lambda row: (
            renamed(row, {"a": "a2"}) | {"s": {"x2": row["s"]["x"], "y": row["s"]["y"]}, "f": "0.5"}
        )
    )
    table.upsert(
        {**table.model["k2"], "a2": 200, "ts": 3}, {**table.model["k4"], "f": "x", "ts": 3}
    )
    table.sql("alter table {t} drop column b")
    table.sql("alter table {t} add columns (b string)")
    table.reshape(lambda row: {**{k: v for k, v in row.items() if k != "b"}, "b": None})
    found = table.lake.hoodie_table.schemas.newest(table.lake.hoodie_table.timeline())
    assert found is not None
    names = list(found.names)
    table.reshape(lambda row: {name: row[name] for name in names})
    table.sql("update {t} set b = 'new', ts = 4 where id = 'k3'")
    table.model["k3"] |= {"b": "new", "ts": 4}
    del table.model["k5"]
    table.sql("delete from {t} where id = 'k5'")
    table.check()

    done = table.lake.run("log_compaction", options=DUE)
    assert done.done, done
    table.check()

    table.sql("update {t} set a2 = 60, ts = 5 where id = 'k6'")
    table.model["k6"] |= {"a2": 60, "ts": 5}
    table.check()
    table.sql("alter table {t} rename column a2 to a3")
    table.reshape(lambda row: renamed(row, {"a2": "a3"}))
    table.check()
    for name, text in COMPACTS.items():
        altering.run_statement(f"set {name}={text}")
    try:
        table.sql("update {t} set a3 = 70, ts = 6 where id = 'k7'")
    finally:
        altering.run_statement("set hoodie.compact.inline=false")
        altering.run_statement("reset hoodie.compact.inline.max.delta.commits")
    table.model["k7"] |= {"a3": 70, "ts": 6}
    actions = {
        (peer_instant.action, peer_instant.state)
        for peer_instant in altering.timeline(str(table.folder))
    }
    assert ("commit", "COMPLETED") in actions, "Hudi compacted"
    table.check()
