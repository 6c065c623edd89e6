"""Statistics that Hudi made, kept by us: its queries prune by them and lose no row.

Each query runs in Hudi with the data skipping that is its default, and must find what a look at
every row finds. A wrong bound, or a row that is missing, hides rows from some of them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.table_config import COLUMN_STATS, FILES, PARTITION_STATS
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.shared_folder import SharedFolder

STATISTICS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
pytestmark = [pytest.mark.interop, pytest.mark.slow]

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LONG_NAME = "a_column_with_a_name_of_more_than_thirty_two_characters"
ALL = (COLUMN_STATS, FILES, PARTITION_STATS)

Found = Callable[[Mapping[str, Any]], bool]
QUERIES: Mapping[str, Found] = {
    "v = 23": lambda row: row["v"] == 23,
    "v < 5": lambda row: row["v"] < 5,
    "v > 200 and p <> 'p9'": lambda row: row["v"] > 200,
    "i is null": lambda row: row["i"] is None,
    "i = 1": lambda row: row["i"] == 1,
    "i is not null and i < 3": lambda row: row["i"] is not None and row["i"] < 3,
    "d = 1.5": lambda row: row["d"] == 1.5,
    "d < 0": lambda row: row["d"] < 0,
    "f = 1.0": lambda row: row["f"] == 1.0,
    "amount = 0.06": lambda row: row["amount"] == Decimal("0.06"),
    "amount < 0": lambda row: row["amount"] < 0,
    "day = date'2020-01-03'": lambda row: row["day"] == datetime.date(2020, 1, 3),
    "at >= timestamp'2020-01-01T05:00:00Z'": lambda row: (
        row["at"] >= START + datetime.timedelta(hours=5)
    ),
    "s = 'a2'": lambda row: row["s"] == "a2",
    "s > 'a6'": lambda row: row["s"] > "a6",
    f"{LONG_NAME} = 'x3'": lambda row: row[LONG_NAME] == "x3",
    "b = false": lambda row: not row["b"],
    "n is null": lambda row: row["n"] is None,
    "n = 'x'": lambda row: row["n"] == "x",
    "v = 23 and i = 2": lambda row: row["v"] == 23 and row["i"] == 2,
    "_hoodie_record_key = 'k003'": lambda row: row["id"] == "k003",
    "_hoodie_partition_path = 'p1'": lambda row: row["p"] == "p1",
}


def rows(keys: Iterable[int], v: int, *, partitions: int = 2) -> pa.Table:
    """Rows of all kinds of columns that are indexed; keys of one partition are apart by so many."""
    wanted = list(keys)
    count = len(wanted)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "p": [f"p{key % partitions}" for key in wanted],
            "ts": pa.array([v] * count, pa.int64()),
            "v": pa.array([key * 10 + v for key in wanted], pa.int64()),
            "i": pa.array([key if key % 3 else None for key in wanted], pa.int32()),
            "f": pa.array([key / 2 for key in wanted], pa.float32()),
            "d": pa.array([key * 1.5 * (-1) ** v for key in wanted], pa.float64()),
            "amount": pa.array(
                [Decimal(key * v * (-1) ** key) / 100 for key in wanted], pa.decimal128(10, 2)
            ),
            "day": [START.date() + datetime.timedelta(days=key) for key in wanted],
            "at": pa.array(
                [START + datetime.timedelta(hours=key) for key in wanted],
                pa.timestamp("us", "UTC"),
            ),
            "s": [f"a{key}" * (600 if key == 7 else 1) for key in wanted],
            LONG_NAME: [f"x{key}" for key in wanted],
            "b": [key % 2 == 0 for key in wanted],
            "n": pa.array(["x" if v == 6 else None] * count, pa.string()),
        }
    )


@dataclass
class Shared(SharedFolder):
    """A table that Hudi made with its defaults, and both write."""

    version: int
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)

    def by_hudi(self, keys: Iterable[int], v: int, operation: str = "upsert", **more: str) -> None:
        given = {
            "hoodie.table.name": "shared",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.index.type": "SIMPLE",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **version_options(self.version),
            **self.options,
            **more,
        }
        self.peer.write(str(self.path), rows(keys, v), operation=operation, options=given)

    def by_us(self, keys: Iterable[int], v: int, operation: str = "upsert", **more: str) -> None:
        self.small.lake().write(rows(keys, v), operation, options=more)

    def run(self, service: str, **options: str) -> None:
        done = self.small.lake().run(service, options=options)
        assert done.done, done

    def check(self, *, partitions: tuple[str, ...] = ALL, has_statistics: bool = True) -> None:
        """Queries of Hudi's find all rows, and the bounds that are stored hold them."""
        assert self.table.config.metadata_partitions == partitions
        there = self.small.lake().scan().read_all().to_pylist()
        assert there
        name = self.peer.table_at(str(self.path))
        self.peer.run_statement(f"refresh table {name}")
        for where, is_found in QUERIES.items():
            result = self.peer.sql(f"select id from {name} where {where}")
            expected = sorted(row["id"] for row in there if is_found(row))
            assert sorted(result["id"].to_pylist()) == expected, where
        if has_statistics:
            self._check_bounds(there)

    def _check_bounds(self, there: list[dict[str, Any]]) -> None:
        partitions = {row["p"] for row in there}
        said = {
            (row.file, row.column): row for row in self.stored(PARTITION_STATS_PARTITION).values()
        }
        assert {partition for partition, _ in said} == partitions
        for (partition, column), row in said.items():
            if column in ("v", "i", "s", "f", "d") and column in there[0]:
                values = [item[column] for item in there if item["p"] == partition]
                known = [value for value in values if value is not None]
                assert row.range.values >= len(values)
                if known and column != "s":
                    assert row.range.least is not None
                    assert row.range.greatest is not None
                    assert float(row.range.least) <= min(known)
                    assert float(row.range.greatest) >= max(known)

    def stored(self, partition: Any) -> Mapping[str, ColumnRow]:
        return rows_of(MetadataTable(self.table.store, self.table.clock).read(partition))


@pytest.fixture(
    params=[
        (9, "COPY_ON_WRITE"),
        (9, "MERGE_ON_READ"),
        (8, "COPY_ON_WRITE"),
        (8, "MERGE_ON_READ"),
    ],
    ids="v{0[0]} {0[1]}".format,
)
def shared(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Shared:
    version, kind = request.param
    made = Shared(tmp_path / "shared", hudi_peer, version, kind)
    made.by_hudi(range(8), 1)
    return made


def test_both_engines_keep_them_in_turn(shared: Shared) -> None:
    shared.check()
    shared.by_us([1, 2, 5, 7, 20], 3)
    shared.check()
    shared.by_hudi([2, 3, 31], 4)
    shared.check()
    shared.by_us([3, 6], 6)
    shared.by_us([4], 5, "delete")
    shared.check()
    shared.by_us([41], 5, "insert")
    shared.by_us([50, 52], 5, "insert_overwrite")
    shared.check()
    shared.by_hudi([50, 53], 6)
    shared.check()
    shared.small.lake().delete_partitions(["p1"])
    shared.check()
    shared.by_hudi([1, 3], 7)
    shared.check()


def test_services_keep_them(shared: Shared) -> None:
    for v in range(2, 8):
        shared.by_us([v, v + 1, v + 20], v)
    if shared.kind == "MERGE_ON_READ":
        shared.run("log_compaction", **{"hoodie.log.compaction.blocks.threshold": "2"})
        shared.check()
        shared.by_us([2, 9], 9)
        shared.run("compaction", **{"hoodie.compact.inline.max.delta.commits": "1"})
        shared.check()
    shared.run("clustering", **{"hoodie.clustering.inline.max.commits": "1"})
    shared.check()
    before = len(shared.stored(COLUMN_STATS_PARTITION))
    shared.by_us([2], 9)
    shared.by_us([3], 9)
    shared.run("cleaning", **{"hoodie.clean.commits.retained": "1"})
    shared.check()
    assert len(shared.stored(COLUMN_STATS_PARTITION)) < before
    shared.by_hudi([2, 3, 61], 10)
    shared.check()


def test_our_compactions_of_the_metadata_table_take_them_along(shared: Shared) -> None:
    soon = {"hoodie.metadata.compact.max.delta.commits": "2"}
    for v in range(2, 9):
        shared.by_us([v, 2 * v], v, **soon)
        shared.by_hudi([v + 1], v, **soon)
    shared.check()


def test_nan_ends_them_for_no_bounds_find_it(shared: Shared) -> None:
    row = rows([5], 9)
    at = row.schema.get_field_index("d")
    with_nan = row.set_column(at, "d", pa.array([float("nan")]))
    shared.small.lake().write(with_nan, "upsert")
    assert shared.table.config.metadata_partitions == (FILES,)
    name = shared.peer.table_at(str(shared.path))
    shared.peer.run_statement(f"refresh table {name}")
    for where in ("d = double('NaN')", "d > 1000", "isnan(d)"):
        found = shared.peer.sql(f"select id from {name} where {where}")
        assert found["id"].to_pylist() == ["k005"], where


@pytest.mark.parametrize(
    ("version", "kind"),
    [(9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ"), (8, "MERGE_ON_READ")],
    ids=["v9 cow", "v9 mor", "v8 mor"],
)
def test_statistics_that_we_make_are_used_and_continued(
    tmp_path: Path, hudi_peer: HudiPeer, version: int, kind: str
) -> None:
    made = Shared(tmp_path / "ours", hudi_peer, version, kind)
    LakeTable.create(
        made.small.location.uri,
        name="shared",
        record_key="id",
        partition_by="p",
        ordering="ts",
        table_type=kind,
        table_version=version,
    )
    made.by_us(range(8), 1, "insert")
    made.by_us([1, 2, 20], 3)
    made.by_us([4], 5, "delete")
    assert made.table.config.metadata_partitions == ()
    for name in (COLUMN_STATS, PARTITION_STATS):
        made.small.lake().indexes().create(name)
    made.check()
    made.by_us([5, 7], 6)
    made.check()
    made.by_hudi([2, 3, 31], 7)
    made.check()
    made.by_us([3, 41], 8)
    made.check()
    made.small.lake().indexes().drop(COLUMN_STATS)
    made.check(partitions=(FILES,), has_statistics=False)
    made.by_hudi([2, 3, 51], 9)
    made.check()
    for name in (PARTITION_STATS, COLUMN_STATS):
        made.small.lake().indexes().drop(name)
    for name in (COLUMN_STATS, PARTITION_STATS):
        made.small.lake().indexes().create(name)
    made.check()
    made.by_hudi([6, 61], 10)
    made.check()


def test_rows_that_hudi_loses_after_an_update_of_some_columns_are_found_and_mended(
    tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    """A log that Hudi's MERGE writes has statistics of its columns alone."""
    shared = Shared(tmp_path / "shared", hudi_peer, 9, "MERGE_ON_READ")
    shared.by_hudi(range(6), 1)
    assert shared.small.lake().check() == ()
    name = hudi_peer.table_at(str(shared.path))
    hudi_peer.run_statement(
        f"merge into {name} as t using (select 'k003' id, 'p1' p, 9L ts, 999L v) as s "
        "on t.id = s.id and t.p = s.p when matched then update set t.v = s.v, t.ts = s.ts"
    )
    where = "i is null and v = 999"
    both = f"select id from {name} where {where}"
    assert hudi_peer.sql(both)["id"].to_pylist() == []
    assert shared.small.lake().to_arrow(["id"], where)["id"].to_pylist() == ["k003"]
    (found,) = shared.small.lake().check()
    assert found.message.startswith("has statistics, but none of id, i, f, ")
    shared.small.lake().repair()
    hudi_peer.run_statement(f"refresh table {name}")
    assert hudi_peer.sql(both)["id"].to_pylist() == ["k003"]


@pytest.mark.parametrize("version", [8, 9])
def test_queries_of_hudi_find_rows_of_a_column_that_got_another_type(
    version: int, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    table = with_statistics(tmp_path, version)
    table.write(pa.table({"id": ["a", "b"], "p": ["p0", "p1"], "n": pa.array([1, 2], pa.int32())}))
    table.write(pa.table({"id": ["c"], "p": ["p1"], "n": pa.array([1 << 40], pa.int64())}))
    where = "select count(*) from t where n > 1"
    found = hudi_peer.aggregate(table.hoodie_table.hadoop_uri, where, STATISTICS)
    assert found.result == [[2]]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_queries_of_hudi_find_early_days_and_times(
    version: int, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    table = with_statistics(tmp_path, version)
    days = [datetime.date(1, 1, 1), datetime.date(1582, 10, 10), datetime.date(2020, 1, 1)]
    for day in days:
        at = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
        of_day = {"id": [str(day)], "p": [str(day.year)], "day": [day]}
        table.write(pa.table({**of_day, "at": pa.array([at], pa.timestamp("us", "UTC"))}))
    for number, day in enumerate(days):
        conditions = {
            f"day <= date'{day}'": number + 1,
            f"at <= timestamp'{day} 00:00:00'": number + 1,
        }
        if day.year != 1582:
            # Spark finds no equal day among those that the other calendar does not have.
            conditions |= {f"day = date'{day}'": 1, f"at = timestamp'{day} 00:00:00'": 1}
        for where, count in conditions.items():
            statement = f"select count(*) from t where {where}"
            uri = table.hoodie_table.hadoop_uri
            assert hudi_peer.aggregate(uri, statement, STATISTICS).result == [[count]], where


@pytest.mark.parametrize("is_ours", [True, False])
def test_queries_of_hudi_find_floats_that_became_doubles(
    is_ours: bool, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    """Hudi reads the digits of a float as a double, and so it does with bounds."""
    table = with_statistics(tmp_path, 9, "MERGE_ON_READ")
    uri = table.hoodie_table.hadoop_uri
    floats = {"id": ["a", "b"], "p": ["p0", "p0"], "f": pa.array([0.1, 1.1], pa.float32())}
    table.write(pa.table(floats))
    doubles = pa.table({"id": ["b"], "p": ["p0"], "f": [0.7]})
    if is_ours:
        table.write(doubles)
    else:
        hudi_peer.write(uri, doubles, operation="upsert", options={"hoodie.table.name": "t"})
    assert PARTITION_STATS in table.hoodie_table.properties.reload().metadata_partitions
    for where in ("f = 0.1d", "f <= 0.1d"):
        found = hudi_peer.aggregate(uri, f"select count(*) from t where {where}", STATISTICS)
        assert found.result == [[1]], where
    assert LakeTable.open(table.uri).check() == ()


def with_statistics(tmp_path: Path, version: int, kind: str = "COPY_ON_WRITE") -> LakeTable:
    """A table of ours that keeps statistics of columns."""
    return LakeTable.create(
        str(tmp_path / "t"),
        record_key="id",
        partition_by="p",
        table_type=kind,
        table_version=version,
        properties=STATISTICS,
    )
