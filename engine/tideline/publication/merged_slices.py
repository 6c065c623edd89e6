"""What logs do to rows, as Iceberg lists it: position deletes for base files, and files of the rows
that logs leave.

1. A slice with logs is known by its files and by the commits whose blocks count. The names of what
   is written for it begin with that, so what a publication lists already is found by name. They
   end with a UUID: no two publications write or remove the same file.
2. Rows whose keys the logs have are taken out of the base file by their positions, whatever became
   of them, and those of them that a reader of Hudi sees, merged as everywhere, are rewritten.
   Exact for every way of merging, as rows of other keys are as they are stored.
3. The files are the publication's own, below `metadata/merged/`, with the partition's folders.
   Nobody of Hudi's looks there, and they go with the last snapshot that lists them.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tideline.hudi.capabilities.guard import refused_by_properties
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext
from tideline.hudi.read.arrow_scan import nullable
from tideline.hudi.table.file_group import FileSlice, join_path, split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import RECORD_KEY, with_meta_fields
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.position_deletes import DELETE_FIELDS, FILE_PATH
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.publication.data_file import Footer, read_footer_of
from tideline.publication.published_files import MERGED
from tideline.storage.object_store import ObjectStore

_ROWS, _DELETES = ".rows.parquet", ".deletes.parquet"
_DIGEST_BYTES = 12


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file of rows of the publication's own; `partition` is that of its rows."""

    partition: str
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MergedSlice:
    """A slice with logs, and the beginning of the paths of what is written for it."""

    file_slice: FileSlice
    stem: str


@dataclass(frozen=True, slots=True)
class Positions:
    """The file that takes rows out of a base file."""

    base_path: str
    path: str
    size_bytes: int
    rows: int

    def entry(self, location: str, base: DataFile) -> DataFile:
        """How it is listed, next to the base file's entry."""
        bound = {FILE_PATH.field_id: base.file_path.encode()}
        return DataFile(
            content=FileContent.POSITION_DELETES,
            file_path=f"{location}/{self.path}",
            file_format="PARQUET",
            spec_id=base.spec_id,
            partition=base.partition,
            record_count=self.rows,
            file_size_bytes=self.size_bytes,
            lower_bounds=bound,
            upper_bounds=bound,
            referenced_data_file=base.file_path,
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What was written for a slice; either may have nothing to say."""

    rows: Footer | None
    positions: Positions | None


def stem_of(path: str) -> str | None:
    """The slice that a file below `metadata/merged/` was written for, None for other paths."""
    for suffix in (_ROWS, _DELETES):
        if f"/{MERGED}/" in f"/{path}" and path.endswith(suffix):
            return path.removesuffix(suffix).rpartition(".")[0]
    return None


def own_file(path: str, size_bytes: int) -> OwnFile | None:
    """The file with rows at a path below `metadata/merged/`, None for other paths."""
    if not (path.startswith(f"{MERGED}/") and path.endswith(_ROWS)):
        return None
    return OwnFile(split_path(path.removeprefix(f"{MERGED}/"))[0], path, size_bytes)


def can_be_merged(table: HoodieTable) -> bool:
    """Whether this process merges logs of the table as its readers do, and finds rows by key."""
    if not table.config.populate_meta_fields:
        return False
    return refused_by_properties(table, Permission.MERGE_LOGS) is None


class SliceMerges:
    """The slices with logs of one state of a table; `location` is its folder for Iceberg."""

    def __init__(
        self, table: HoodieTable, timeline: ActiveTimeline, columns: pa.Schema, location: str
    ) -> None:
        self._store: ObjectStore = table.store
        self._columns = columns
        self._context = SliceContext.of(table, timeline, with_meta_fields(columns))
        self._location = location

    def named(self, slices: Iterable[FileSlice]) -> Iterator[MergedSlice]:
        """Those of the slices that have logs. Reads what their blocks say of themselves."""
        for file_slice in slices:
            if file_slice.log_files:
                blocks = FileSliceMerge(self._store, file_slice, self._context, [RECORD_KEY])
                parts = [f"{file.path} {file.size_bytes}" for file in file_slice.files]
                parts += sorted({str(instant) for instant in blocks.select_blocks().instants})
                digest = blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
                name = join_path(file_slice.partition, f"{file_slice.file_id}.{digest}")
                yield MergedSlice(file_slice, f"{MERGED}/{name}")

    def write(self, merged: MergedSlice) -> Written:
        """Write what takes the place of logs. Raises what merging raises."""
        file_slice = merged.file_slice
        log = FileSliceMerge(self._store, file_slice, self._context, [RECORD_KEY]).merged_log()
        keys = pa.chunked_array([log.keys]).combine_chunks()
        if not len(keys):
            return Written(None, None)
        names = [RECORD_KEY, *self._columns.names]
        parts = [
            batch.filter(pc.is_in(batch.column(RECORD_KEY), value_set=keys))
            for batch in FileSliceMerge(self._store, file_slice, self._context, names).batches()
        ]
        found = pa.Table.from_batches(parts).select(self._columns.names) if parts else None
        rows = None
        if found is not None and found.num_rows:
            rows = self._written_rows(merged, found.cast(nullable(self._columns)))
        return Written(rows, self._written_positions(merged, keys))

    def _written_rows(self, merged: MergedSlice, rows: pa.Table) -> Footer:
        path = _own_name(merged, _ROWS)
        body = self._put(path, rows)
        return read_footer_of(OwnFile(merged.file_slice.partition, path, len(body)), body)

    def _written_positions(self, merged: MergedSlice, keys: pa.Array) -> Positions | None:
        file_slice = merged.file_slice
        if file_slice.base_file is None:
            return None
        alone = FileSlice(file_slice.group, file_slice.base_instant, file_slice.base_file)
        at, start = [], 0
        for batch in FileSliceMerge(self._store, alone, self._context, [RECORD_KEY]).batches():
            met = pc.is_in(batch.column(RECORD_KEY), value_set=keys)
            at.append(np.flatnonzero(met.to_numpy(zero_copy_only=False)) + start)
            start += batch.num_rows
        positions = np.concatenate(at) if at else np.empty(0, np.int64)
        if not len(positions):
            return None
        path = _own_name(merged, _DELETES)
        names = pa.repeat(f"{self._location}/{file_slice.base_file.path}", len(positions))
        columns = [names, pa.array(positions, pa.int64())]
        body = self._put(path, pa.Table.from_arrays(columns, schema=arrow_schema(DELETE_FIELDS)))
        return Positions(file_slice.base_file.path, path, len(body), len(positions))

    def _put(self, path: str, rows: pa.Table) -> bytes:
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd")
        body = sink.getvalue()
        self._store.put(path, body)
        return body


def _own_name(merged: MergedSlice, suffix: str) -> str:
    return f"{merged.stem}.{uuid.uuid4().hex}{suffix}"
