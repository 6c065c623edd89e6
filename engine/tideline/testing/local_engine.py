"""A write engine inside this process: Arrow instead of Spark, over any ObjectStore.

Crash tests run hundreds of writes with it over stores that die at a chosen write. It shares all
of the write path but the shuffles: planning, handles, markers, transaction. Simple keys only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.write.config import SortMode
from tideline.hudi.write.create_handle import create_base_files
from tideline.hudi.write.dedupe import keep_last_of_key
from tideline.hudi.write.engine import AppendTarget, BucketPlacement, CreateTarget, KeyHash, Target
from tideline.hudi.write.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.write.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.write.lookup_candidate import LookupCandidate
from tideline.hudi.write.merge_handle import merge_base_file
from tideline.hudi.write.partial_append import append_to_slice
from tideline.hudi.write.row_fold import RowFold
from tideline.hudi.write.upsert_partitioner import BucketPlan, bucket_of
from tideline.hudi.write.workload_profile import PartitionWorkload, UpdateCount, WorkloadProfile
from tideline.storage.object_store import ObjectStore


@dataclass(slots=True)
class LocalEngine:
    """Writes one Arrow table; see `tideline.hudi.write.engine.WriteEngine`.

    `key` and `partition` name a string column each (`partition` None: unpartitioned).
    `deletes` makes every row a delete of its key.
    """

    store: ObjectStore
    rows: pa.Table
    key: str
    partition: str | None = None
    deletes: bool = False
    _located: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted({path for _, path in self._routing()}))

    def release(self) -> None:
        """Nothing is kept."""

    def _locate(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> dict[tuple[str, str], str]:
        """The file ids of the keys that logs have deleted."""
        gone: dict[tuple[str, str], str] = {}
        for candidate in candidates:
            file = candidate.piece
            stored = self._keys(file, timeline)
            left = self._keys(candidate.whole, timeline) if candidate.later_logs else stored
            stored |= left if candidate.has_rows_in_logs else set()
            here = {(key, file.partition): file.file_id for key in sorted(stored)}
            self._located |= {place: here[place] for place in here if place[0] in left}
            gone |= {place: here[place] for place in here if place[0] not in left}
        return gone

    def _keys(self, piece: FileSlice, timeline: ActiveTimeline) -> set[str]:
        reading = SliceContext(self.store.uri, self.rows.schema, CommittedInstants.of(timeline))
        batches = read_file_slice(self.store, piece, reading, [RECORD_KEY])
        return {key for batch in batches for key in batch.column(0).to_pylist()}

    def profile(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> WorkloadProfile:
        gone = self._locate(candidates, timeline)
        self._located = {**gone, **self._located}
        instants = {found.file_id: found.piece.base_instant for found in candidates}
        inserts: dict[str, int] = {}
        updates: dict[str, dict[str, UpdateCount]] = {}
        for key, path in self._routing():
            found = updates.setdefault(path, {})
            file_id = self._located.get((key, path))
            if file_id is None:
                inserts[path] = inserts.get(path, 0) + 1
            else:
                records = found[file_id].records + 1 if file_id in found else 1
                found[file_id] = UpdateCount(instants[file_id], records)
        return WorkloadProfile(
            {p: PartitionWorkload(inserts.get(p, 0), found) for p, found in updates.items()}
        )

    def leave_out_stored(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> int:
        self._locate(candidates, timeline)
        kept = [number for number, place in enumerate(self._routing())
                if place not in self._located]  # fmt: skip
        left_out = self.rows.num_rows - len(kept)
        self.rows, self._located = self.rows.take(kept), {}
        return int(left_out)

    def profile_by_hash(self, hashed: KeyHash) -> Mapping[tuple[str, int], int]:
        assert len(hashed.fields) <= 1, "keys here have one field"
        counts: dict[tuple[str, int], int] = {}
        for key, path in self._routing():
            place = path, hashed.bucket(path, key)
            counts[place] = counts.get(place, 0) + 1
        return counts

    def write(
        self,
        plan: BucketPlan,
        targets: Mapping[int, Target],
        context: HandleContext,
        *,
        drops_duplicates: bool,
        placement: BucketPlacement | None = None,
    ) -> Sequence[WriteStat]:
        numbers = plan.update_numbers()
        chosen: dict[int, list[int]] = {}
        for row, (key, path) in enumerate(self._routing()):
            if placement is not None:
                number = placement.numbers.get((path, placement.hashed.bucket(path, key)))
            elif (file_id := self._located.get((key, path))) is not None:
                number = numbers[path, file_id]
            else:
                number = bucket_of(plan, path, key) if path in plan.insert_weights else None
            if number is not None:
                chosen.setdefault(number, []).append(row)
        stats: list[WriteStat] = []
        for number, picked in sorted(chosen.items()):
            rows = self._handle_rows(context).take(picked)
            if drops_duplicates:
                rows = _unique(rows, context)
            target = targets[number]
            task = context.for_task(number, 0, 0)
            if isinstance(target, CreateTarget):
                stats += create_base_files(
                    task, self.store, target.partition, target.file_id_prefix, rows.to_batches()
                )
            elif isinstance(target, AppendTarget):
                stats += append_to_slice(task, self.store, target, rows)
            else:
                stats += merge_base_file(task, self.store, target.base_file, rows)
        return stats

    def bulk_insert(self, context: HandleContext, sort_mode: SortMode) -> Sequence[WriteStat]:
        rows = self._handle_rows(context)
        paths = pa.array([path for _, path in self._routing()], pa.string())
        stats: list[WriteStat] = []
        for number, path in enumerate(self.partitions):
            picked = rows.filter(pc.equal(paths, path))
            if sort_mode is not SortMode.NONE:
                picked = picked.sort_by(RECORD_KEY)
            prefix = f"b0000000-0000-0000-{number:04d}-{str(context.instant)[-12:]}"
            stats += create_base_files(
                context.for_task(number, 0, 0), self.store, path, prefix, picked.to_batches()
            )
        return stats

    def _routing(self) -> list[tuple[str, str]]:
        keys = self.rows.column(self.key).cast(pa.string()).to_pylist()
        if self.partition is None:
            return [(key, "") for key in keys]
        return list(zip(keys, self.rows.column(self.partition).to_pylist(), strict=True))

    def _handle_rows(self, context: HandleContext) -> pa.Table:
        key = self.rows.column(self.key).cast(pa.string())
        rows = self.rows.select(context.schema.names).add_column(0, RECORD_KEY, key)
        if self.deletes:
            flags = pa.array([True] * rows.num_rows)
            rows = rows.append_column(IS_DELETE, flags)
        return rows


def _unique(rows: pa.Table, context: HandleContext) -> pa.Table:
    batches = rows.sort_by(RECORD_KEY).combine_chunks().to_batches()
    fold = RowFold.of(context)
    kept = keep_last_of_key(batches) if fold is None else fold.fold_sorted(batches)
    return pa.Table.from_batches(kept, schema=rows.schema)
