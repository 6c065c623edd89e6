"""Which files the next commit takes in: values in, values out.

Files go in by (time, path), at most `files_max` of them. On a local folder a file changed within
the last moments may still be being written, so it waits; a store that shows only whole objects
needs none of that (`settle_ms` 0).
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.listing import ArrivedFile, FileListing

LOCAL_SETTLE_MS = 1_000


@dataclass(frozen=True, slots=True)
class Batch:
    """The next files, and what waits behind them.

    `unsettled_files` are too young to be read; the youngest is old enough at `settled_at_ms`.
    `late_files` cannot be distinguished from files taken in: see `Checkpoint.late_files`.
    `remembered_files` are certainly taken in and still there; the oldest of those that wait landed
    at `oldest_ms`.
    """

    files: tuple[ArrivedFile, ...] = ()
    backlog_files: int = 0
    backlog_bytes: int = 0
    unsettled_files: int = 0
    settled_at_ms: int | None = None
    late_files: int = 0
    remembered_files: int = 0
    oldest_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def plan_batch(
    landing: FileListing,
    checkpoint: Checkpoint | None,
    *,
    files_max: int,
    now_ms: int,
    settle_ms: int,
) -> Batch:
    """The next batch; its `files` are empty when there is nothing to do."""
    pending = [
        file for file in landing.files if checkpoint is None or not checkpoint.has_taken(file)
    ]
    settled = [file for file in pending if not _is_unsettled(file, now_ms, settle_ms)]
    unsettled = [file for file in pending if _is_unsettled(file, now_ms, settle_ms)]
    rest = settled[files_max:]
    return Batch(
        files=tuple(settled[:files_max]),
        backlog_files=len(rest),
        backlog_bytes=sum(file.size_bytes for file in rest),
        unsettled_files=len(unsettled),
        settled_at_ms=max((file.modified_ms + settle_ms for file in unsettled), default=None),
        late_files=0 if checkpoint is None else checkpoint.late_files(landing),
        remembered_files=(
            0 if checkpoint is None else sum(map(checkpoint.remembers, landing.files))
        ),
        oldest_ms=min((file.modified_ms for file in pending), default=None),
    )


def _is_unsettled(file: ArrivedFile, now_ms: int, settle_ms: int) -> bool:
    # A time in the future comes from another clock and says nothing about writing.
    return now_ms - settle_ms < file.modified_ms <= now_ms
