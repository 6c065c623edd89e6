"""Which file slices may hold rows that are only in their logs, although there is a base file.

An index that reads base files appends only to file groups whose base file has the key. But a
writer that begins while a compaction of the group is pending looks into the old base file, and its
rows lie on top of the new one. Where the compaction dropped the key, because a log had deleted it,
the row is in the log alone. Tideline's writers look into what the compaction will leave
(docs/decisions/0015); Hudi's do not.

So it takes a base file of a compaction that dropped rows of this group, and a delta commit that was
requested before this compaction completed, going by the times of their objects or, where instants
have them, of completion: there it may have been requested before the compaction, too.

A Flink job appends new keys to any log, and leaves evidence by which it is known (see
tideline.hudi.capabilities.flink_writers). Where it wrote, the rows of all logs are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from tideline.hudi.capabilities.flink_writers import is_flink_file_id
from tideline.hudi.capabilities.look import was_flink_here
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime


def may_have_rows_in_logs(
    table: HoodieTable, timeline: ActiveTimeline
) -> Callable[[FileSlice], bool]:
    """A question to slices of a merge-on-read table; reads a compaction's commit at most once, and
    looks for evidence of Flink at most once.

    It raises CorruptTableError when that cannot be read. Archived compactions are passed over.
    """
    dropped: dict[InstantTime, frozenset[FileGroupId]] = {}
    had_flink = cache(partial(was_flink_here, table.store))

    def ask(file_slice: FileSlice) -> bool:
        if is_flink_file_id(file_slice.file_id) or had_flink():
            return True
        base = file_slice.base_instant
        if base not in dropped:
            dropped[base] = _groups_that_lost_rows(table, timeline, base)
        return file_slice.group in dropped[base]

    return ask


def _groups_that_lost_rows(
    table: HoodieTable, timeline: ActiveTimeline, base: InstantTime
) -> frozenset[FileGroupId]:
    compaction = timeline.completed().find(base)
    if compaction is None or compaction.action is not Action.COMMIT:
        return frozenset()
    if not any(_overlapping(timeline, compaction)):
        return frozenset()
    stats = table.commits.read(compaction).partition_to_write_stats
    return frozenset(
        FileGroupId(partition, stat.file_id)
        for partition, found in stats.items()
        for stat in found
        if stat.num_deletes and stat.file_id
    )


def _overlapping(timeline: ActiveTimeline, compaction: Instant) -> Iterator[bool]:
    """Of each delta commit on top of a compaction, whether it may have begun before its end."""
    deltas = timeline.of(Action.DELTACOMMIT).completed()
    if compaction.completion_time is not None:
        for candidate in deltas:
            is_on_top = candidate.completed_at is None or candidate.completed_at >= compaction.time
            yield is_on_top and candidate.time <= compaction.completion_time
        return
    completed_ms = timeline.made_ms.get(compaction)
    for instant in deltas.after(compaction.time):
        begun_ms = timeline.made_ms.get(instant.in_state(State.REQUESTED))
        yield begun_ms is None or completed_ms is None or begun_ms <= completed_ms
