"""A read of some keys opens the files that have them, and finds what a whole read finds."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import EqualTo, In

from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.table_config import TableType
from tideline.index_lookups import lookups_so_far
from tideline.lake_table import LakeTable
from tideline.spark.arrow_types import arrow_to_spark
from tideline.spark.read.data_source import TidelineReader
from tideline.testing.kept_statistics import begin_record_index
from tideline.testing.keyed_table import PARTITIONS, SCHEMA, KeyedTable, id_of, opened_by, row_of
from tideline.testing.reads_by_statistics import (
    statistics_always_used,
)
from tideline.testing.small_table import CHEAP, QUIET, memory_place
from tideline.testing.table_audit import open_fresh

OFTEN = {
    **QUIET,
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
}

KINDS = [
    (table_type, version, is_partitioned)
    for table_type in (TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ)
    for version, is_partitioned in ((9, False), (9, True), (8, False), (6, False))
]


@pytest.fixture(autouse=True)
def whatever_it_costs() -> Iterator[None]:
    """Tables here are small."""
    with statistics_always_used():
        yield


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> KeyedTable:
    return KeyedTable(*request.param)


@pytest.fixture
def indexed() -> KeyedTable:
    made = KeyedTable()
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
def test_only_files_with_the_keys_are_opened(kind: KeyedTable, condition: str) -> None:
    kind.write(range(60), operation="insert")
    answered, passed_over = lookups_so_far()
    assert kind.compare(condition) == (PARTITIONS, kind.files_with(condition))
    assert lookups_so_far() == (answered + 2, passed_over)


@pytest.mark.parametrize("condition", OF_VALUES)
def test_only_files_with_the_values_are_opened(kind: KeyedTable, condition: str) -> None:
    kind.write(range(60), operation="insert")
    wanted = kind.files_with(condition) if kind.has_values else PARTITIONS
    assert kind.compare(condition) == (PARTITIONS, wanted)


@pytest.mark.parametrize("condition", OF_NEITHER)
def test_conditions_that_name_no_values_open_all(indexed: KeyedTable, condition: str) -> None:
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


def test_keys_of_a_class_of_ones_own_are_not_spelled(indexed: KeyedTable) -> None:
    indexed.table().properties.update({"hoodie.table.keygenerator.class": "com.example.Keys"})
    table = indexed.table()
    scan = plan_snapshot(table)
    assert opened_by(table, scan, f"id = '{id_of(3)}'") == PARTITIONS
    assert opened_by(table, scan, f"_hoodie_record_key = '{id_of(3)}'") == 1


def test_a_value_of_too_many_rows_opens_all(
    indexed: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert indexed.compare("city = 'Bern0'") == (PARTITIONS, 1)
    monkeypatch.setattr("tideline.hudi.read.key_lookup.KEYS_MAX", 0)
    assert indexed.compare("city = 'Bern0'") == (PARTITIONS, PARTITIONS)


def test_spark_reads_the_files_with_the_keys(indexed: KeyedTable) -> None:
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


def test_random_work_never_hides_a_row(kind: KeyedTable) -> None:
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
