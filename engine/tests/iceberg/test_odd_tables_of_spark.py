"""Tables of Iceberg's Spark runtime that few people make: with files of statistics, with a branch
of an older schema, with names of columns that need quotes. Both write on and read the same."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_peer_tables import MERGE_ON_READ

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ODD = ("id", "a b", "a-b", "größe", "select", "x`y", "%41", "__c", "1st", 'quo"te')
"""A key, and columns; the second is what the table is partitioned by."""
PARTS = ("x y", "a/b", "ü=1")


def properties(mode: str) -> str:
    """Of a table whose every change of rows is made in this mode."""
    modes = (f"'{name}'='{mode}'" for name in MERGE_ON_READ if name.endswith(".mode"))
    return ", ".join(("'format-version'='2'", *modes))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def row_of(number: int) -> dict[str, Any]:
    texts = {name: f"{name} {number}" for name in ODD[2:]}
    return {"id": number, "a b": PARTS[number % len(PARTS)], **texts}


def by_id(rows: pa.Table) -> dict[int, dict[str, Any]]:
    found = {row["id"]: row for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_names_that_need_quotes(iceberg_peer: IcebergPeer, mode: str) -> None:
    name = f"odd_{mode.replace('-', '_')}"
    columns = ", ".join(f"{quoted(column)} string" for column in ODD[1:])
    iceberg_peer.run(
        f"create table lake.peer.{name} (id bigint not null, {columns}) using iceberg "
        f"partitioned by (`a b`) tblproperties ({properties(mode)})"
    )
    rows = pa.Table.from_pylist([row_of(number) for number in range(20)])
    iceberg_peer.append(f"{iceberg_peer.warehouse}/peer/{name}", rows)
    table = tideline.open_iceberg(f"{iceberg_peer.warehouse}/peer/{name}")
    expected = {number: row_of(number) for number in range(20)}
    assert by_id(table.to_arrow()) == expected
    for column in ODD[1:]:
        wanted = {n for n, row in expected.items() if row[column] == expected[7][column]}
        text = str(expected[7][column]).replace("'", "''")
        assert set(by_id(table.to_arrow(where=f"{quoted(column)} = '{text}'"))) == wanted, column

    changed = [row_of(number) | {"größe": "new"} for number in (3, 30)]
    table.write(pa.Table.from_pylist(changed), "upsert", key="id")
    table.delete("`x``y` = 'x`y 5'")
    iceberg_peer.run(
        f"update lake.peer.{name} set `select` = 'spark' where `a b` = 'a/b' and id < 5",
        f"delete from lake.peer.{name} where {quoted('x`y')} = 'x`y 6'",
    )
    table.refresh().rewrite(options={"rewrite-all": "true"})
    expected |= {row["id"]: row for row in changed}
    for number in (1, 4):
        expected[number] = expected[number] | {"select": "spark"}
    del expected[5], expected[6]
    assert by_id(table.refresh().to_arrow()) == expected
    assert by_id(iceberg_peer.read(table.uri)) == expected
    assert by_id(iceberg_peer.duckdb_read(table.uri)) == expected
    assert not table.check()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_branch_of_an_older_schema(iceberg_peer: IcebergPeer, mode: str) -> None:
    name = f"branched_{mode.replace('-', '_')}"
    iceberg_peer.run(
        f"create table lake.peer.{name} (id bigint not null, old string, kept string) "
        f"using iceberg tblproperties ({properties(mode)})",
        f"insert into lake.peer.{name} select id, 'o' || id, 'k' || id from range(10)",
        f"alter table lake.peer.{name} create branch audit",
        f"insert into lake.peer.{name}.branch_audit select id, 'b', 'b' from range(10, 12)",
        f"alter table lake.peer.{name} drop column old",
        f"alter table lake.peer.{name} rename column kept to held",
        f"alter table lake.peer.{name} add column extra int",
    )
    table = tideline.open_iceberg(f"{iceberg_peer.warehouse}/peer/{name}")
    branch = by_id(table.to_arrow(as_of="audit"))
    assert sorted(branch) == list(range(12))
    assert branch[11] == {"id": 11, "held": "b", "extra": None}
    written = pa.Table.from_pylist([{"id": 11, "held": "ours", "extra": 4}])
    table.write(written, "upsert", key="id", branch="audit")
    table.delete("id = 0", branch="audit")
    iceberg_peer.run(f"update lake.peer.{name}.branch_audit set extra = 7 where id = 1")
    expected = {number: row for number, row in branch.items() if number}
    expected |= {11: written.to_pylist()[0], 1: branch[1] | {"extra": 7}}
    assert by_id(table.refresh().to_arrow(as_of="audit")) == expected
    assert by_id(iceberg_peer.sql(f"select * from lake.peer.{name}.branch_audit")) == expected
    assert sorted(by_id(table.to_arrow())) == list(range(10)), "main stays as it was"
    assert not table.check()


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_statistics_stay_as_long_as_their_snapshot(
    iceberg_peer: IcebergPeer, version: int
) -> None:
    name = f"measured_v{version}"
    measured = (
        f"call lake.system.compute_table_stats(table => 'peer.{name}')",
        f"call lake.system.compute_partition_stats(table => 'peer.{name}')",
    )
    iceberg_peer.run(
        f"create table lake.peer.{name} (id bigint, part string) using iceberg "
        f"partitioned by (part) tblproperties ('format-version'='{version}')",
        f"insert into lake.peer.{name} select id, 'p' || (id % 2) from range(10)",
        *measured,
    )
    folder = Path(f"{iceberg_peer.warehouse}/peer/{name}")
    first = statistics_in(folder)
    assert len(first) == 2
    table = tideline.open_iceberg(str(folder))
    table.write(pa.Table.from_pylist([{"id": 10, "part": "p0"}]))
    iceberg_peer.run(f"refresh table lake.peer.{name}", *measured)
    second = statistics_in(folder) - first
    assert len(second) == 2
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    table.refresh().remove_orphans()
    assert statistics_in(folder) == first | second, "they are no orphans"
    table.expire(older_than=dt.datetime.now(dt.UTC), retain_last=1)
    assert statistics_in(folder) == second
    document = table.refresh().metadata.document
    for kind in ("statistics", "partition-statistics"):
        assert [item["snapshot-id"] for item in document[kind]] == [
            table.metadata.current_snapshot_id
        ]
    assert iceberg_peer.read(str(folder)).num_rows == 11


def statistics_in(folder: Path) -> set[str]:
    found = {path.name for path in (folder / "metadata").iterdir() if not path.name.startswith(".")}
    return {name for name in found if "stats" in name}
