"""A changed copy of an HFile: blocks that no change falls into are copied as they are stored.

1. The index says which keys lie in which block. Changes are dealt out to the blocks in order.
2. A block without changes is copied, compressed as it is; its header says where the block
   before it lies now. The others are decoded, changed and written again.
3. The last block is always decoded, for the file says its last key.

So the work is that of the changes, and of copying bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.formats.hfile import (
    Block,
    HFileWriter,
    block_at,
    blocks_of,
    entry_count,
    info_at,
    read_entries,
    read_trailer,
)
from tideline.formats.text_order import has_own_order_in_java

Change = tuple[bytes, bytes | None]
"""A key with its value now, or without one where it is gone."""


def splice_hfile(
    body: bytes, changes: Sequence[Change], *, block_bytes_max: int, path: object = None
) -> bytes | None:
    """The file with changes, which ascend by their keys; None for one whose blocks are not copied:
    of another codec, with checksums, or where the place of a change depends on the order of keys,
    which may be Java's.

    Raises CorruptTableError naming `path` for what is no HFile, UnsupportedTableError for one with
    an index of several levels, or beyond the limits.
    """
    with faults_named("HFile is truncated or broken", path=path):
        trailer = read_trailer(body)
        blocks = blocks_of(body, trailer, path)
        if not trailer.is_compressed or not all(block.is_copyable(body) for block in blocks):
            return None
        placed = (*(key for key, _ in changes), *(block.first_key for block in blocks))
        if any(map(has_own_order_in_java, placed)):
            return None
        writer = HFileWriter(block_bytes_max=block_bytes_max)
        left = entry_count(trailer)
        dealt = _dealt(changes, blocks)
        for number, block in enumerate(blocks):
            its = dealt[number]
            if not its and number < len(blocks) - 1:
                writer.copy(body, block)
                continue
            entries = list(read_entries(block_at(body, block.offset, trailer.codec, path)))
            left -= len(entries)
            for key, value in _merged(entries, its):
                writer.add(key, value)
        if not blocks:
            for key, value in _merged([], changes):
                writer.add(key, value)
        if left < 0:
            raise CorruptTableError("an HFile says fewer entries than it has")
        writer.count_copied(left)
        info = info_at(body, trailer, 0, path)
    return writer.finish(info)


def _dealt(changes: Sequence[Change], blocks: Sequence[Block]) -> list[Sequence[Change]]:
    """The changes of each block: what is smaller than all keys goes to the first one."""
    found: list[Sequence[Change]] = []
    start = 0
    for following in (*blocks[1:], None):
        end = start
        while end < len(changes) and (following is None or changes[end][0] < following.first_key):
            end += 1
        found.append(changes[start:end])
        start = end
    return found


def _merged(
    entries: Sequence[tuple[bytes, bytes]], changes: Sequence[Change]
) -> Iterator[tuple[bytes, bytes]]:
    if not changes:
        yield from sorted(entries)
        return
    now: dict[bytes, bytes | None] = {**dict(entries), **dict(changes)}
    if len(dict(entries)) < len(entries):
        raise CorruptTableError("a key is in an HFile twice")
    for key in sorted(now):
        value = now[key]
        if value is not None:
            yield key, value
