"""Base files written by the handles, for tests: make some, read them back, check them.

Rows have a string column `id` that is their record key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.hudi.file_group.create_handle import create_base_files
from tideline.hudi.file_group.file_settings import BloomSettings
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.file_group.merge_handle import merge_base_file
from tideline.hudi.index.key_range import key_range
from tideline.hudi.table.file_group import BaseFile, join_path, split_path
from tideline.hudi.table.markers import MarkerKind, list_markers
from tideline.hudi.table.schema import META_COLUMNS
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore

FILE_ID_PREFIX = "11111111-2222-3333-4444-555555555555"
FIRST = InstantTime("20250101000000000")


def handle_input(
    rows: pa.Table, *, key: str = "id", deletes: Sequence[bool] | None = None
) -> pa.Table:
    """`rows` as handles take them: with the record key, and delete flags when given."""
    keyed = rows.add_column(0, RECORD_KEY, rows.column(key).cast(pa.string()))
    if deletes is None:
        return keyed
    return keyed.append_column(IS_DELETE, pa.array(deletes, pa.bool_()))


@dataclass(slots=True)
class HandleCase:
    """One partition of one table, written by handles only. Every write has its own instant."""

    ctx: HandleContext
    store: ObjectStore
    partition: str = "day=1"
    instants: list[InstantTime] = field(default_factory=lambda: [FIRST])

    @classmethod
    def of(cls, schema: pa.Schema, store: ObjectStore | None = None, **settings: Any) -> HandleCase:
        """A case with these context settings, in memory unless a store is given.

        Bloom filters are small ones unless set, because making large ones takes most of the time.
        """
        MemoryStore.forget("handle-case")
        settings.setdefault("bloom", BloomSettings(num_entries=2000))
        ctx = HandleContext("t", FIRST, schema, write_token="7-3-12", **settings)
        return cls(ctx, store or MemoryStore("handle-case"))

    def create(
        self,
        rows: pa.Table,
        *,
        deletes: Sequence[bool] | None = None,
        batch_rows: int = 1000,
        file_id_prefix: str = FILE_ID_PREFIX,
    ) -> tuple[WriteStat, ...]:
        """Write `rows` to new files at the newest instant, in batches of `batch_rows`."""
        batches = handle_input(rows, deletes=deletes).to_batches(batch_rows)
        return self.create_from(batches, file_id_prefix=file_id_prefix)

    def create_from(
        self, batches: Iterable[pa.RecordBatch], *, file_id_prefix: str = FILE_ID_PREFIX
    ) -> tuple[WriteStat, ...]:
        """Write batches that already have the form handles take."""
        return create_base_files(self.ctx, self.store, self.partition, file_id_prefix, batches)

    def merge(
        self,
        base: WriteStat | BaseFile,
        rows: pa.Table,
        *,
        deletes: Sequence[bool] | None = None,
        **settings: Any,
    ) -> WriteStat:
        """Merge `rows` into a file at the next instant; `settings` change the context for good."""
        self.advance(**settings)
        target = base if isinstance(base, BaseFile) else base_file(base)
        (stat,) = merge_base_file(self.ctx, self.store, target, handle_input(rows, deletes=deletes))
        return stat

    def advance(self, **settings: Any) -> InstantTime:
        """Continue to the next instant."""
        time = InstantTime(str(int(str(self.instants[-1])) + 1))
        self.instants.append(time)
        self.ctx = replace(self.ctx, instant=time, **settings)
        return time

    def read(self, stat: WriteStat) -> pa.Table:
        """All columns of the file a stat names."""
        with self.store.open_reader(stat.path or "") as stream:
            return pq.ParquetFile(stream).read()

    def rows(self, stat: WriteStat) -> list[dict[str, Any]]:
        """The user columns of the file, row by row."""
        found: list[dict[str, Any]] = self.read(stat).drop_columns(list(META_COLUMNS)).to_pylist()
        return found

    def footer(self, stat: WriteStat) -> BaseFileFooter:
        with self.store.open_reader(stat.path or "") as stream:
            return read_footer(pq.read_metadata(stream))

    def metadata(self, stat: WriteStat) -> pq.FileMetaData:
        with self.store.open_reader(stat.path or "") as stream:
            return pq.read_metadata(stream)

    def check(self, stat: WriteStat, kind: MarkerKind) -> None:
        """Everything a reader or writer of the table relies on, of a file just written."""
        path = stat.path or ""
        partition, name = split_path(path)
        stored = self.read(stat)
        keys = stored.column(RECORD_KEY)
        footer = self.footer(stat)
        expected = key_range(keys)
        assert partition == stat.partition_path == self.partition
        assert name == f"{stat.file_id}_7-3-12_{self.ctx.instant}.parquet"
        assert stored.column_names[:5] == list(META_COLUMNS)
        assert stored.num_rows == stat.num_writes
        assert set(stored.column("_hoodie_file_name").to_pylist()) <= {name}
        assert set(stored.column("_hoodie_partition_path").to_pylist()) <= {self.partition}
        info = self.store.head(path)
        assert info is not None
        assert info.size_bytes == stat.file_size_in_bytes == stat.total_write_bytes
        assert footer.bloom is not None
        assert footer.bloom.might_contain(keys).all()
        if expected is None:
            assert (footer.min_key, footer.max_key) == (None, None)
        else:
            assert footer.min_key is not None
            assert footer.max_key is not None
            assert footer.min_key <= expected.min_key <= expected.max_key <= footer.max_key
        marked = {(mark.path, mark.kind) for mark in list_markers(self.store, self.ctx.instant)}
        assert (path, kind) in marked
        if kind is MarkerKind.CREATE:
            assert self.store.head(join_path(self.partition, ".hoodie_partition_metadata"))


def base_file(stat: WriteStat, size_bytes: int | None = None) -> BaseFile:
    """The base file a stat is about."""
    partition, name = split_path(stat.path or "")
    size = stat.file_size_in_bytes if size_bytes is None else size_bytes
    found = BaseFile.parse(partition, name, size)
    assert found is not None
    return found
