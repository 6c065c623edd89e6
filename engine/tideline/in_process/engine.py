"""The write engine of a batch that this process holds: rows in Arrow, routed as numbers.

1. `profile`: keys are looked up in the stored files, several files at once.
2. `write`: rows get their buckets, and each bucket goes to its handle, several at once.

The batch is held in memory once; a bucket is copied out of it when it is written. Whether threads
here or Spark's tasks look into files and write them is up to a `PartRunner`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.file_group.handle_context import (
    BATCH_ROW,
    IS_DELETE,
    RECORD_KEY,
    STORED_ROW,
    HandleContext,
)
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.row_fold import row_fold
from tideline.hudi.file_group.stored_key_lookup import (
    LOCATED,
    LookupSettings,
    StoredKeyLookup,
    lookup_chunks,
)
from tideline.hudi.file_group.wanted_keys import WantedKeys
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.placement.targets import (
    BucketPlacement,
    CreateTarget,
    KeyHash,
    MergeTarget,
    Target,
)
from tideline.hudi.placement.upsert_partitioner import BucketPlan
from tideline.hudi.placement.workload_profile import WorkloadProfile, located_profile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.ordering_value import is_lower
from tideline.hudi.table.schema import stored_schema
from tideline.hudi.table.schema_change import SchemaChange
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.config import SortMode, WriteConfig
from tideline.hudi.write.matched_rows import MatchedRows
from tideline.hudi.write.new_file_id import new_file_id
from tideline.hudi.write.unique_keys import stored_twice
from tideline.hudi.write.work_parts import (
    CreateFiles,
    LookUpKeys,
    PartRunner,
    ThreadRunner,
    WriteBucket,
)
from tideline.in_process.arrangement import arrival_within, last_of_keys, row_order
from tideline.in_process.bucket_numbers import bucket_numbers
from tideline.in_process.filled_rows import ReadStoredRows, filled_from_stored
from tideline.in_process.located_keys import KeyCodes, LocatedKeys
from tideline.in_process.prepared_rows import Flags, Positions, PreparedRows
from tideline.in_process.routed_rows import NOWHERE, RoutedRows


class InProcessWriteEngine:
    """See `tideline.hudi.write.engine.WriteEngine`; its own threads are the `runner` by default."""

    def __init__(
        self,
        table: HoodieTable,
        keys: KeyGenerator,
        config: WriteConfig,
        batch: PreparedRows,
        *,
        inserts_rows: bool = True,
        runner: PartRunner | None = None,
        matched: MatchedRows | None = None,
    ) -> None:
        self.matched = matched
        self._table = table
        self._keys = keys
        self._config = config
        self._inserts_rows = inserts_rows
        self._runner = runner or ThreadRunner.of(table.store)
        self._candidates: tuple[LookupCandidate, ...] = ()
        self._located: LocatedKeys | None = None
        self._set_batch(batch)

    @property
    def schema(self) -> pa.Schema:
        return self._batch.schema.schema

    @property
    def schema_change(self) -> SchemaChange:
        return self._batch.schema.change

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(self._batch.rows_per_partition()))

    def release(self) -> None:
        """Nothing is kept beyond the engine itself."""

    @property
    def row_count(self) -> int:
        return len(self._batch)

    def keys_by_partition(self, count_max: int | None = None) -> Mapping[str, Sequence[str]]:
        keys, codes = self._batch.keys, self._batch.partition_codes()
        if count_max is not None and len(keys) > count_max:
            chosen = np.linspace(0, len(keys) - 1, count_max, dtype=np.int64)
            keys, codes = keys.take(pa.array(chosen)), codes[chosen]
        paths = self._batch.partitions.dictionary.to_pylist()
        order = np.argsort(codes, kind="stable")
        return {
            paths[number]: keys.take(pa.array(rows)).to_pylist()
            for number, rows in _grouped(codes, order, len(paths))
        }

    def profile(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> WorkloadProfile:
        self._candidates = tuple(candidates)
        located: dict[tuple[str, int], int] = {}
        distinct: dict[str, int] = {}
        if candidates:
            self._located = self._locate(candidates, timeline)
            self._fill_rows_found_elsewhere(self._located, timeline)
            paths = self._codes.partitions.to_pylist()
            located = {(paths[p], file): n for (p, file), n in self._located.counts().items()}
            if self._config.index.type.is_global:
                distinct = {paths[p]: n for p, n in self._located.distinct_keys().items()}
            self._require_one_partition(self._located)
        return located_profile(
            self._batch.rows_per_partition(),
            located,
            self._candidates,
            distinct_located=distinct,
            moves_rows=self._config.index.updates_partition_path,
        )

    def leave_out_stored(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> int:
        if not candidates:
            return 0
        located = self._locate(candidates, timeline)
        live = located.codes[~located.gone]
        kept = np.flatnonzero(~np.isin(self._codes.of_rows, live))
        left_out = len(self._batch) - len(kept)
        if left_out:
            self._set_batch(self._batch.take(kept))
        return left_out

    def profile_by_hash(self, hashed: KeyHash) -> Mapping[tuple[str, int], int]:
        partitions = self._batch.partition_codes()
        buckets = self._hash_buckets(hashed)
        pairs, counts = np.unique(np.stack([partitions, buckets], 1), axis=0, return_counts=True)
        paths = self._codes.partitions.to_pylist()
        return {
            (paths[partition], int(bucket)): int(count)
            for (partition, bucket), count in zip(pairs, counts, strict=True)
        }

    def write(
        self,
        plan: BucketPlan,
        targets: Mapping[int, Target],
        context: HandleContext,
        *,
        drops_duplicates: bool,
        placement: BucketPlacement | None = None,
    ) -> Sequence[WriteStat]:
        if not plan.buckets:
            return ()
        routed = self._routed()
        if placement is None:
            buckets = self._buckets_of(routed, plan)
        else:
            buckets = self._buckets_by_hash(placement)
        arranged = self._arranged(routed, buckets, context, drops_duplicates=drops_duplicates)
        groups = _grouped(buckets, arranged, len(plan.buckets))

        def bucket(nth: int) -> WriteBucket:
            number, chosen = groups[nth]
            if drops_duplicates and isinstance(targets[number], CreateTarget):
                chosen = self._by_key(routed, chosen)
            flags = None if routed.deletes is None else routed.deletes[chosen]
            rows = self._handle_rows(context, routed.rows[chosen], flags)
            if drops_duplicates and context.partial is None and routed.are_single:
                rows = self._with_stored_rows(rows, routed.found[chosen], targets[number])
            return WriteBucket(context, targets[number], rows, drops_duplicates)

        row_bytes = self._row_bytes()
        sizes = [row_bytes * len(rows) + targets[number].bytes_read for number, rows in groups]
        return self._runner.run(bucket, sizes)

    def _arranged(
        self,
        routed: RoutedRows,
        buckets: Positions,
        context: HandleContext,
        *,
        drops_duplicates: bool,
    ) -> Positions:
        """Entries by bucket. Where duplicates are dropped the one that is left of each key, or the
        rows that become one next to each other."""
        rows = routed.rows
        if context.partial is not None or not drops_duplicates:
            order = row_order(self._batch, context, drops_duplicates=drops_duplicates)
            return np.lexsort((order[rows], buckets))
        ordering = context.ordering_fields
        kept = last_of_keys(self._batch, rows, routed.codes, buckets, ordering)
        left = np.flatnonzero(kept & (buckets != NOWHERE))
        if (np.diff(rows[left]) < 0).any():
            return left[np.lexsort((rows[left], buckets[left]))]
        return left[arrival_within(buckets[left])]

    def _by_key(self, routed: RoutedRows, chosen: Positions) -> Positions:
        """Entries by the text of their keys, of equal keys in their order."""
        keys = self._batch.keys.take(pa.array(routed.rows[chosen]))
        order: Positions = pc.sort_indices(keys).to_numpy().astype(np.int64)
        return chosen[order]

    def bulk_insert(self, context: HandleContext, sort_mode: SortMode) -> Sequence[WriteStat]:
        partitions = self._batch.partition_codes()
        paths = self._batch.partitions.dictionary.to_pylist()
        if sort_mode is SortMode.NONE:
            arranged = arrival_within(partitions)
        else:
            order = row_order(self._batch, context, drops_duplicates=True)
            arranged = np.lexsort((order, partitions))
        groups = _grouped(partitions, arranged, len(paths))

        def files(nth: int) -> CreateFiles:
            number, chosen = groups[nth]
            deletes = self._batch.deletes
            flags = None if deletes is None else deletes[chosen]
            rows = self._handle_rows(context, chosen, flags)
            return CreateFiles(context, paths[number], new_file_id(), rows)

        row_bytes = self._row_bytes()
        sizes = [row_bytes * len(rows) for _, rows in groups]
        return self._runner.run(files, sizes)

    def _fill_rows_found_elsewhere(self, located: LocatedKeys, timeline: ActiveTimeline) -> None:
        """Merge rows that may move with the stored ones, where rows fill each other up."""
        fold = row_fold(self._table.config, self.schema)
        if fold is None or not self._inserts_rows or not self._config.index.updates_partition_path:
            return
        is_away = ~located.gone & (self._homes()[located.files] != located.partitions)
        if not is_away.any():
            return
        reading = SliceContext.of(self._table, timeline, stored_schema(self.schema))
        wanted = self._codes.keys.take(pa.array(np.unique(located.codes[is_away])))
        files = [self._candidates[number] for number in np.unique(located.files[is_away]).tolist()]
        columns = self._batch.rows.schema

        def read(nth: int) -> ReadStoredRows:
            return ReadStoredRows(files[nth].whole, reading, self._keys, wanted, columns)

        stored = self._runner.run(read, [file.bytes_read for file in files])
        self._set_batch(filled_from_stored(self._batch, stored, fold, self._keys))
        self._located = self._locate(self._candidates, timeline)

    def _set_batch(self, batch: PreparedRows) -> None:
        self._batch = batch
        self._numbered: KeyCodes | None = None

    @property
    def _codes(self) -> KeyCodes:
        """The batch's keys, which a bulk insert never compares, as numbers."""
        if self._numbered is None:
            is_global = self._config.index.type.is_global
            self._numbered = KeyCodes.of(self._batch, is_global=is_global)
        return self._numbered

    def _locate(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> LocatedKeys:
        """Where the incoming keys are stored."""
        has_logs = any(candidate.has_logs for candidate in candidates)
        reading = self._reading(timeline) if has_logs else None
        config, index = self._table.config, self._config.index
        settings = LookupSettings.of(config, index, self._keys, reading)
        wanted = self._wanted(len(candidates))
        by_key_only = index.type.is_global
        chunks = [
            (chunk, keys)
            for chunk in lookup_chunks(candidates, self._runner.parallelism, by_key_only)
            if (keys := wanted.get("" if by_key_only else candidates[chunk[0]].partition))
        ]
        answer = self._answer()

        def look_up(nth: int) -> LookUpKeys:
            numbers, keys = chunks[nth]
            chosen = {number: candidates[number] for number in numbers}
            return LookUpKeys(StoredKeyLookup(chosen, settings, answer), numbers, keys)

        sizes = [sum(candidates[number].bytes_read for number in chunk) for chunk, _ in chunks]
        found = self._runner.run(look_up, sizes)
        rows = pa.Table.from_batches(found, schema=answer)
        return LocatedKeys.of(rows, self._codes, self._batch.partition_codes())

    def _wanted(self, lookups: int) -> dict[str, WantedKeys]:
        """The keys to look for in so many files, by partition, all under "" for a global index."""
        keys, partitions = self._batch.keys, self._batch.partitions
        if self._config.index.type.is_global:
            every = pa.array(np.arange(len(keys)))
            return {"": WantedKeys.of(keys, partitions.dictionary_decode(), lookups, every)}
        codes = self._batch.partition_codes()
        paths = partitions.dictionary.to_pylist()
        wanted = {}
        for number, chosen in _grouped(codes, np.argsort(codes, kind="stable"), len(paths)):
            here = keys if len(chosen) == len(keys) else keys.take(pa.array(chosen))
            wanted[paths[number]] = WantedKeys.of(
                here, pa.repeat(paths[number], len(here)), lookups, pa.array(chosen)
            )
        return wanted

    def _answer(self) -> pa.Schema:
        """What a lookup answers: ordering values too, where rows of a global index are compared."""
        places = pa.field(STORED_ROW, pa.int64()), pa.field(BATCH_ROW, pa.int64())
        fields = [*LOCATED, *places]
        for name in self._compared_fields():
            fields.append(pa.field(name, column_at(self._batch.rows, name).type))
        return pa.schema(fields)

    def _compared_fields(self) -> tuple[str, ...]:
        config = self._table.config
        by_event_time = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
        return config.ordering_fields if self._config.index.type.is_global and by_event_time else ()

    def _reading(self, timeline: ActiveTimeline) -> SliceContext:
        """How to read slices whose logs show which keys they have."""
        schema = self._table.schemas.newest(timeline)
        return SliceContext.of(self._table, timeline, schema or stored_schema(self.schema))

    def _routed(self) -> RoutedRows:
        batch, located = self._batch, self._located
        codes, partitions = self._codes.of_rows, batch.partition_codes()
        routed = RoutedRows.of(codes, partitions, batch.deletes, located)
        if located is None or not self._config.index.type.is_global:
            return routed
        homes = self._homes()
        moves = self._config.index.updates_partition_path
        return routed.moved(homes, self._wins(routed, located) if moves else None)

    def _homes(self) -> Positions:
        """The partition of every candidate, by its position among `_paths`."""
        numbers = {path: number for number, path in enumerate(self._paths())}
        return np.array([numbers[file.partition] for file in self._candidates], np.int64)

    def _paths(self) -> list[str]:
        """The partitions of the batch, and behind them those of the candidates alone."""
        incoming = self._codes.partitions.to_pylist()
        stored = (file.partition for file in self._candidates)
        return list(dict.fromkeys([*incoming, *stored]))

    def _wins(self, routed: RoutedRows, located: LocatedKeys) -> Flags:
        """Which entries have no lower ordering values than their stored rows."""
        wins = np.ones(len(routed.rows), np.bool_)
        is_found = np.flatnonzero(routed.found != NOWHERE)
        names = self._compared_fields()
        if not names or not len(is_found):
            return wins
        incoming = pa.array(routed.rows[is_found])
        stored = pa.array(routed.found[is_found])
        rows = located.rows.combine_chunks()
        new = [column_at(self._batch.rows, name).take(incoming) for name in names]
        old = [rows.column(name).combine_chunks().take(stored) for name in names]
        wins[is_found] = ~is_lower(new, old, len(is_found))
        return wins

    def _buckets_of(self, routed: RoutedRows, plan: BucketPlan) -> Positions:
        numbers = plan.update_numbers()
        places = ((file.partition, file.file_id) for file in self._candidates)
        of_file = np.array([numbers.get(place, NOWHERE) for place in places], np.int64)
        return routed.buckets(plan, of_file, self._paths(), inserts_rows=self._inserts_rows)

    def _buckets_by_hash(self, placement: BucketPlacement) -> Positions:
        batch = self._batch
        hashes = self._hash_buckets(placement.hashed)
        paths = self._codes.partitions.to_pylist()
        pairs = np.stack([batch.partition_codes(), hashes], 1)
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        numbers = [
            placement.numbers.get((paths[partition], int(bucket)), NOWHERE)
            for partition, bucket in distinct
        ]
        found: Positions = np.array(numbers, np.int64)[inverse.reshape(-1)]
        return found

    def _hash_buckets(self, hashed: KeyHash) -> Positions:
        batch = self._batch
        return bucket_numbers(batch.keys, batch.partitions, hashed, self._keys.record_fields)

    def _handle_rows(
        self, context: HandleContext, positions: Positions, deletes: Flags | None
    ) -> pa.RecordBatch:
        """The columns that a handle takes, of the rows at these positions."""
        wanted = pa.array(positions)
        rows = self._batch.rows.select(context.schema.names).take(wanted)
        columns = [self._batch.keys.take(wanted), *rows.columns]
        names = [RECORD_KEY, *rows.schema.names]
        if deletes is not None:
            columns.append(pa.array(deletes))
            names.append(IS_DELETE)
        return pa.RecordBatch.from_arrays(columns, names)

    def _with_stored_rows(
        self, rows: pa.RecordBatch, found: Positions, target: Target
    ) -> pa.RecordBatch:
        """Rows for a base file, one for each key, with the places where their keys were `found`
        in it."""
        if self._located is None or not isinstance(target, MergeTarget):
            return rows
        places = self._located.rows.column(STORED_ROW).to_numpy()
        stored = np.where(found == NOWHERE, NOWHERE, places[found])
        if ((stored < 0) & (found != NOWHERE)).any():
            return rows
        return rows.append_column(STORED_ROW, pa.array(stored))

    def _require_one_partition(self, located: LocatedKeys) -> None:
        """Raise CorruptTableError when a record index' key is stored in two partitions.

        A record index has one place for each key. Where it is wrong, the rows of such a key may be
        different things, and updating all of them would make them one.
        """
        if self._config.index.type is not IndexType.RECORD_INDEX:
            return
        homes, names = self._homes()[located.files], self._paths()
        # Sorted by code, then home: a code in two partitions is behind itself.
        pairs = np.unique(located.codes * len(names) + homes)
        codes = pairs // len(names)
        doubled = codes[1:][codes[1:] == codes[:-1]]
        if not len(doubled):
            return
        key = self._codes.keys[int(doubled[0])].as_py()
        places = sorted(names[home] for home in pairs[codes == doubled[0]] % len(names))
        raise stored_twice(key, places, self._table.location.uri)

    def _row_bytes(self) -> int:
        """Of one row, on average."""
        return int(self._batch.rows.nbytes) // max(1, len(self._batch))


def _grouped(codes: Positions, arranged: Positions, count: int) -> list[tuple[int, Positions]]:
    """The positions of each code below `count` that has any, as they are arranged: by code."""
    starts = np.searchsorted(codes[arranged], np.arange(count + 1), "left")
    filled = np.flatnonzero(np.diff(starts)).tolist()
    return [(code, arranged[starts[code] : starts[code + 1]]) for code in filled]
