"""How much of a range one batch of a stream takes: whole commits, and at least one.

Commits count in the order in which they took effect; those that change no row (compaction,
clustering) come with what is before them. Bytes are those that commits wrote: of a copy-on-write
table the files that it rewrote, which are what a batch reads. What the archive says is not asked: a
range that begins in it has all of that, and the commits after it count.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.read.change_plan import changes_rows
from tideline.hudi.read.incremental import commits_in, effective_time
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The most that a batch takes of either, None for any number."""

    commits_max: int | None = None
    bytes_max: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return self.commits_max is not None or self.bytes_max is not None

    def end_of_batch(
        self, table: HoodieTable, begin: InstantTime, newest: InstantTime
    ) -> InstantTime:
        """Where a batch ends that begins after `begin`: `newest`, or as early as the limits say.

        It is when a commit took effect, so that no commit is in two batches.
        """
        end, commits, size_bytes = begin, 0, 0
        for instant in commits_in(table, table.timeline(), begin, newest):
            metadata = table.commits.read(instant)
            if changes_rows(metadata):
                commits += 1
                size_bytes += sum(stat.total_write_bytes for stat in metadata.write_stats)
                if commits > 1 and self._is_exceeded(commits, size_bytes):
                    return end
            end = effective_time(instant)
        return newest

    def _is_exceeded(self, commits: int, size_bytes: int) -> bool:
        too_many = self.commits_max is not None and commits > self.commits_max
        return too_many or (self.bytes_max is not None and size_bytes > self.bytes_max)
