"""What an engine does for a write. The transaction and the planning are the same for all.

An engine is given one batch of incoming rows at construction, prepared: keys, target schema,
arrival order. One engine shuffles them on Spark (`tideline.spark.write.engine`), the other holds
them in memory (`tideline.in_process.engine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.placement.targets import BucketPlacement, KeyHash, Target
from tideline.hudi.placement.upsert_partitioner import BucketPlan
from tideline.hudi.placement.workload_profile import WorkloadProfile
from tideline.hudi.table.schema_change import SchemaChange
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.config import SortMode
from tideline.hudi.write.matched_rows import MatchedRows

if TYPE_CHECKING:
    import pyarrow as pa


class WriteEngine(Protocol):
    """Moves the rows of one incoming batch."""

    @property
    def schema(self) -> pa.Schema:
        """The user columns as they will be written, evolved from the table's."""

    @property
    def schema_change(self) -> SchemaChange:
        """How they differ from the table's."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition paths the batch touches."""

    @property
    def matched(self) -> MatchedRows | None:
        """The rows that a condition matched, where the batch is these, each key once."""

    @property
    def row_count(self) -> int:
        """How many rows the batch has."""

    def keys_by_partition(self, count_max: int | None = None) -> Mapping[str, Sequence[str]]:
        """The keys of the batch by the partition that they come with: those of all rows, or of
        about so many, spread over the batch."""

    def profile(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> WorkloadProfile:
        """Look every key up in the candidates and count rows per partition and file group.

        A candidate has the keys of its file slice, merged with its logs, as `timeline` shows them.
        One that later logs deleted counts as stored there if no other candidate has it.
        With no candidates every row is an insert.
        """

    def leave_out_stored(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> int:
        """Drop the rows whose keys the candidates hold, before anything else; how many they are.

        A key that later logs deleted is not held.
        """

    def profile_by_hash(self, hashed: KeyHash) -> Mapping[tuple[str, int], int]:
        """Rows per (partition, hash bucket) of a bucket index."""

    def write(
        self,
        plan: BucketPlan,
        targets: Mapping[int, Target],
        context: HandleContext,
        *,
        drops_duplicates: bool,
        placement: BucketPlacement | None = None,
    ) -> Sequence[WriteStat]:
        """Route every row to its bucket and write the buckets; one stat per file.

        Rows that have neither a location nor an insert bucket (deletes of unknown keys) are
        dropped.
        """

    def bulk_insert(self, context: HandleContext, sort_mode: SortMode) -> Sequence[WriteStat]:
        """Write every row to new file groups, without looking keys up."""

    def release(self) -> None:
        """Give up what is held for the batch; the write is over."""
