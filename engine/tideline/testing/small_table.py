"""A small table of string keys in two or three partitions, written by the in-process engine.

Crash tests and the simulator write it thousands of times, over a store of their choice, so all
about it is small: ten rows, tiny bloom filters, a copy that costs a millisecond.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from tideline.clock import Clock, SystemClock
from tideline.commit_report import CommitReport
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.open_table import open_table
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.write_operation import WriteOperation
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.kept_statistics import begin_record_index, begin_statistics
from tideline.testing.table_audit import Row, open_fresh, read_rows
from tideline.testing.write_batch import InterruptedEngine, batch_engine, write_batch

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
CHEAP = {
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.bloom.index.filter.dynamic.max.entries": "20",
}

QUIET = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}
"""Of a write that no service follows, and that leaves small files alone."""
ONCE = {
    **QUIET,
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
}
"""Of a run of compaction or clustering, which is due whatever was done before."""

_names = itertools.count()


COMPACTED_OFTEN = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
"""A metadata table, compacted more often than by default."""


@dataclass
class NewTables:
    """What tables are made as where a test does not say."""

    version: int = TABLE_VERSION
    keeps_metadata_table: bool = False

    @property
    def properties(self) -> dict[str, str]:
        return dict(COMPACTED_OFTEN) if self.keeps_metadata_table else {}


NEW_TABLES = NewTables()
"""The one value; fixtures change it for as long as a test module runs (`new_tables`)."""


@contextmanager
def new_tables(version: int, *, keep_metadata_table: bool = False) -> Iterator[None]:
    """Within, tables are made so where a test says nothing else."""
    before = NEW_TABLES.version, NEW_TABLES.keeps_metadata_table
    NEW_TABLES.version, NEW_TABLES.keeps_metadata_table = version, keep_metadata_table
    try:
        yield
    finally:
        NEW_TABLES.version, NEW_TABLES.keeps_metadata_table = before


def batch(keys: Iterable[int], v: int, *, partitions: int = 2) -> pa.Table:
    """Rows `k<n>` in partition `p<n mod partitions>`, all with the value `v`."""
    numbers = list(keys)
    columns = {
        "id": [f"k{number:03d}" for number in numbers],
        "part": [f"p{number % partitions}" for number in numbers],
        "v": [v] * len(numbers),
    }
    return pa.table(columns, schema=SCHEMA)


@dataclass(slots=True)
class SmallTable:
    """The table at `location`; `write` opens it again each time, as another process would."""

    location: StoreLocation
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def create(
        cls,
        location: StoreLocation,
        clock: Clock | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        table_type: TableType = TableType.COPY_ON_WRITE,
        ordering: Sequence[str] = (),
        table_version: int | None = None,
    ) -> SmallTable:
        """Create it empty, of the version of `NEW_TABLES` unless given."""
        clock = clock or SystemClock()
        LakeTable.create(
            location.uri,
            record_key=["id"],
            partition_by=["part"],
            schema=SCHEMA,
            ordering=ordering,
            table_type=table_type.value,
            table_version=table_version or NEW_TABLES.version,
            properties={**CHEAP, **NEW_TABLES.properties, **(properties or {})},
            storage_options=dict(location.options),
            clock=clock,
        )
        small = cls(location, clock)
        if NEW_TABLES.keeps_metadata_table:
            table = open_table(location, clock, small.store())
            begin_statistics(table, ["v"])
            begin_record_index(table)
        return small

    @classmethod
    def in_memory(
        cls,
        properties: Mapping[str, str] | None = None,
        *,
        table_type: TableType = TableType.COPY_ON_WRITE,
        ordering: Sequence[str] = (),
        table_version: int | None = None,
    ) -> SmallTable:
        """Create it in memory, under a fake clock."""
        location, clock = memory_place()
        return cls.create(
            location,
            clock,
            properties,
            table_type=table_type,
            ordering=ordering,
            table_version=table_version,
        )

    @property
    def fake_clock(self) -> FakeClock:
        assert isinstance(self.clock, FakeClock)
        return self.clock

    def copy(self) -> SmallTable:
        """The same objects in memory under another name, and a clock of its own."""
        location, clock = memory_place()
        clock.advance((self.clock.now_ms() - clock.now_ms()) / 1000)
        source, target = self.location.open(), location.open()
        for info in source.list():
            target.put(info.path, source.get(info.path))
        return SmallTable(location, clock)

    def forget(self) -> None:
        """Drop a table in memory."""
        MemoryStore.forget(self.location.uri.removeprefix("memory://"))

    def store(self) -> ObjectStore:
        return self.location.open()

    def lake(self, store: ObjectStore | None = None) -> LakeTable:
        return LakeTable(open_fresh(self.location, store, self.clock))

    def write(
        self,
        operation: str,
        rows: pa.Table,
        *,
        store: ObjectStore | None = None,
        options: Mapping[str, str] | None = None,
        before_files: Callable[[], object] | None = None,
        after_files: Callable[[], object] | None = None,
        token: str | None = None,
    ) -> CommitReport:
        """One write; `delete_partition` takes the partitions of the rows."""
        lake = self.lake(store)
        wanted = WriteOperation.parse(operation)
        if wanted is WriteOperation.DELETE_PARTITION:
            partitions = sorted(set(rows.column("part").to_pylist()))
            return lake.delete_partitions(partitions, options=options, token=token)
        engine = batch_engine(lake, rows, wanted, options)
        interrupted = InterruptedEngine(engine, before_files, after_files)
        return write_batch(lake, interrupted, wanted, options=options, token=token)

    def rows(self) -> list[Row]:
        """What a fresh reader sees."""
        return read_rows(open_fresh(self.location, clock=self.clock))

    def values(self) -> list[tuple[str, int]]:
        """Key and value of every row."""
        return [(row["id"], row["v"]) for row in self.rows()]

    def merged_values(self, until: InstantTime | None = None) -> list[tuple[str, int]]:
        """The same as `read_file_slice` merges it: by the product's own reader, not a plain one.

        As of the instant `until` if given.
        """
        hoodie = open_fresh(self.location, clock=self.clock)
        timeline = hoodie.timeline()
        schema = hoodie.schemas.newest(timeline)
        assert schema is not None
        context = SliceContext.of(hoodie, timeline, schema, until)
        view = hoodie.files.read_view(timeline)
        return sorted(
            (row["id"], row["v"])
            for partition in view.partitions
            for file_slice in view.latest_slices(partition, as_of=until)
            for rows in read_file_slice(hoodie.store, file_slice, context)
            for row in rows.to_pylist()
        )


def memory_place() -> tuple[StoreLocation, FakeClock]:
    """An empty store in memory and the fake clock that stamps its objects."""
    name = f"small-table-{next(_names)}"
    clock = FakeClock()
    MemoryStore(name, clock=clock)
    return StoreLocation.of(f"memory://{name}"), clock
