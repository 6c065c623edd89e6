"""Metadata tables of version 6: a log is named after its slice, and its blocks say who wrote them.

1. A block counts when its instant is completed, or archived. A command takes back what its target
   has written before it. Hudi's older readers want the instant in the table's timeline as well,
   which is why nothing is archived there that is not compacted here.
2. Each commit of ours writes a log of its own, with the next version, and its instant where names
   have the numbers of a task; so have base files. A writer that slept while its instant was undone
   cannot replace or delete what others wrote since under that version, and its own block counts for
   nobody. So undoing a commit deletes its logs; where Hudi has appended to one that others wrote as
   well, that cannot be done.
3. Blocks count in the order of versions: writers take turns, by the lock of the table.
4. A compaction is at the newest commit's instant with `001` behind it, so that it sorts between
   that and the next. None is made while an instant is pending in the table that is not later: its
   commit would sort before the compaction, which has not read it.

Source: Hudi's HoodieBackedTableMetadataWriterTableVersionSix, BaseHoodieLogRecordReader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar
from uuid import uuid4

from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.formats.log_block import BlockFrame, BlockKind, HeaderKey
from tideline.hudi.metadata_table.form import Completions, ReadFrames
from tideline.hudi.table.file_group import FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import MILLIS_DIGITS, InstantTime
from tideline.storage.object_store import AlreadyExists, ObjectStore

_COMPACTION = "001"
_NAMES_TRIED_MAX = 100
_DAY_DIGITS = 8


class FormBySlice:
    """The protocol of version 6."""

    first: ClassVar[InstantTime] = InstantTime("0" * 14 + "010")
    logs_name_slice: ClassVar[bool] = True

    def write_token(self, time: InstantTime) -> str:
        """The instant, as numbers that Java's integers hold."""
        day, clock = time.value[:_DAY_DIGITS], time.value[_DAY_DIGITS:MILLIS_DIGITS]
        return f"0-{int(day)}-{int(clock)}"

    def in_order(
        self,
        logs: Sequence[LogFile],
        completed: Completions,  # noqa: ARG002 -- they are in the order of versions
    ) -> tuple[LogFile, ...]:
        return tuple(logs)

    def counted(
        self,
        logs: Iterable[LogFile],
        read: ReadFrames,
        timeline: ActiveTimeline,
        without: Collection[InstantTime],
    ) -> Iterator[tuple[LogFile, BlockFrame]]:
        found: list[tuple[InstantTime, LogFile, BlockFrame]] = []
        for log in logs:
            for frame in read(log):
                if frame.is_rollback:
                    target = _instant(log, frame, HeaderKey.TARGET_INSTANT_TIME)
                    found = [item for item in found if item[0] != target]
                elif frame.kind is BlockKind.COMMAND:
                    raise UnsupportedTableError("a log block with another command", path=log.path)
                elif HeaderKey.COMPACTED_BLOCK_TIMES in frame.headers:
                    raise UnsupportedTableError(
                        "a log compaction of a metadata table of version 6 is not read",
                        path=log.path,
                    )
                else:
                    found.append((_instant(log, frame), log, frame))
        for time, log, frame in found:
            if time not in without and timeline.is_committed(time):
                yield log, frame

    def written_at(
        self, time: InstantTime, logs: Iterable[LogFile], read: ReadFrames
    ) -> tuple[LogFile, ...]:
        found = []
        for log in logs:
            try:
                writers = {_instant(log, frame) for frame in read(log)}
            except ObjectNotFoundError:
                continue  # a process that slept past its lock may be deleting it
            if time not in writers:
                continue
            if len(writers) > 1:
                raise CorruptTableError(
                    "a log of the metadata table has blocks of others next to those to take back",
                    path=log.path,
                    instant=time,
                )
            found.append(log)
        return tuple(found)

    def put_log(
        self,
        store: ObjectStore,
        group: FileGroupId,
        time: InstantTime,
        file_slice: FileSlice | None,
        body: bytes,
    ) -> LogFile:
        base_instant = time if file_slice is None else file_slice.base_instant
        there = () if file_slice is None else file_slice.log_files
        version = max((log.version for log in there), default=0)
        token = self.write_token(time)
        for _ in range(_NAMES_TRIED_MAX):
            version += 1
            log = LogFile(group.partition, group.file_id, base_instant, version, token, len(body))
            # A log of this name is of an attempt before, and is deleted by its `undo`.
            if not isinstance(
                store.put_if_absent(log.path, body, token=uuid4().hex), AlreadyExists
            ):
                return log
        raise ConflictError(
            "other writers keep taking the names of the metadata table's next log",
            instant=time,
            path=log.path,
        )

    def may_be_compacted(self, since: Sequence[Instant], data_timeline: ActiveTimeline) -> bool:
        newest = max(instant.time for instant in since)
        return len(data_timeline.pending().up_to(newest)) == 0

    def compaction_time(
        self,
        since: Sequence[Instant],
        at: InstantTime | None,  # noqa: ARG002 -- there are no completion times
    ) -> InstantTime:
        newest = max(instant.time for instant in since)
        return InstantTime(f"{newest}{_COMPACTION}")


BY_SLICE = FormBySlice()


def _instant(
    log: LogFile, frame: BlockFrame, key: HeaderKey = HeaderKey.INSTANT_TIME
) -> InstantTime:
    text = frame.headers.get(key)
    if not text:
        raise CorruptTableError(f"a log block does not say its {key.name}", path=log.path)
    return InstantTime(text)
