"""How commits lie in a metadata table: instants, names of logs, and which of their blocks count.

A metadata table has the layout of the table that it belongs to, and a protocol that goes with it.
There are two, a module each: `form_by_commit` for versions 8 and 9, `form_by_slice` for version 6.
All else is the same in both: the order of steps, records, base files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

from tideline.formats.log_block import BlockFrame
from tideline.hudi.table.file_group import FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.object_store import ObjectStore

ReadFrames = Callable[[LogFile], Sequence[BlockFrame]]
"""Reads the frames of a log. Raises as `read_frames`."""
Completions = Callable[[InstantTime], InstantTime]
"""When the commit of a time completed."""


class MetadataForm(Protocol):
    """One protocol. Timelines are those of the metadata table, unless said otherwise."""

    @property
    def first(self) -> InstantTime:
        """The commit that a metadata table begins with."""

    @property
    def logs_name_slice(self) -> bool:
        """Whether the instant in a log's name is that of its slice, else it is the writer's."""

    def write_token(self, time: InstantTime) -> str:
        """What names of files that a commit of ours at `time` writes have where Hudi's have the
        numbers of a task."""

    def in_order(self, logs: Sequence[LogFile], completed: Completions) -> tuple[LogFile, ...]:
        """The logs of a slice, what counts last at the end."""

    def counted(
        self,
        logs: Iterable[LogFile],
        read: ReadFrames,
        timeline: ActiveTimeline,
        without: Collection[InstantTime],
    ) -> Iterator[tuple[LogFile, BlockFrame]]:
        """The blocks that count of a slice's logs, in order, but those of some instants. Raises as
        `read`, UnsupportedTableError and CorruptTableError for a block that is not understood."""

    def written_at(
        self, time: InstantTime, logs: Iterable[LogFile], read: ReadFrames
    ) -> tuple[LogFile, ...]:
        """Of these logs those that an instant wrote. Raises as `read`, CorruptTableError where one
        holds what others wrote as well, so that it cannot be deleted."""

    def put_log(
        self,
        store: ObjectStore,
        group: FileGroupId,
        time: InstantTime,
        file_slice: FileSlice | None,
        body: bytes,
    ) -> LogFile:
        """Write a log in the name of an instant, on top of this slice or as the first of a group.
        Died after it: a log that does not count, which `undo` of the instant deletes."""

    def may_be_compacted(self, since: Sequence[Instant], data_timeline: ActiveTimeline) -> bool:
        """Whether none of these commits here may have to be taken out again, by the timeline of the
        table."""

    def compaction_time(self, since: Sequence[Instant], at: InstantTime | None) -> InstantTime:
        """The instant of a compaction of these commits, within a commit that completes `at`."""
