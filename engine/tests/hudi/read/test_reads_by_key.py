"""A read of some keys opens the files that have them, and finds what a whole read finds."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import EqualTo, In

from tideline.clock import Clock
from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.snapshot import plan_read_optimized, plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import METADATA_PARTITIONS, RECORD_INDEX, TableType
from tideline.index_lookups import lookups_so_far
from tideline.lake_table import LakeTable
from tideline.spark.arrow_types import arrow_to_spark
from tideline.spark.read.data_source import TidelineReader
from tideline.storage.location import StoreLocation
from tideline.testing.kept_statistics import begin_record_index, begin_secondary_index
from tideline.testing.reads_by_statistics import (
    compare_reads,
    read_counted,
    statistics_always_used,
)
from tideline.testing.small_table import CHEAP, QUIET, memory_place
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import open_fresh

PARTITIONS = 10
OFTEN = {
    **QUIET,
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
}
CITIES = ("Bern", "B$rn", "B\\rn", "B", "", "Zürich \U0001f600", "a,b:c")
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("city", pa.string())]
)


def id_of(number: int) -> str:
    return f"{CITIES[number % len(CITIES)]}${number}"


def row_of(number: int, v: int = 0) -> dict[str, Any]:
    """Rows whose values say nothing of their partition."""
    city = None if (number + v) % 11 == 5 else CITIES[(number + v) % len(CITIES)] + str(number % 9)
    part = f"p{number * 7 % PARTITIONS}"
    return {"id": id_of(number), "part": part, "n": (number * 31 + v) % 97 - 40, "city": city}


@dataclass
class Indexed:
    """A table of a file in each partition, with a record index and secondary indexes."""

    table_type: TableType = TableType.COPY_ON_WRITE
    version: int = 9
    is_partitioned: bool = False
    place: tuple[StoreLocation, Clock] = field(default_factory=memory_place)

    def __post_init__(self) -> None:
        LakeTable.create(
            self.location.uri,
            record_key=["id"],
            partition_by=["part"],
            schema=SCHEMA,
            table_type=self.table_type.value,
            table_version=self.version,
            properties=CHEAP,
            clock=self.place[1],
        )
        table = self.table()
        bootstrap_metadata_table(table, table.timeline())
        begin_record_index(table, is_partitioned=self.is_partitioned)
        if not self.is_partitioned:
            for column in ("city", "n"):
                begin_secondary_index(table, column, "V2" if self.version == 9 else "V1")

    @property
    def location(self) -> StoreLocation:
        return self.place[0]

    def table(self, store: Any = None) -> HoodieTable:
        return open_fresh(self.location, store, self.place[1])

    def lake(self, store: Any = None) -> LakeTable:
        return LakeTable(self.table(store))

    def write(self, numbers: Any, v: int = 0, operation: str = "upsert") -> None:
        rows = pa.Table.from_pylist([row_of(number, v) for number in numbers], SCHEMA)
        self.lake().write(rows, operation, options=QUIET)

    def read(self, condition: Any) -> tuple[list[str], int]:
        """Keys of what a condition selects, and how many data files were opened for them."""
        return read_counted(self.location, self.lake, condition)

    def files_with(self, condition: str) -> int:
        """How many files have the rows, while each partition has one."""
        return len(self.lake().to_arrow(["part"], condition)["part"].unique())

    def compare(self, condition: Any) -> tuple[int, int]:
        """Files opened without indexes and with them, for the same rows."""
        return compare_reads(self.read, condition)


KINDS = [
    (table_type, version, is_partitioned)
    for table_type in (TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ)
    for version, is_partitioned in ((9, False), (9, True), (8, False))
]


@pytest.fixture(autouse=True)
def whatever_it_costs() -> Iterator[None]:
    """Tables here are small."""
    with statistics_always_used():
        yield


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Indexed:
    return Indexed(*request.param)


@pytest.fixture
def indexed() -> Indexed:
    made = Indexed()
    made.write(range(60), operation="insert")
    return made


OF_KEYS = [
    f"id = '{id_of(3)}'",
    f"id in ('{id_of(3)}', '{id_of(14)}', 'gone')",
    f"_hoodie_record_key = '{id_of(9)}' and n <> 1000",
    f"id = '{id_of(5)}' or id = '{id_of(9)}'",
    "id = 'gone'",
    f"id = '{id_of(5)}' and id = '{id_of(6)}'",
]
OF_VALUES = [
    "n = 22",
    "n in (22, 23, 1000)",
    "n = 22 and city is not null",
    "city = 'Bern5'",
    "city = 'B$rn1' or city = 'B\\rn2'",
    "city = '4'",
    "city = 'B'",
]
OF_NEITHER = ["n > 22", "city is null", "n = 22 or city is null", "not (n = 22)", "city like 'B%'"]


@pytest.mark.parametrize("condition", OF_KEYS)
def test_only_files_with_the_keys_are_opened(kind: Indexed, condition: str) -> None:
    kind.write(range(60), operation="insert")
    answered, passed_over = lookups_so_far()
    assert kind.compare(condition) == (PARTITIONS, kind.files_with(condition))
    assert lookups_so_far() == (answered + 2, passed_over)


@pytest.mark.parametrize("condition", OF_VALUES)
def test_only_files_with_the_values_are_opened(kind: Indexed, condition: str) -> None:
    kind.write(range(60), operation="insert")
    wanted = PARTITIONS if kind.is_partitioned else kind.files_with(condition)
    assert kind.compare(condition) == (PARTITIONS, wanted)


@pytest.mark.parametrize("condition", OF_NEITHER)
def test_conditions_that_name_no_values_open_all(indexed: Indexed, condition: str) -> None:
    assert indexed.compare(condition) == (PARTITIONS, PARTITIONS)


@pytest.mark.parametrize(
    ("columns", "generator", "spelled"),
    [
        (["id", "n"], "COMPLEX", "id:{id},n:{n}"),
        (["id"], "COMPLEX", "id:{id}"),
        (["id"], "COMPLEX", "{id}"),
        (["n"], "SIMPLE", "{n}"),
    ],
)
def test_keys_are_looked_up_as_any_version_of_hudi_spells_them(
    columns: list[str], generator: str, spelled: str
) -> None:
    """A key generator says how; of one column both ways are found."""
    location, clock = memory_place()
    LakeTable.create(
        location.uri,
        record_key=["k"],
        partition_by=["part"],
        schema=SCHEMA.append(pa.field("k", pa.string())),
        table_version=9,
        properties=CHEAP,
        clock=clock,
    )
    table = open_fresh(location, None, clock)
    bootstrap_metadata_table(table, table.timeline())
    begin_record_index(table)
    rows = [{**row_of(number), "n": number} for number in range(30)]
    keyed = [{**row, "k": spelled.format(**row)} for row in rows]
    schema = SCHEMA.append(pa.field("k", pa.string()))
    LakeTable(table).write(pa.Table.from_pylist(keyed, schema), "insert", options=QUIET)
    named = {"hoodie.table.recordkey.fields": ",".join(columns)}
    table.properties.update({**named, "hoodie.table.keygenerator.type": generator})
    table = open_fresh(location, None, clock)
    condition = " and ".join(f"{name} = {rows[7][name]!r}" for name in columns)
    scan = plan_snapshot(table)
    assert opened_by(table, scan, condition) == 1
    assert len(LakeTable(table).to_arrow(["k"], condition)) == 1
    if len(columns) > 1:
        assert opened_by(table, scan, "n = 7") == PARTITIONS


def test_keys_of_a_class_of_ones_own_are_not_spelled(indexed: Indexed) -> None:
    indexed.table().properties.update({"hoodie.table.keygenerator.class": "com.example.Keys"})
    table = indexed.table()
    scan = plan_snapshot(table)
    assert opened_by(table, scan, f"id = '{id_of(3)}'") == PARTITIONS
    assert opened_by(table, scan, f"_hoodie_record_key = '{id_of(3)}'") == 1


def test_a_value_of_too_many_rows_opens_all(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert indexed.compare("city = 'Bern0'") == (PARTITIONS, 1)
    monkeypatch.setattr("tideline.hudi.read.key_lookup.KEYS_MAX", 0)
    assert indexed.compare("city = 'Bern0'") == (PARTITIONS, PARTITIONS)


def test_spark_reads_the_files_with_the_keys(indexed: Indexed) -> None:
    table = indexed.table()
    scan = plan_snapshot(table)
    for asked in (EqualTo(("id",), id_of(3)), In(("n",), (22, None))):
        reader = TidelineReader(table, scan, arrow_to_spark(scan.schema))
        assert list(reader.pushFilters([asked])) == [asked]
        assert len(reader.partitions()) < 3
        assert len(pickle.dumps(reader)) < 10_000


def random_condition(chosen: random.Random) -> pc.Expression:
    name = chosen.choice(["id", "_hoodie_record_key", "n", "city"])
    values = [
        row_of(chosen.randrange(90), chosen.choice([0, 0, 1, 2]))[
            "id" if name == "_hoodie_record_key" else name
        ]
        for _ in range(chosen.randrange(1, 4))
    ]
    column = pc.field(name)
    if values[0] is None:
        found = column.is_null()
    elif len(values) == 1:
        found = column == values[0]
    else:
        found = column.isin([value for value in values if value is not None])
    if chosen.random() < 0.3:
        other = random_condition(chosen)
        found = chosen.choice([found & other, found | other, found & ~other])
    return found


def test_random_work_never_hides_a_row(kind: Indexed) -> None:
    chosen = random.Random(f"{kind.table_type} {kind.version} {kind.is_partitioned}")
    kind.write(range(60), operation="insert")
    opened = [0, 0]
    for step in range(6):
        numbers = chosen.sample(range(90), 7)
        operations: list[Callable[[], Any]] = [
            lambda: kind.write(numbers, 1),  # noqa: B023
            lambda: kind.write(numbers, 2),  # noqa: B023
            lambda: kind.write(numbers, operation="delete"),  # noqa: B023
            lambda: kind.write(numbers[:2], 2, "insert_overwrite"),  # noqa: B023
            lambda: kind.lake().run("compaction", options=OFTEN),
            lambda: kind.lake().run("clustering", options=OFTEN),
        ]
        chosen.choice(operations)()
        listed = kind.table().config.metadata_partitions
        assert "record_index" in listed, step
        for _ in range(8):
            before, after = kind.compare(random_condition(chosen))
            opened[0] += before
            opened[1] += after
    assert opened[1] < 0.7 * opened[0]


def opened_by(table: HoodieTable, scan: TableScan, condition: str) -> int:
    return len(ArrowScan.of(table, scan, ["id"], condition).tasks)


def test_a_timeline_of_before_the_last_commit_uses_no_index() -> None:
    """The key has moved on; its old file has it still."""
    indexed = Indexed(TableType.MERGE_ON_READ)
    indexed.write(range(60), operation="insert")
    table = indexed.table()
    scan = plan_snapshot(table)
    condition = f"id = '{id_of(3)}'"
    assert opened_by(table, scan, condition) == 1
    indexed.write([3], operation="delete")
    assert opened_by(table, scan, condition) == PARTITIONS
    assert opened_by(table, plan_snapshot(table), condition) == 0
    then = plan_snapshot(table, as_of=str(scan.timeline.newest_time()))
    assert opened_by(table, then, condition) == PARTITIONS


def test_a_timeline_of_before_the_metadata_table_was_made_uses_no_index(indexed: Indexed) -> None:
    table = indexed.table()
    scan = plan_snapshot(table)
    indexed.write([3], operation="delete")
    disable_metadata_table(indexed.table())
    bootstrap_metadata_table(indexed.table(), table.timeline())
    indexed.lake().indexes().create(RECORD_INDEX)
    assert opened_by(table, scan, f"id = '{id_of(3)}'") == PARTITIONS
    table = indexed.table()
    assert opened_by(table, plan_snapshot(table), f"id = '{id_of(3)}'") == 0


def test_a_commit_that_only_the_metadata_table_has_is_not_believed(indexed: Indexed) -> None:
    """Its writer died before the commit."""
    indexed.write([3], operation="delete")
    last = indexed.table().timeline().completed().last()
    assert last is not None
    before = indexed.read(f"id = '{id_of(3)}'")
    assert before == ([], 0)
    table = indexed.table()
    table.store.delete(table.timelines.path(last))
    assert indexed.read(f"id = '{id_of(3)}'") == ([id_of(3)], PARTITIONS)


def test_an_index_that_goes_while_it_is_read_is_not_believed(indexed: Indexed) -> None:
    table = indexed.table()
    scan = plan_snapshot(table)
    without = {METADATA_PARTITIONS: "files"}
    indexed.table().properties.update(without)
    assert opened_by(table, scan, f"id = '{id_of(3)}'") == PARTITIONS
    assert opened_by(table, scan, "n = 22") == PARTITIONS


def test_an_index_that_cannot_be_read_hides_nothing(
    indexed: Indexed, caplog: pytest.LogCaptureFixture
) -> None:
    store = indexed.location.open()
    for info in store.list_directory(".hoodie/metadata/record_index").objects:
        store.put(info.path, b"no index")
    _, passed_over = lookups_so_far()
    assert indexed.compare(f"id = '{id_of(3)}'") == (PARTITIONS, PARTITIONS)
    assert lookups_so_far()[1] == passed_over + 1
    assert "no file is left out by keys, for the indexes are not read" in caplog.text


def test_a_key_that_is_stored_twice_is_not_changed_once(indexed: Indexed) -> None:
    """One of both has a record. Both are found, and refused, as without an index."""
    indexed.write([3], operation="insert")
    condition = f"id = '{id_of(3)}'"
    with pytest.raises(UnsupportedTableError, match="2 rows match"):
        indexed.lake().delete(condition)
    with pytest.raises(UnsupportedTableError, match="stored twice"):
        indexed.lake().update(condition, {"n": 777})


@pytest.mark.parametrize("partition", ["record_index", "secondary_index_n"])
def test_an_index_without_files_is_not_believed(indexed: Indexed, partition: str) -> None:
    indexed.location.open().delete_prefix(f".hoodie/metadata/{partition}/")
    assert indexed.compare("n = 22") == (PARTITIONS, PARTITIONS)
    named = PARTITIONS if partition == RECORD_INDEX else 1
    assert indexed.compare(f"id = '{id_of(3)}'") == (PARTITIONS, named)


def test_an_index_without_its_definition_or_a_shard_is_not_believed() -> None:
    condition = f"id = '{id_of(3)}'"
    indexed = Indexed(is_partitioned=True)
    indexed.write(range(60), operation="insert")
    store = indexed.location.open()
    shard = next(
        info.path
        for info in store.list_directory(".hoodie/metadata/record_index").objects
        if "-p1-" in info.path
    )
    body = store.get(shard)
    store.delete(shard)
    assert indexed.compare(condition) == (PARTITIONS, PARTITIONS)
    store.put(shard, body)
    store.delete(".hoodie/.index_defs/index.json")
    assert indexed.compare(condition) == (PARTITIONS, PARTITIONS)


def test_an_index_that_is_made_again_while_it_is_read_is_not_believed(indexed: Indexed) -> None:
    """It was listed while half of its file groups were gone: keys were looked for in others."""
    inner, folder = indexed.location.open(), ".hoodie/metadata/record_index"
    calls: list[Step] = []

    def before(step: Step) -> None:
        if len(calls) == 1 and step.path == ".hoodie/hoodie.properties":
            calls.append(step)
            indexed.lake().indexes().drop(RECORD_INDEX)
            indexed.lake().indexes().create(RECORD_INDEX)
        if not calls and (step.method, step.path) == ("list_directory", folder):
            calls.append(step)
            for info in inner.list_directory(folder).objects:
                if any(f"record-index-000{number}" in info.path for number in range(5, 10)):
                    inner.delete(info.path)

    keys = [id_of(number) for number in range(10)]
    condition = pc.field("id").isin(keys)
    found = indexed.lake(SteppingStore(inner, before)).to_arrow(["id"], condition)
    assert sorted(found["id"].to_pylist()) == sorted(keys)
    assert len(calls) == 2


def test_a_commit_that_is_undone_while_the_index_is_read_is_not_believed(indexed: Indexed) -> None:
    """Only the metadata table had it when the lookup began."""
    indexed.write([3], operation="delete")
    table = indexed.table()
    last = table.timeline().completed().last()
    assert last is not None
    table.store.delete(table.timelines.path(last))
    inner = indexed.location.open()
    folder = ".hoodie/metadata/.hoodie/timeline"
    seen: list[Step] = []

    def before(step: Step) -> None:
        if step.path == ".hoodie/metadata/record_index":
            seen.append(step)
        elif seen and step.path == folder:
            for info in inner.list_directory(folder).objects:
                if last.time.value in info.path and info.path.endswith("deltacommit"):
                    inner.delete(info.path)

    found = indexed.lake(SteppingStore(inner, before)).to_arrow(["id"], f"id = '{id_of(3)}'")
    assert found["id"].to_pylist() == [id_of(3)]


def test_a_lookup_that_takes_more_than_the_files_is_left_out(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.hudi.read.key_lookup.COST_MAX", 1.0)
    few = f"id = '{id_of(3)}'"
    many = " or ".join(f"id = '{id_of(number)}'" for number in range(20))
    assert indexed.compare(few) == (PARTITIONS, 1)
    for start in range(20, 56, 6):
        indexed.write(range(start, start + 6), operation="delete")
    assert indexed.compare(many) == (PARTITIONS, PARTITIONS), "of several logs in each file group"


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_index_that_commits_do_not_keep_is_not_believed(version: int) -> None:
    """In version 6 one may be there that Hudi made. This one lacks all keys."""
    location, clock = memory_place()
    LakeTable.create(
        location.uri,
        record_key=["id"],
        partition_by=["part"],
        schema=SCHEMA,
        table_version=version,
        properties=CHEAP,
        clock=clock,
    )
    rows = pa.Table.from_pylist([row_of(number) for number in range(60)], SCHEMA)
    LakeTable(open_fresh(location, None, clock)).write(rows, "insert", options=QUIET)
    table = open_fresh(location, None, clock)
    bootstrap_metadata_table(table, table.timeline())
    begin_record_index(table)
    table = open_fresh(location, None, clock)
    assert RECORD_INDEX in table.config.metadata_partitions
    found = opened_by(table, plan_snapshot(table), f"id = '{id_of(3)}'")
    assert found == (PARTITIONS if version == 6 else 0)


def test_reads_of_base_files_alone_use_no_index() -> None:
    """The base file has what the log deleted."""
    indexed = Indexed(TableType.MERGE_ON_READ)
    indexed.write(range(60), operation="insert")
    indexed.write([3], operation="delete")
    table, condition = indexed.table(), f"id = '{id_of(3)}'"
    assert opened_by(table, plan_snapshot(table), condition) == 0
    assert opened_by(table, plan_read_optimized(table), condition) == PARTITIONS
