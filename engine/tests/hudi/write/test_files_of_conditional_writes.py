"""Deletes, updates and upserts open the files that may have their rows, and change no other row."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.hudi.table.table_config import COLUMN_STATS, RECORD_INDEX, TableType
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.lake_table import LakeTable
from tideline.testing.reads_by_statistics import (
    OpenedFiles,
    rewritten_rows,
    statistics_always_used,
    statistics_unused,
)
from tideline.testing.small_table import ONCE, QUIET
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_of_statistics import TableOfStatistics

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
FILES = 30
ROWS_EACH = 2
TYPES = [TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ]
SPLIT = {
    **QUIET,
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": str(ROWS_EACH),
}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "2"}


def id_of(number: int) -> str:
    return f"k{number:03}"


def is_read(step: Step) -> bool:
    return step.method in ("get", "get_range", "open_reader") and step.path.startswith("p/")


class ManyFiles(TableOfStatistics):
    """Many files in one partition, with statistics; keys ascend from file to file, as values do."""

    def __init__(self, table_type: TableType = TableType.COPY_ON_WRITE) -> None:
        super().__init__(SCHEMA, ["id", "v"], table_type, 9)
        self.write(range(FILES * ROWS_EACH), operation="insert")

    def write(
        self, numbers: Iterable[int], v: int = 0, operation: str = "upsert", store: Any = None
    ) -> None:
        rows = [{"id": id_of(n), "part": "p", "v": 10 * n + v} for n in numbers]
        self.lake(store).write(pa.Table.from_pylist(rows, SCHEMA), operation, options=SPLIT)

    def opened(self, act: Callable[[LakeTable], Any]) -> int:
        """How many of the data files that are there that opens."""
        before = {info.path for info in self.location.open().list("p")}
        seen = OpenedFiles(self.location.open())
        act(self.lake(seen.store))
        return len(seen.paths & before)

    def reads(self, act: Callable[[LakeTable], Any]) -> int:
        """How often that opens any of them."""
        paths: list[str] = []

        def count(step: Step) -> None:
            if is_read(step):
                paths.append(step.path)

        act(self.lake(SteppingStore(self.location.open(), count)))
        return len(paths)

    def files_with(self, condition: str) -> int:
        """How many files have such rows."""
        return len(self.lake().to_arrow(["_hoodie_file_name"], condition)[0].unique())

    def values(self) -> list[tuple[str, int]]:
        rows = self.lake().to_arrow(["id", "v"]).to_pylist()
        return sorted((row["id"], row["v"]) for row in rows)


@pytest.fixture(params=TYPES, ids=str)
def table(request: pytest.FixtureRequest) -> ManyFiles:
    return ManyFiles(request.param)


def test_only_files_with_rows_of_a_condition_are_opened(table: ManyFiles) -> None:
    expected = dict(table.values())
    assert table.opened(lambda lake: lake.delete("v = 170")) == 1
    del expected[id_of(17)]
    files = table.files_with("v >= 400 and v < 440")
    assert table.opened(lambda lake: lake.update("v >= 400 and v < 440", {"v": -1})) == files
    expected |= dict.fromkeys(map(id_of, range(40, 44)), -1)
    assert dict(table.values()) == expected
    # The logs of the files that were updated say nothing of their rows' keys.
    assert table.opened(lambda lake: lake.delete("v = -1 and id = 'k041'")) <= 4
    del expected["k041"]
    assert dict(table.values()) == expected


def test_without_statistics_rows_are_looked_for_once(table: ManyFiles) -> None:
    table.lake().indexes().drop(COLUMN_STATS)
    reads = table.reads(lambda lake: lake.to_arrow(["id"], "v = 170"))
    assert table.opened(lambda lake: lake.update("v = 160", {"v": 161})) == FILES
    assert table.reads(lambda lake: lake.delete("v = 170")) <= reads + 5


def test_keys_are_looked_for_in_files_that_may_have_them(table: ManyFiles) -> None:
    def upsert(lake: LakeTable) -> None:
        table.write([30, 31, 999], 5, store=lake.hoodie_table.store)

    expected = dict(table.values()) | {"k030": 305, "k031": 315, "k999": 9995}
    assert table.opened(upsert) == table.files_with("v >= 300 and v < 320")
    assert dict(table.values()) == expected
    table.lake().indexes().drop(COLUMN_STATS)
    assert table.opened(upsert) >= FILES


def test_a_copy_of_a_key_that_does_not_match_stays(table: ManyFiles) -> None:
    table.write([7], 3, operation="insert")
    table.lake().update("v = 73", {"v": 74})
    assert [v for key, v in table.values() if key == "k007"] == [70, 74]
    table.lake().delete("v = 70")
    assert [v for key, v in table.values() if key == "k007"] == [74]


def test_a_copy_that_a_record_index_names_is_not_lost_to_it(table: ManyFiles) -> None:
    """With the row its record would go, and the index would not find the other one."""
    table.lake().indexes().create(RECORD_INDEX)
    table.write([7], 3, operation="insert")
    before = table.values()
    with pytest.raises(UnsupportedTableError, match="1 row matches, but 2 have the same keys"):
        table.lake().delete("v = 70")
    assert table.values() == before
    table.lake().update("v = 70", {"v": 71})
    table.lake().delete("v = 73")
    assert dict(table.values())["k007"] == 71


def test_rows_that_a_clustering_moved_meanwhile_are_deleted() -> None:
    table = ManyFiles()
    expected = dict(table.values())
    read: list[str] = []
    moved: list[str] = []

    def cluster(step: Step) -> None:
        """Once the rows were read, before the transaction begins."""
        if is_read(step):
            read.append(step.path)
        elif read and not moved:
            moved.append(step.path)
            assert table.lake().run("clustering", options=ONCE).done

    store = SteppingStore(table.location.open(), cluster)
    table.lake(store).delete("v = 170 or v = 330", options={**QUIET, **RETRIES})
    assert moved
    del expected["k017"], expected["k033"]
    assert dict(table.values()) == expected


def of_half_the_files(row: ColumnRow) -> ColumnRow | None:
    """As where other writers added files and kept no statistics."""
    return None if int(row.file.lstrip(".")[:8], 16) % 2 else row


def too_narrow(row: ColumnRow) -> ColumnRow:
    """As Hudi writes it of a file whose other part has no bounds."""
    values: Any = ("zz", "zz") if row.column in ("id", RECORD_KEY) else (0, 0)
    lie = replace(row.range, least=values[0], greatest=values[1], nulls=1)
    return replace(row, range=lie, is_tight=False)


def of_longer_text(row: ColumnRow) -> ColumnRow:
    """As Hudi writes it of logs, by the units of UTF-16."""
    if row.column not in ("id", RECORD_KEY):
        return too_narrow(row)
    lie = replace(row.range, least="\U0001f600", greatest="\uffff", nulls=0)
    return replace(row, range=lie, is_tight=False)


@pytest.mark.parametrize("lie", [of_half_the_files, too_narrow, of_longer_text])
def test_statistics_that_lag_or_say_too_little_hide_no_row(
    table: ManyFiles, lie: Callable[[ColumnRow], ColumnRow | None]
) -> None:
    expected = table.values()
    with rewritten_rows(lie):
        table.write([30, 31, 50], 5)
        table.lake().delete("v = 170")
        table.lake().update("v = 505", {"v": 1})
    new = {"k030": 305, "k031": 315, "k050": 1}
    assert table.values() == [(key, new.get(key, v)) for key, v in expected if key != "k017"]


def test_a_record_index_that_lags_hides_no_row_of_a_condition(table: ManyFiles) -> None:
    table.lake().indexes().create(RECORD_INDEX)
    hoodie = table.lake().hoodie_table
    time = hoodie.instants.next_time()
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
    gone = [MetadataRecord("k017"), MetadataRecord("k018")]
    MetadataWriter(hoodie).commit(completed, {RECORD_INDEX_PARTITION: gone}, hoodie.timeline())
    expected = [row for row in table.values() if row[0] != "k017"]
    table.lake().delete("v = 170")
    table.lake().update("v = 180", {"v": 181})
    assert table.values() == [("k018", 181) if row[0] == "k018" else row for row in expected]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("table_type", TYPES, ids=str)
def test_random_work_leaves_the_same_rows_without_statistics(
    table_type: TableType, seed: int
) -> None:
    chosen = random.Random(seed)
    found = []
    for context in (statistics_always_used, statistics_unused):
        table, chosen = ManyFiles(table_type), random.Random(seed)
        table.lake().indexes().create(RECORD_INDEX)
        with context():
            for _ in range(8):
                work(table, chosen)
        found.append(table.values())
    assert found[0] == found[1]


def work(table: ManyFiles, chosen: random.Random) -> None:
    """One operation, whose rows a random condition or random keys say."""
    least = chosen.randrange(FILES * ROWS_EACH) * 10
    where = f"v >= {least} and v < {least + chosen.choice([10, 50])}"
    keys = sorted(chosen.sample(range(FILES * ROWS_EACH + 5), 4))
    what = chosen.randrange(7)
    if what == 0:
        table.lake().delete(where, options=QUIET)
    elif what == 1:
        table.lake().update(where, {"v": chosen.randrange(600)}, options=QUIET)
    elif what == 2:
        table.write(keys, operation="delete")
    elif what == 3:
        table.lake().run("clustering", options=ONCE)
    elif what == 4:
        table.lake().indexes().drop(RECORD_INDEX)
        table.lake().indexes().create(RECORD_INDEX)
    else:
        table.write(keys, chosen.randrange(10))
