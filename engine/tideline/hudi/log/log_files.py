"""Log files in a store: their blocks are found first, contents read only of those that count."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.log_block import BlockFrame, BlockKind, read_frames
from tideline.hudi.log.block_scan import LogBlock, SelectedBlocks, select_blocks
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)

# Up to here one request for the whole file is cheaper than several for its parts.
_WHOLE_FILE_BYTES_MAX = 1024 * 1024
_BLOCK_BYTES_MAX = 2**31 - 1
"""Hudi has the content of a block in one array of Java's."""


class LogFiles:
    """The log files of one slice, read once."""

    def __init__(self, store: ObjectStore, logs: Sequence[LogFile]) -> None:
        self._store = store
        # Changes kept for change data capture are no part of the rows.
        self._logs = tuple(log for log in logs if not log.is_cdc)
        self._bodies: dict[LogFile, bytes] = {}

    def select(self, committed: CommittedInstants) -> SelectedBlocks:
        """The blocks that count; damaged ones are left out with a warning.

        Raises CorruptTableError or UnsupportedTableError naming the file.
        """
        frames = [(log, self.frames(log)) for log in self._logs]
        for log, found in frames:
            damaged = sum(frame.kind is BlockKind.CORRUPT for frame in found)
            if damaged:
                _log.warning(
                    "damaged blocks are left out: %d in %s/%s", damaged, self._store.uri, log.path
                )
        try:
            return select_blocks(frames, committed)
        except (CorruptTableError, UnsupportedTableError) as error:
            raise type(error)(
                error.message, table=self._store.uri, path=error.path, value=error.value
            ) from error

    def frames(self, log: LogFile) -> tuple[BlockFrame, ...]:
        """Every block of one file, damaged ones as corrupt. Raises as `select`."""
        with self.named(log):
            size_bytes = log.size_bytes
            if not size_bytes:
                info = self._store.head(log.path)
                size_bytes = info.size_bytes if info else 0
            if size_bytes <= _WHOLE_FILE_BYTES_MAX:
                self._bodies[log] = self._store.get(log.path)
                size_bytes = len(self._bodies[log])
            return read_frames(
                lambda offset, length: self._read(log, offset, length), size_bytes, path=log.path
            )

    def content(self, block: LogBlock) -> bytes:
        """The content of a block. Raises CorruptTableError when the file is gone or shorter now."""
        frame = block.frame
        with self.named(block.log):
            if frame.content_size_bytes > _BLOCK_BYTES_MAX:
                message = "a log block is larger than any that Hudi can write or read"
                raise CorruptTableError(message, value=frame.content_size_bytes)
            content = self._read(block.log, frame.content_offset, frame.content_size_bytes)
            if len(content) != frame.content_size_bytes:
                raise CorruptTableError("log file became shorter while it was read")
            return content

    @contextmanager
    def named(self, log: LogFile) -> Iterator[None]:
        """Errors about the file name the table, the instant and the path."""
        try:
            yield
        except ObjectNotFoundError as error:
            raise CorruptTableError(
                "log file is missing: put it back from a copy, or restore to a savepoint",
                table=self._store.uri,
                instant=log.instant,
                path=log.path,
            ) from error
        except (CorruptTableError, UnsupportedTableError) as error:
            raise type(error)(
                error.message,
                table=self._store.uri,
                instant=log.instant,
                path=log.path,
                value=error.value,
            ) from error

    def _read(self, log: LogFile, offset: int, length: int) -> bytes:
        body = self._bodies.get(log)
        if body is not None:
            return body[offset : offset + length]
        return self._store.get_range(log.path, offset=offset, length=length)
