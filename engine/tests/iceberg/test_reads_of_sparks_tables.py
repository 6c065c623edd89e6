"""Tables that Iceberg's Spark runtime writes, in every file format: we read the rows that it reads,
of every snapshot, branch and tag, and a filter gives what filtering all rows gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tideline
from tideline.formats.row_changes import CHANGE_INSTANT, CHANGE_TYPE
from tideline.formats.row_filter import RowFilter
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TYPES = """
  id bigint not null, flag boolean, small int, big bigint, single float, precise double,
  price decimal(9, 2), large decimal(28, 5), name string, raw binary,
  day date, moment timestamp, wall timestamp_ntz,
  nested struct<a: int, b: struct<c: string, d: array<int>>>,
  list array<struct<x: int, y: string>>, dictionary map<string, array<double>>,
  numbered map<int, struct<z: string>>
"""
VALUES = """
  select id, id % 3 = 0, cast(id as int), id * 10000000000, cast(id as float) / 3,
    if(id % 7 = 3, double('NaN'), id / 7),
    cast(id as decimal(9, 2)), cast(id * 1234567 as decimal(28, 5)),
    if(id % 6 = 5, null, concat('käse-', char(97 + cast(id as int) % 5), id)),
    cast(cast(id as string) as binary), date_add(date '1969-12-25', cast(id as int)),
    timestamp_micros(id * 34567890123 - 999999999999),
    cast(timestamp_micros(id * 987654321 - 5) as timestamp_ntz),
    named_struct('a', cast(id as int), 'b',
      named_struct('c', 'c', 'd', array(1, null, cast(id as int)))),
    array(named_struct('x', cast(id as int), 'y', 'y'), null),
    map('k', array(id / 3, null), 'l', null),
    map(cast(id as int), named_struct('z', 'z'), 7777, null)
  from range({start}, {end})
"""
NULLS = "select -1, " + ", ".join(["null"] * 16)
HISTORY = (
    "insert into {t} " + VALUES.format(start=0, end=40),
    "insert into {t} " + NULLS,
    "alter table {t} create tag first",
    "delete from {t} where id % 9 = 4",
    "alter table {t} create branch audit",
    "insert into {t}.branch_audit " + VALUES.format(start=100, end=104),
    "alter table {t} add column extra struct<e: int, f: string>",
    "alter table {t} add column nested.b.g int",
    "alter table {t} drop column flag",
    "alter table {t} rename column name to label",
    "alter table {t} rename column nested.a to first",
    "alter table {t} alter column small type bigint",
    "alter table {t} alter column single type double",
    "alter table {t} alter column price type decimal(15, 2)",
    "update {t} set label = 'changed', extra = named_struct('e', 1, 'f', 'f') where id % 5 = 2",
    "alter table {t} add column flag string",
    "update {t} set flag = 'new' where id between 20 and 24",
    "delete from {t} where id = 33",
)
EVOLVED_SPEC = (
    "alter table {t} drop partition field bucket(3, id)",
    "alter table {t} add partition field truncate(3, label)",
    "update {t} set small = small + 1 where id > 30",
)
CONDITIONS = (
    "id between 5 and 9", "label = 'changed'", "label is null", "label like 'käse-b%'",
    "small in (14, 35)", "price > 20.5", "precise <= 3", "precise is null", "precise > 2",
    "day < date '1970-01-01'", "moment >= timestamp '1970-01-01 06:00:00+00:00'",
    "wall < timestamp '1970-01-01 01:00:00'", "flag is not null", "flag = 'new' or id = 3",
    "not (id > 3)", "single >= 10 and small < 50", "large = 1234567", "id <> 7",
)  # fmt: skip


@dataclass
class SparkTable:
    """A table of the peer's catalog; `states` are the rows it found after each statement."""

    peer: IcebergPeer
    name: str
    states: dict[int, list[str]] = field(default_factory=dict)

    @property
    def sql_name(self) -> str:
        return f"lake.reads.{self.name}"

    def run(self, statements: Sequence[str]) -> None:
        self.peer.run(*(statement.replace("{t}", self.sql_name) for statement in statements))

    def sql(self, suffix: str = "") -> pa.Table:
        return self.peer.sql(f"select * from {self.sql_name} {suffix}")

    def ours(self) -> IcebergLakeTable:
        return tideline.open_iceberg(str(self.peer.warehouse / "reads" / self.name))


def made(
    peer: IcebergPeer, name: str, file_format: str, version: int, mode: str, partitioned: str
) -> SparkTable:
    table = SparkTable(peer, name)
    modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "update", "merge"))
    table.run(
        [
            f"create table {{t}} ({TYPES}) using iceberg {partitioned} tblproperties ("
            f"'format-version'='{version}', 'write.format.default'='{file_format}', "
            f"'write.distribution-mode'='none', {modes})",
            *HISTORY,
        ]
    )
    return table


def texts(rows: pa.Table) -> list[str]:
    """Rows as texts, in an order of their own; NaN is equal to itself there."""
    zoned = [pa.field(item.name, _utc(item.type)) for item in rows.schema]
    return sorted(repr(row) for row in rows.cast(pa.schema(zoned)).to_pylist())


def replayed(changed: pa.Table) -> Counter[str]:
    """What changes from the beginning on come down to."""
    kinds = changed[CHANGE_TYPE]
    rows = changed.drop_columns([CHANGE_TYPE, CHANGE_INSTANT])
    added = pc.is_in(kinds, value_set=pa.array(["INSERT", "UPDATE_AFTER"]))
    found = Counter(texts(rows.filter(added)))
    found.subtract(texts(rows.filter(pc.invert(added))))
    assert min(found.values()) >= 0
    return +found


def _utc(kind: pa.DataType) -> pa.DataType:
    is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp("us", "UTC") if is_zoned else kind


BUCKETS = "partitioned by (bucket(3, id), days(moment))"


@pytest.mark.parametrize(
    ("file_format", "version", "mode", "partitioned"),
    [
        ("orc", 2, "merge-on-read", BUCKETS),
        ("orc", 3, "copy-on-write", ""),
        ("avro", 2, "merge-on-read", BUCKETS),
        ("avro", 3, "merge-on-read", ""),
        ("parquet", 1, "copy-on-write", BUCKETS),
        ("parquet", 2, "merge-on-read", BUCKETS),
        ("parquet", 3, "merge-on-read", "partitioned by (truncate(10, id), hours(wall))"),
    ],
)
def test_every_state_has_the_rows_that_spark_finds(
    iceberg_peer: IcebergPeer, file_format: str, version: int, mode: str, partitioned: str
) -> None:
    name = f"{file_format}{version}"
    table = made(iceberg_peer, name, file_format, version, mode, partitioned)
    if partitioned == BUCKETS:
        table.run(EVOLVED_SPEC)
    ours = table.ours()
    everything = ours.to_arrow()
    assert texts(everything) == texts(table.sql())
    assert everything.num_rows == ours.count() > 30
    assert set(ours.files()["format"].to_pylist()) == {file_format}
    for snapshot in ours.snapshots:
        number = snapshot.snapshot_id
        then = table.sql(f"version as of {number}")
        assert texts(ours.to_arrow(as_of=number)) == texts(then), snapshot
        changed = ours.changes(0, number).read_all()
        assert replayed(changed) == Counter(texts(ours.to_arrow(as_of=number))), snapshot
    for ref in ("first", "audit", "main"):
        assert texts(ours.to_arrow(as_of=ref)) == texts(table.sql(f"version as of '{ref}'")), ref
    check_filters(ours, everything)


def check_filters(ours: IcebergLakeTable, everything: pa.Table) -> None:
    chosen = random.Random(7)
    conditions = list(CONDITIONS)
    for _ in range(30):
        left, right = chosen.sample(CONDITIONS, 2)
        joined = f"({left}) {chosen.choice(['and', 'or'])} ({right})"
        conditions.append(chosen.choice([joined, f"not ({joined})"]))
    for condition in conditions:
        expression: Any = RowFilter.of(condition, everything.schema).expression
        wanted = everything.filter(expression)
        assert texts(ours.to_arrow(filter=condition)) == texts(wanted), condition
        assert ours.count(condition) == wanted.num_rows, condition
        only = ours.to_arrow(["label", "id"], filter=condition)
        assert texts(only) == texts(wanted.select(["label", "id"])), condition


def test_pyiceberg_and_duckdb_find_the_same_rows(iceberg_peer: IcebergPeer) -> None:
    table = made(iceberg_peer, "peers", "parquet", 2, "merge-on-read", BUCKETS)
    ours, uri = table.ours().to_arrow(), str(iceberg_peer.warehouse / "reads" / "peers")
    simple = ["id", "small", "big", "price", "label", "day", "wall", "flag"]
    wanted = texts(ours.select(simple))
    for theirs in (iceberg_peer.pyiceberg_read(uri), iceberg_peer.duckdb_read(uri)):
        assert texts(theirs.select(simple).cast(ours.select(simple).schema)) == wanted
