"""Columns that Hudi's schema on read alters beside statistics and indexes of them, and our writes:
Hudi's queries find with data skipping, which is their default, what they find without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.shared_folder import SharedFolder

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SETTINGS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
QUIET = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}
SKIPPING = "hoodie.enable.data.skipping"


@dataclass(frozen=True)
class Case:
    """What Hudi alters, and conditions whose rows it loses by statistics of before."""

    alter: tuple[str, ...]
    wheres: tuple[str, ...]
    index: str = ""


CASES = {
    "renamed": Case(("rename column n to x",), ("x = 2", "x > 2", "x = 2 and m is not null")),
    "added again": Case(
        ("drop column n", "add columns (n int)"), ("n is null", "n is null or m = 1")
    ),
    "swapped": Case(
        ("rename column n to other", "rename column m to n", "rename column other to m"),
        ("n = 200", "m = 2", "n > 250 or m = 1"),
    ),
    "text": Case(("alter column n type string",), ("n = '100'", "n < '2'", "n = '2'")),
    "index of values": Case(
        ("rename column n to other", "rename column m to n", "rename column other to m"),
        ("n = 200", "n = 4"),
        "create index i on {t} (n)",
    ),
}


@dataclass
class Altered(SharedFolder):
    """A table that Hudi makes and alters."""

    name: str = ""

    def sql(self, statement: str) -> None:
        self.peer.run_statement(statement.format(t=self.name))

    def found(self, where: str, *, skipping: bool) -> list[str]:
        with self.peer.settings({SKIPPING: str(skipping).lower()}):
            rows = self.peer.sql(f"select id from {self.name} where {where}")
        return sorted(rows["id"].to_pylist())

    def upsert(self, *rows: dict[str, Any]) -> None:
        lake = self.small.lake()
        schema = lake.hoodie_table.schemas.newest(lake.timeline())
        lake.write(pa.Table.from_pylist(list(rows), schema=schema), "upsert", options=QUIET)

    def check(self, *wheres: str) -> None:
        self.sql("refresh table {t}")
        for where in wheres:
            wanted = self.found(where, skipping=False)
            assert self.found(where, skipping=True) == wanted, where
            assert sorted(self.small.lake().to_arrow(["id"], where)["id"].to_pylist()) == wanted


@pytest.fixture
def altering(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    with hudi_peer.settings(SETTINGS, "hoodie.write.table.version"):
        yield hudi_peer


def made(
    peer: HudiPeer, folder: Path, name: str, *, version: int = 9, index: bool = False
) -> Altered:
    """Two partitions of two files, one of them with a range of numbers."""
    table = Altered(folder, peer, name)
    peer.run_statement(f"set hoodie.write.table.version={version}")
    indexed = ", 'hoodie.metadata.record.index.enable'='true'" if index else ""
    table.sql(
        "create table {t} (id string, n int, m int, ts bigint, p string) using hudi tblproperties("
        f"type='cow', primaryKey='id', preCombineField='ts'{indexed}, "
        f"'hoodie.write.table.version'='{version}') partitioned by (p) location '{folder}'"
    )
    table.sql("insert into {t} values ('k1',1,100,1,'x'), ('k2',2,200,1,'y'), ('k5',100,3,1,'y')")
    table.sql("insert into {t} values ('k3',3,300,1,'x'), ('k4',4,400,1,'y')")
    return table


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_queries_find_all_rows_after_a_commit_of_ours(
    altering: HudiPeer, tmp_path: Path, case: Case
) -> None:
    name = f"altered_statistics_{list(CASES.values()).index(case)}"
    table = made(altering, tmp_path / "t", name, index=bool(case.index))
    if case.index:
        # Its CREATE INDEX fails where a session evolves schemas.
        altering.run_statement("set hoodie.schema.on.read.enable=false")
        table.sql(case.index)
        altering.run_statement("set hoodie.schema.on.read.enable=true")
    for statement in case.alter:
        table.sql(f"alter table {{t}} {statement}")
    lake = table.small.lake()
    schema = lake.hoodie_table.schemas.newest(lake.timeline())
    assert schema is not None
    numbers = {column: 7 if pa.types.is_integer(schema.field(column).type) else "7"
               for column in schema.names if column not in ("id", "ts", "p")}  # fmt: skip
    table.upsert({"id": "k3", "p": "x", "ts": 2, **numbers})
    table.check(*case.wheres)
    listed = set(table.table.config.metadata_partitions)
    assert listed.isdisjoint({COLUMN_STATS, PARTITION_STATS, "secondary_index_i"})


@pytest.mark.parametrize("on_read", [True, False])
@pytest.mark.parametrize("version", [8, 9])
def test_partitions_keep_statistics_after_hudi_added_a_column(
    altering: HudiPeer, tmp_path: Path, on_read: bool, version: int
) -> None:
    name = f"added_to_{version}_{on_read}".lower()
    table = made(altering, tmp_path / "t", name, version=version)
    altering.run_statement(f"set hoodie.schema.on.read.enable={str(on_read).lower()}")
    table.sql("alter table {t} add columns (late int)")
    queries = (
        *("late = 7", "late is null and p = 'y'", "n = 4 and late is null", "n = 100"),
        *("m > 250", "late > 5 or n = 3", "late is null and m is not null and p = 'y'"),
    )
    table.upsert({"id": "k2", "p": "y", "ts": 2, "n": 2, "m": 7, "late": 7})
    assert {COLUMN_STATS, PARTITION_STATS} <= set(table.table.config.metadata_partitions)
    table.check(*queries)
    table.sql("update {t} set late = 8, ts = 3 where id = 'k3'")
    table.upsert({"id": "k9", "p": "x", "ts": 2, "n": 9, "m": 9, "late": 9})
    assert {COLUMN_STATS, PARTITION_STATS} <= set(table.table.config.metadata_partitions)
    table.check(*queries, "late >= 8", "n = 1 and late is null")
    assert table.small.lake().check() == ()
