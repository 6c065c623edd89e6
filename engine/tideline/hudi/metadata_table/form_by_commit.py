"""Metadata tables of versions 8 and 9: a log is named after the commit that wrote it.

1. A log counts when its instant is completed, which the listing of its slice has seen to already.
2. Commits count in the order in which they completed: of two writers the one that began first may
   have been the last, and knows of the other.
3. Blocks of a log compaction of Hudi's stand for those of others (`timeline.compacted_instants`).
4. A compaction is at the completion time of the commit that it is part of: above everything before.
   None is made while a commit since the last one is of an instant that is pending in the table.

Source: Hudi's HoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar

from tideline.errors import UnsupportedTableError
from tideline.formats.log_block import BlockFrame, BlockKind, HeaderKey
from tideline.hudi.metadata_table.form import Completions, ReadFrames
from tideline.hudi.table.file_group import FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.compacted_instants import StandsFor, counted_instants, stands_for
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.object_store import ObjectStore


class FormByCommit:
    """The protocol of versions 8 and 9."""

    first: ClassVar[InstantTime] = InstantTime("0" * 17)
    logs_name_slice: ClassVar[bool] = False

    def write_token(self, time: InstantTime) -> str:  # noqa: ARG002 -- names have it elsewhere
        return "0-0-0"

    def in_order(self, logs: Sequence[LogFile], completed: Completions) -> tuple[LogFile, ...]:
        if len(logs) < 2:
            return tuple(logs)

        def place(log: LogFile) -> tuple[InstantTime, InstantTime, int, str]:
            return completed(log.instant), log.instant, log.version, log.write_token

        return tuple(sorted(logs, key=place))

    def counted(
        self,
        logs: Iterable[LogFile],
        read: ReadFrames,
        timeline: ActiveTimeline,  # noqa: ARG002 -- the slice has only logs of completed commits
        without: Collection[InstantTime],
    ) -> Iterator[tuple[LogFile, BlockFrame]]:
        found: dict[InstantTime, list[tuple[LogFile, BlockFrame]]] = {}
        for log in logs:
            if log.instant not in without:
                frames = [frame for frame in read(log) if frame.kind is not BlockKind.COMMAND]
                found.setdefault(log.instant, []).extend((log, frame) for frame in frames)
        seen = {time: _stands_for(blocks) for time, blocks in found.items() if blocks}
        for time, others in seen.items():
            if not set(without).isdisjoint(others or ()):
                raise UnsupportedTableError(
                    "a log compaction has what is not completed in the table",
                    path=found[time][0][0].path,
                )
        for time in counted_instants(seen):
            yield from found[time]

    def written_at(
        self,
        time: InstantTime,
        logs: Iterable[LogFile],
        read: ReadFrames,  # noqa: ARG002 -- names tell
    ) -> tuple[LogFile, ...]:
        return tuple(log for log in logs if log.instant == time)

    def put_log(
        self,
        store: ObjectStore,
        group: FileGroupId,
        time: InstantTime,
        file_slice: FileSlice | None,  # noqa: ARG002 -- the instant decides on the slice
        body: bytes,
    ) -> LogFile:
        token = self.write_token(time)
        log = LogFile(group.partition, group.file_id, time, 1, token, len(body))
        store.put(log.path, body)
        return log

    def may_be_compacted(self, since: Sequence[Instant], data_timeline: ActiveTimeline) -> bool:
        pending = {instant.time for instant in data_timeline.pending()}
        return not any(instant.time in pending for instant in since)

    def compaction_time(
        self,
        since: Sequence[Instant],  # noqa: ARG002 -- above whatever was before
        at: InstantTime | None,
    ) -> InstantTime:
        if at is None:
            raise ValueError("a commit of this layout has a completion time")
        return at


BY_COMMIT = FormByCommit()


def _stands_for(blocks: Sequence[tuple[LogFile, BlockFrame]]) -> StandsFor:
    return stands_for(blocks[0][1].headers.get(HeaderKey.COMPACTED_BLOCK_TIMES))
