"""Looking incoming keys up in stored file slices: which of them each slice has.

1. A base file whose keys are known to be in another range is not opened.
2. Which of the keys a base file may have is in its footer: by the statistics of its key column, row
   group by row group, and for a bloom index by its key range and its filter as well. A file without
   any is skipped.
3. The key column of the base file is matched with these keys, in Arrow. Where log files come with
   the candidate, its merged rows decide.
4. Where later logs may have deleted keys that were found, the merged slice shows which.

An answer has one row for each stored key: the key, the incoming partition path, the number of the
candidate, whether a log there deleted the key and, where the caller wants to compare them, the
stored ordering values.
Source: Hudi's HoodieSimpleIndex, HoodieBloomIndex, HoodieKeyLookupHandle and their global kin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.hudi.file_group.deleted_keys import deleted_keys
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.file_group.handle_context import BATCH_ROW, RECORD_KEY, STORED_ROW
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.stored_keys import open_base_file
from tideline.hudi.file_group.wanted_keys import WantedKeys, key_bounds, united_bounds
from tideline.hudi.index.index_settings import IndexSettings
from tideline.hudi.index.key_range import KeyRange
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.virtual_key import column_at, virtual_keys
from tideline.hudi.log.entry_fold import Flags
from tideline.hudi.table.meta_column import PARTITION_PATH
from tideline.hudi.table.table_config import TableConfig
from tideline.storage.object_store import ObjectStore

_CHUNKS_EACH = 4
NO_ROW = pa.scalar(-1, pa.int64())
LOCATED_FILE = "_tideline_file_number"
IS_GONE = "_tideline_is_gone"
"""Whether a log of that file's slice has deleted the key."""
LOCATED = pa.schema(
    [
        (RECORD_KEY, pa.string()),
        (PARTITION_PATH, pa.string()),
        (LOCATED_FILE, pa.int32()),
        (IS_GONE, pa.bool_()),
    ]
)
"""Columns of every answer; those of ordering fields follow, by their dotted names. One that is
called STORED_ROW gets the rows' places in the base file, -1 for rows that came with logs; one that
is called BATCH_ROW those of their keys in the batch."""


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

    @classmethod
    def of(
        cls,
        config: TableConfig,
        index: IndexSettings,
        keys: KeyGenerator,
        reading: SliceContext | None,
    ) -> LookupSettings:
        """Those of a table's index."""
        return cls(
            index.type.reads_bloom_filters,
            index.prunes_by_ranges,
            None if config.populate_meta_fields else config.record_key_fields,
            keys.qualified,
            reading,
        )


def lookup_chunks(
    candidates: Sequence[LookupCandidate], parallelism: int, by_key_only: bool
) -> tuple[tuple[int, ...], ...]:
    """Numbers of the candidates, in some chunks of equal length for each of those that look up.

    Each is within one partition, unless keys alone count.
    """
    by_partition: dict[str, list[int]] = {}
    for number, file in enumerate(candidates):
        by_partition.setdefault("" if by_key_only else file.partition, []).append(number)
    length = max(1, -(-len(candidates) // (parallelism * _CHUNKS_EACH)))
    return tuple(
        tuple(numbers[start : start + length])
        for numbers in by_partition.values()
        for start in range(0, len(numbers), length)
    )


@dataclass(frozen=True, slots=True)
class StoredKeyLookup:
    """Looks keys up in one candidate after the other, by its number. `answer`: `LOCATED` and
    ordering columns."""

    candidates: Sequence[LookupCandidate] | Mapping[int, LookupCandidate]
    settings: LookupSettings
    answer: pa.Schema = LOCATED

    def look_up(
        self, store: ObjectStore, number: int, wanted: WantedKeys
    ) -> Iterator[pa.RecordBatch]:
        """Which of the wanted keys the candidate of this number has, in the lookup's schema."""
        candidate = self.candidates[number]
        if candidate.has_rows_in_logs:
            yield from self._look_up_whole(store, number, wanted)
            return
        gone: Flags | None = None
        is_first = True
        for own, first_row, stored in self._stored(store, candidate, wanted):
            found = _positions(self._keys(stored), own.keys)
            hits = pc.indices_nonzero(found.is_valid())
            if not len(hits):
                continue
            if is_first:
                gone, is_first = self._gone(store, candidate, own), False
            positions = found.drop_null()
            flags = np.zeros(len(positions), np.bool_)
            if gone is not None:
                flags = gone[positions.to_numpy()]
            rows = NO_ROW if first_row is None else pc.add(hits.cast(pa.int64()), first_row)
            yield self._answer(number, own, positions, pa.array(flags), stored.take(hits), rows)

    def _look_up_whole(
        self, store: ObjectStore, number: int, wanted: WantedKeys
    ) -> Iterator[pa.RecordBatch]:
        """The same for a slice whose logs have rows of their own: these, and the base file's."""
        candidate, reading = self.candidates[number], self.settings.reading
        assert reading is not None, "candidates with logs come with it"
        gone = np.ones(len(wanted.keys), np.bool_)
        merged = read_file_slice(store, candidate.whole, reading, self._names())
        in_base = (rows for _, _, rows in self._stored(store, candidate, wanted))
        for stored, is_live in chain(zip(merged, repeat(True)), zip(in_base, repeat(False))):
            found = _positions(self._keys(stored), wanted.keys)
            positions = pc.fill_null(found, -1).to_numpy()
            hits = np.flatnonzero(positions >= 0)
            if not is_live:
                hits = hits[gone[positions[hits]]]
            if len(hits):
                gone[positions[hits]] &= not is_live
                flags = pa.array(np.full(len(hits), not is_live))
                taken = pa.array(hits)
                stored = stored.take(taken)
                yield self._answer(number, wanted, found.take(taken), flags, stored, NO_ROW)

    def _gone(
        self, store: ObjectStore, candidate: LookupCandidate, wanted: WantedKeys
    ) -> Flags | None:
        """Which of the wanted keys the logs deleted; asked once some are found in the slice."""
        if not candidate.later_logs:
            return None
        assert self.settings.reading is not None, "candidates with logs come with it"
        names = self._key_names()
        return deleted_keys(store, candidate, self.settings.reading, wanted.keys, names, self._keys)

    def _stored(
        self, store: ObjectStore, candidate: LookupCandidate, wanted: WantedKeys
    ) -> Iterator[tuple[WantedKeys, int | None, pa.RecordBatch]]:
        """The columns that matter of a candidate's rows, unless none of these can match, the keys
        that the candidate may have, the same each time, and where the first row is in the base
        file, None for rows that come with logs."""
        file_slice = candidate.file_slice
        base = file_slice.base_file
        if file_slice.log_files or base is None:
            assert self.settings.reading is not None, "candidates with logs come with it"
            for rows in read_file_slice(store, file_slice, self.settings.reading, self._names()):
                yield wanted, None, rows
            return
        if not wanted.has_any(candidate.bounds):
            return
        with open_base_file(store, base) as file:
            bounds = key_bounds(file.metadata) if self.settings.key_fields is None else []
            own = wanted.within(united_bounds(bounds))
            if self.settings.reads_bloom_filters and len(own.keys):
                own = self._of_footer(read_footer(file.metadata, path=base.path), own)
            first_row = 0
            for group in range(file.metadata.num_row_groups):
                if own.has_any(bounds[group] if bounds else None):
                    yield own, first_row, self._read(file, group)
                first_row += int(file.metadata.row_group(group).num_rows)

    def _of_footer(self, footer: BaseFileFooter, wanted: WantedKeys) -> WantedKeys:
        """The keys that Hudi's entries of a footer leave."""
        has_range = footer.min_key is not None and footer.max_key is not None
        if self.settings.prunes_by_ranges and has_range and wanted.range is not None:
            stored = KeyRange(str(footer.min_key), str(footer.max_key))
            if not stored.overlaps(wanted.range):
                return wanted.none()
        if footer.bloom is None:
            return wanted
        return wanted.filtered(pa.array(footer.bloom.might_contain(wanted.keys)))

    def _read(self, file: pq.ParquetFile, group: int) -> pa.RecordBatch:
        table = file.read_row_group(group, columns=self._names(), use_threads=False)
        return table.combine_chunks().to_batches()[0] if table.num_rows else _empty(table)

    def _names(self) -> list[str]:
        """The columns to read."""
        added = self.answer.names[len(LOCATED) :]
        ordering = (name.split(".")[0] for name in added if name not in (STORED_ROW, BATCH_ROW))
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
        wanted: WantedKeys,
        found: pa.Array,
        gone: pa.Array,
        stored: pa.RecordBatch,
        rows: pa.Array | pa.Scalar,
    ) -> pa.RecordBatch:
        columns = [
            wanted.keys.take(found),
            wanted.partitions.take(found),
            pa.repeat(pa.scalar(number, pa.int32()), len(found)),
            gone,
        ]
        for field in list(self.answer)[len(LOCATED) :]:
            if field.name == STORED_ROW:
                columns.append(rows if isinstance(rows, pa.Array) else pa.repeat(rows, len(found)))
            elif field.name == BATCH_ROW:
                assert wanted.rows is not None, "keys of a batch come with their places"
                columns.append(wanted.rows.take(found))
            elif field.name.split(".")[0] in stored.schema.names:
                columns.append(column_at(stored, field.name).cast(field.type))
            else:
                # The column is younger than the file.
                columns.append(pa.nulls(len(found), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.answer)


def _positions(stored: pa.Array, wanted: pa.Array) -> pa.Array:
    """Where each stored key is among the wanted ones, of equal ones the first; null where it is
    not.

    Arrow makes a hash table of what is looked in. Of many wanted keys that costs much more for each
    file than looking them up in one of few stored keys, so that only those that are there remain.
    """
    if len(wanted) <= len(stored):
        return pc.index_in(stored, value_set=wanted)
    there = pc.indices_nonzero(pc.is_in(wanted, value_set=stored))
    found = pc.index_in(stored, value_set=wanted.take(there))
    return there.cast(pa.int32()).take(found)


def _empty(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in table.schema], schema=table.schema
    )
