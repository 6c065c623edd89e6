"""Index lookup: which file slice holds each incoming key.

1. The candidates (latest file slices) are cut into chunks, each within one partition unless the
   index is global, so that a big partition is looked up by several tasks.
2. Incoming keys go to every chunk of their partition; the rows themselves do not move.
3. A task reads the key column of each base file of its chunk and matches it in Arrow. A bloom index
   first asks the footer, its key range and its filter, and skips files that cannot match. Where log
   files come with the candidate, its merged rows decide.
4. Where later logs may have deleted keys that were found, the merged slice shows which.

The answer has one row per stored incoming key: the key, the incoming partition path, the number
of the file, whether a log there deleted it and, where the caller wants to compare them, the stored
ordering values.

Source: Hudi's HoodieSimpleIndex, HoodieBloomIndex, HoodieKeyLookupHandle and their global kin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.hudi.index.key_range import KeyRange, key_range
from tideline.hudi.log.entry_fold import Flags
from tideline.hudi.write.deleted_keys import deleted_keys
from tideline.hudi.write.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.write.handle_context import RECORD_KEY
from tideline.hudi.write.lookup_candidate import LookupCandidate
from tideline.hudi.write.stored_keys import open_base_file
from tideline.hudi.write.virtual_key import column_at, virtual_keys
from tideline.spark.task_errors import carried_errors
from tideline.spark.write.batch import PARTITION_PATH
from tideline.spark.write.tasks import split_runs
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

LOCATED_FILE = "_tideline_file_number"
IS_GONE = "_tideline_is_gone"
"""Whether a log of that file's slice has deleted the key."""
CHUNK = "_tideline_chunk"
_FIXED_COLUMNS = 4
"""Of an answer, before the ordering columns."""
_CHUNKS_PER_CORE = 4
_TASKS_MAX = 1_000
_SLAB_ROWS_MAX = 2_000_000
"""Incoming keys a task holds at once; more are looked up slab by slab."""


@dataclass(frozen=True, slots=True)
class LookupSettings:
    """How keys are found in base files.

    `key_fields` None: the files carry the record key; else it is computed from these columns.
    `reading` is how to merge candidates that have log files.
    """

    reads_bloom_filters: bool
    prunes_by_ranges: bool
    key_fields: tuple[str, ...] | None = None
    qualified: bool = False
    reading: SliceContext | None = None


def locate_keys(
    spark: SparkSession,
    location: StoreLocation,
    incoming: DataFrame,
    candidates: Sequence[LookupCandidate],
    settings: LookupSettings,
    *,
    by_key_only: bool,
    ordering: T.StructType,
) -> DataFrame:
    """(`RECORD_KEY`, `PARTITION_PATH`, `LOCATED_FILE`, `IS_GONE`, ordering columns) of stored keys.

    `LOCATED_FILE` numbers `candidates`. Keys match within their partition, or anywhere for a
    global index (`by_key_only`). `ordering` names stored columns to return as well.
    """
    parallelism = spark.sparkContext.defaultParallelism
    chunks = _chunks(candidates, parallelism, by_key_only)
    keys = incoming.select(RECORD_KEY, PARTITION_PATH)
    numbers = pa.table({CHUNK: pa.array(range(len(chunks)), pa.int32())})
    if by_key_only:
        routed = keys.crossJoin(F.broadcast(spark.createDataFrame(numbers)))
    else:
        partitions = pa.array([candidates[chunk[0]].partition for chunk in chunks], pa.string())
        routes = spark.createDataFrame(numbers.append_column(PARTITION_PATH, partitions))
        routed = keys.join(F.broadcast(routes), PARTITION_PATH)
    tasks = min(len(chunks), _TASKS_MAX)
    routed = routed.select(CHUNK, RECORD_KEY, PARTITION_PATH).repartitionById(tasks, F.col(CHUNK))
    if tasks < len(chunks):
        routed = routed.sortWithinPartitions(CHUNK)
    answer = T.StructType(
        [
            T.StructField(RECORD_KEY, T.StringType()),
            T.StructField(PARTITION_PATH, T.StringType()),
            T.StructField(LOCATED_FILE, T.IntegerType()),
            T.StructField(IS_GONE, T.BooleanType()),
            *ordering.fields,
        ]
    )
    lookup = LookUpKeys(
        location, tuple(candidates), chunks, settings, to_arrow_schema(answer, timezone="UTC")
    )
    return routed.mapInArrow(lookup, answer)


def _chunks(
    candidates: Sequence[LookupCandidate], parallelism: int, by_key_only: bool
) -> tuple[tuple[int, ...], ...]:
    """Numbers of the candidates, in chunks of about equal length."""
    by_partition: dict[str, list[int]] = {}
    for number, file in enumerate(candidates):
        by_partition.setdefault("" if by_key_only else file.partition, []).append(number)
    length = max(1, -(-len(candidates) // (parallelism * _CHUNKS_PER_CORE)))
    return tuple(
        tuple(numbers[start : start + length])
        for numbers in by_partition.values()
        for start in range(0, len(numbers), length)
    )


@dataclass(frozen=True, slots=True)
class LookUpKeys:
    """Task function: (chunk, key, partition) grouped by chunk -> the located keys."""

    location: StoreLocation
    candidates: tuple[LookupCandidate, ...]
    chunks: tuple[tuple[int, ...], ...]
    settings: LookupSettings
    answer: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        with carried_errors():
            for chunk, rows in split_runs(batches, CHUNK):
                for slab in _slabs(rows):
                    wanted = _Wanted.of(slab)
                    for number in self.chunks[chunk]:
                        yield from self._look_up(store, number, wanted)

    def _look_up(
        self, store: ObjectStore, number: int, wanted: _Wanted
    ) -> Iterator[pa.RecordBatch]:
        candidate = self.candidates[number]
        if candidate.has_rows_in_logs:
            yield from self._look_up_whole(store, number, wanted)
            return
        gone: Flags | None = None
        is_first = True
        for stored in self._stored(store, candidate, wanted):
            found = pc.index_in(self._keys(stored), value_set=wanted.keys)
            hits = pc.indices_nonzero(found.is_valid())
            if not len(hits):
                continue
            if is_first:
                gone, is_first = self._gone(store, candidate, wanted), False
            positions = found.drop_null()
            flags = np.zeros(len(positions), np.bool_)
            if gone is not None:
                flags = gone[positions.to_numpy()]
            yield self._answer(number, wanted, positions, pa.array(flags), stored.take(hits))

    def _look_up_whole(
        self, store: ObjectStore, number: int, wanted: _Wanted
    ) -> Iterator[pa.RecordBatch]:
        """The same for a slice whose logs have rows of their own: these, and the base file's."""
        candidate, reading = self.candidates[number], self.settings.reading
        assert reading is not None, "candidates with logs come with it"
        gone = np.ones(len(wanted.keys), np.bool_)
        merged = read_file_slice(store, candidate.whole, reading, self._names())
        for stored, is_live in chain(
            zip(merged, repeat(True)), zip(self._stored(store, candidate, wanted), repeat(False))
        ):
            found = pc.index_in(self._keys(stored), value_set=wanted.keys)
            positions = pc.fill_null(found, -1).to_numpy()
            hits = np.flatnonzero(positions >= 0)
            if not is_live:
                hits = hits[gone[positions[hits]]]
            if len(hits):
                gone[positions[hits]] &= not is_live
                flags = pa.array(np.full(len(hits), not is_live))
                taken = pa.array(hits)
                yield self._answer(number, wanted, found.take(taken), flags, stored.take(taken))

    def _gone(
        self, store: ObjectStore, candidate: LookupCandidate, wanted: _Wanted
    ) -> Flags | None:
        """Which of the wanted keys the logs deleted; asked once some are found in the slice."""
        if not candidate.later_logs:
            return None
        assert self.settings.reading is not None, "candidates with logs come with it"
        names = self._key_names()
        return deleted_keys(store, candidate, self.settings.reading, wanted.keys, names, self._keys)

    def _stored(
        self, store: ObjectStore, candidate: LookupCandidate, wanted: _Wanted
    ) -> Iterator[pa.RecordBatch]:
        """The columns that matter of a candidate's rows, unless none of these can match."""
        piece = candidate.piece
        base = piece.base_file
        if piece.log_files or base is None:
            assert self.settings.reading is not None, "candidates with logs come with it"
            yield from read_file_slice(store, piece, self.settings.reading, self._names())
            return
        with open_base_file(store, base) as file:
            footer = BaseFileFooter()
            if self.settings.reads_bloom_filters:
                footer = read_footer(file.metadata, path=base.path)
            if not self._may_match(footer, wanted):
                return
            for group in range(file.metadata.num_row_groups):
                yield self._read(file, group)

    def _may_match(self, footer: BaseFileFooter, wanted: _Wanted) -> bool:
        has_range = footer.min_key is not None and footer.max_key is not None
        if self.settings.prunes_by_ranges and has_range and wanted.range is not None:
            stored = KeyRange(str(footer.min_key), str(footer.max_key))
            if not stored.overlaps(wanted.range):
                return False
        return footer.bloom is None or bool(footer.bloom.might_contain(wanted.keys).any())

    def _read(self, file: pq.ParquetFile, group: int) -> pa.RecordBatch:
        table = file.read_row_group(group, columns=self._names(), use_threads=False)
        return table.combine_chunks().to_batches()[0] if table.num_rows else _empty(table)

    def _names(self) -> list[str]:
        """The columns to read."""
        ordering = (name.split(".")[0] for name in self.answer.names[_FIXED_COLUMNS:])
        return list(dict.fromkeys([*self._key_names(), *ordering]))

    def _key_names(self) -> list[str]:
        if self.settings.key_fields is None:
            return [RECORD_KEY]
        return sorted({name.split(".")[0] for name in self.settings.key_fields})

    def _keys(self, stored: pa.RecordBatch) -> pa.Array:
        if self.settings.key_fields is None:
            return column_at(stored, RECORD_KEY)
        return virtual_keys(stored, self.settings.key_fields, qualified=self.settings.qualified)

    def _answer(
        self,
        number: int,
        wanted: _Wanted,
        found: pa.Array,
        gone: pa.Array,
        stored: pa.RecordBatch,
    ) -> pa.RecordBatch:
        columns = [
            wanted.keys.take(found),
            wanted.partitions.take(found),
            pa.repeat(pa.scalar(number, pa.int32()), len(found)),
            gone,
        ]
        for field in list(self.answer)[_FIXED_COLUMNS:]:
            if field.name.split(".")[0] in stored.schema.names:
                columns.append(column_at(stored, field.name).cast(field.type))
            else:
                # The column is younger than the file.
                columns.append(pa.nulls(len(found), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.answer)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The distinct keys a task looks for, with the partition path each came with."""

    keys: pa.Array
    partitions: pa.Array
    range: KeyRange | None

    @classmethod
    def of(cls, slab: pa.Table) -> _Wanted:
        keys = slab.column(RECORD_KEY).combine_chunks()
        return cls(keys, slab.column(PARTITION_PATH).combine_chunks(), key_range(keys))


def _slabs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _SLAB_ROWS_MAX:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _empty(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in table.schema], schema=table.schema
    )
