"""Which blocks of a file slice's log files count, oldest to newest.

Blocks are collected by instant, then put in order:

1. Corrupt blocks are counted and skipped. A data or delete block is skipped when its instant is
   later than the newest one read, pending, or neither completed nor archived.
2. A rollback command removes what its target has written before it in the files; blocks of that
   instant that come after it count again. Whether the rollback itself completed does not matter.
3. Blocks of a log compaction stand for those of others (`timeline.compacted_instants`).

Source: Hudi's BaseHoodieLogRecordReader (1.2, tables before version 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.log_block import BlockFrame, BlockKind, HeaderKey
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.timeline.compacted_instants import counted_instants, stands_for
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block and the file it is in."""

    log: LogFile
    frame: BlockFrame

    @property
    def is_delete(self) -> bool:
        return self.frame.kind is BlockKind.DELETE

    @property
    def instant(self) -> InstantTime:
        """When it was written. Raises CorruptTableError for a block that does not say."""
        return _instant(self, HeaderKey.INSTANT_TIME)

    @property
    def schema_json(self) -> str:
        return self.frame.headers.get(HeaderKey.SCHEMA, "")

    @property
    def is_partial(self) -> bool:
        """Whether its rows have only the columns that changed."""
        return self.frame.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true"


@dataclass(frozen=True, slots=True)
class SelectedBlocks:
    """The blocks to merge and their instants, both oldest first, and what was seen on the way."""

    blocks: tuple[LogBlock, ...] = ()
    instants: tuple[InstantTime, ...] = ()
    total_blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0


def select_blocks(
    files: Iterable[tuple[LogFile, Sequence[BlockFrame]]], committed: CommittedInstants
) -> SelectedBlocks:
    """Select among the blocks of a slice's log files, which come in their order.

    Raises CorruptTableError for a block without an instant and UnsupportedTableError for an unknown
    command, both naming the file.
    """
    scan = _Scan(committed)
    for log, frames in files:
        for frame in frames:
            scan.see(LogBlock(log, frame))
    return scan.result()


class _Scan:
    """One scan under way."""

    def __init__(self, committed: CommittedInstants) -> None:
        self._committed = committed
        # In the order the instants were first seen.
        self._by_instant: dict[InstantTime, list[LogBlock]] = {}
        self._total = 0
        self._corrupt = 0
        self._rollbacks = 0

    def see(self, block: LogBlock) -> None:
        """The next block of the files."""
        self._total += 1
        kind = block.frame.kind
        if kind is BlockKind.CORRUPT:
            self._corrupt += 1
        elif kind is BlockKind.COMMAND:
            self._obey(block)
        elif kind.is_data or kind is BlockKind.DELETE:
            instant = _instant(block, HeaderKey.INSTANT_TIME)
            if self._committed.contains(instant):
                self._by_instant.setdefault(instant, []).append(block)
        else:
            raise UnsupportedTableError(
                f"log blocks of kind {kind.name} are not read: compact the table with the engine "
                "that wrote them",
                path=block.log.path,
            )

    def _obey(self, block: LogBlock) -> None:
        if not block.frame.is_rollback:
            raise UnsupportedTableError("log block with an unknown command", path=block.log.path)
        self._rollbacks += 1
        self._by_instant.pop(_instant(block, HeaderKey.TARGET_INSTANT_TIME), None)

    def result(self) -> SelectedBlocks:
        taken = counted_instants(
            {
                instant: stands_for(blocks[0].frame.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES))
                for instant, blocks in self._by_instant.items()
            }
        )
        return SelectedBlocks(
            tuple(block for instant in taken for block in self._by_instant[instant]),
            tuple(taken),
            self._total,
            self._corrupt,
            self._rollbacks,
        )


def _instant(block: LogBlock, key: HeaderKey) -> InstantTime:
    text = block.frame.headers.get(key)
    if not text:
        raise CorruptTableError(f"log block without header {key.name}", path=block.log.path)
    return InstantTime(text)
