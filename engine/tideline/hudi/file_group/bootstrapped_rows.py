"""The rows of a skeleton and of its source file, joined by their positions.

Hudi's columns come from the skeleton, all others from the source; columns that are the names of
the source's folders come from these. Only what is asked for is read. A source that is not as it was
when the table was made of it is refused: its rows would get the keys of others.
Source: Hudi's HoodieFileGroupReader.makeBootstrapBaseFileIterator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.base_file import OpenFile, StoredRows, open_sound_rows
from tideline.formats.parquet_footer import BaseFileFooter
from tideline.hudi.table.file_group import BaseFile, SourceFile
from tideline.hudi.table.meta_column import is_meta_column
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import normalised, not_named
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.store import RemoteStore
from tideline.storage.store_kind import bucket_and_prefix


@contextmanager
def joined_with_source(
    store: ObjectStore, base: BaseFile, skeleton: StoredRows
) -> Iterator[StoredRows]:
    """The rows of a base file with its source's columns; those of any other base file as they are.

    Raises CorruptTableError for a source that is missing, or not as it was, UnsupportedTableError
    for one that is not read.
    """
    if not base.is_skeleton:
        yield skeleton
        return
    source = base.source
    if source is None:
        raise CorruptTableError("no index names the source of a bootstrapped file", path=base.path)
    folder, path = _find(store, source)
    with folder.open_reader(path) as stream:
        extension = path.rpartition(".")[2]
        file = OpenFile(stream, source.uri, folder.local_path(path))
        rows = open_sound_rows(extension, file, role="source file")
        if rows.row_count != skeleton.row_count:
            raise CorruptTableError(
                f"source file has {rows.row_count} rows, its skeleton {skeleton.row_count}",
                path=source.uri,
            )
        yield BootstrappedRows(skeleton, rows, source)


class BootstrappedRows:
    """Both files, open."""

    def __init__(self, skeleton: StoredRows, rows: StoredRows, source: SourceFile) -> None:
        self._skeleton = skeleton
        self._rows = rows
        own = [item for item in rows.schema if not is_meta_column(item.name)]
        stored = {item.name.casefold() for item in own}
        self._values = {name: text for name, text in source.values if name.casefold() not in stored}
        texts = [pa.field(name, pa.string()) for name in self._values]
        self._schema = pa.schema([*skeleton.schema, *own, *texts])

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def row_count(self) -> int:
        return self._skeleton.row_count

    def footer(self) -> BaseFileFooter:
        return self._skeleton.footer()

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        meta = [name for name in names if is_meta_column(name)]
        values = [name for name in names if name in self._values]
        own = [name for name in names if name not in (*meta, *values)]
        if own and meta:
            read = _side_by_side(self._skeleton.batches(meta), self._rows.batches(own))
        else:
            read = self._rows.batches(own) if own else self._skeleton.batches(meta)
        for batch in read:
            columns = [
                pa.repeat(pa.scalar(self._values[name], pa.string()), batch.num_rows)
                for name in values
            ]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *columns], [*batch.schema.names, *values]
            )


def _side_by_side(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Batches of the same rows, cut to the same lengths."""
    left_batch, right_batch = next(left, None), next(right, None)
    while left_batch is not None and right_batch is not None:
        rows = min(left_batch.num_rows, right_batch.num_rows)
        yield pa.RecordBatch.from_arrays(
            [*left_batch.slice(0, rows).columns, *right_batch.slice(0, rows).columns],
            [*left_batch.schema.names, *right_batch.schema.names],
        )
        left_batch = left_batch.slice(rows) if rows < left_batch.num_rows else next(left, None)
        right_batch = right_batch.slice(rows) if rows < right_batch.num_rows else next(right, None)


def _find(store: ObjectStore, source: SourceFile) -> tuple[ObjectStore, str]:
    """Where the source is: at its address, or below the table. Raises as `joined_with_source`."""
    folder, path = found = _elsewhere(store, source) or (store, source.moved)
    info = folder.head(path)
    if info is None and source.place is None:
        raise UnsupportedTableError(not_named("the bootstrap index"), path=source.uri)
    if info is None:
        raise CorruptTableError(
            "the source of a bootstrapped file is missing; put it back, or below the table",
            path=source.uri,
            value=source.moved,
        )
    if info.size_bytes != source.size_bytes:
        raise CorruptTableError(
            f"source file has {info.size_bytes:,} bytes, and had {source.size_bytes:,} when the "
            "table was made of it",
            path=source.uri,
        )
    return found


def _elsewhere(store: ObjectStore, source: SourceFile) -> tuple[ObjectStore, str] | None:
    """The source at its address, None where it is not, or where it is not to be read; a table leads
    to no other kind of store."""
    place = source.place
    if place is None or place.partition(":")[0] != store.uri.partition(":")[0]:
        return None
    # At the endpoint of the table, with its credentials.
    folder: ObjectStore = (
        store.elsewhere(*bucket_and_prefix(place))
        if isinstance(store, RemoteStore)
        else StoreLocation.of(place, dict(source.options)).open()
    )
    path = normalised(source.uri)[len(place) :].strip("/")
    return None if folder.head(path) is None else (folder, path)
