"""Snappy blocks, decompressed in plain Python: manifests of some writers are compressed so.

A block is its decompressed length (a variable length number), then elements, each with a tag whose
two low bits say what it is: 0 a literal, 1 to 3 a copy of earlier output with an offset of 11 bits,
2 bytes or 4 bytes. Nothing is produced beyond the length that the block announces.
Source: Snappy's format description.
"""

from __future__ import annotations

_LITERAL_IN_TAG = 60
_LENGTH_BYTES_MAX = 5


def decompressed_bytes(block: bytes) -> tuple[int, int]:
    """The announced length, and where the elements begin. Raises ValueError when cut short."""
    length = 0
    for position, byte in enumerate(block[:_LENGTH_BYTES_MAX]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return length, position + 1
    raise ValueError("a Snappy block without its length")


def decompress(block: bytes) -> bytes:
    """The content of a block. Raises ValueError for one that is cut short or contradicts itself."""
    length, position = decompressed_bytes(block)
    out = bytearray()
    while position < len(block):
        tag = block[position]
        position += 1
        if tag & 3 == 0:
            count, position = _literal_length(block, position, tag >> 2)
            out += block[position : position + count]
            position += count
        else:
            count, offset, position = _copy(block, position, tag)
            if not 0 < offset <= len(out):
                raise ValueError("a Snappy copy reaches before the beginning")
            _repeat(out, offset, count)
        if len(out) > length or position > len(block):
            raise ValueError("a Snappy block is longer than it says, or cut short")
    if len(out) != length:
        raise ValueError("a Snappy block is shorter than it says")
    return bytes(out)


def _literal_length(block: bytes, position: int, low: int) -> tuple[int, int]:
    if low < _LITERAL_IN_TAG:
        return low + 1, position
    size = low - _LITERAL_IN_TAG + 1
    return int.from_bytes(block[position : position + size], "little") + 1, position + size


def _copy(block: bytes, position: int, tag: int) -> tuple[int, int, int]:
    """How many bytes, from how far back, and where the next element is."""
    kind = tag & 3
    if kind == 1:
        if position >= len(block):
            raise ValueError("a Snappy block is cut short")
        return ((tag >> 2) & 7) + 4, (tag >> 5) << 8 | block[position], position + 1
    size = 2 if kind == 2 else 4
    offset = int.from_bytes(block[position : position + size], "little")
    return (tag >> 2) + 1, offset, position + size


def _repeat(out: bytearray, offset: int, count: int) -> None:
    """Append `count` bytes from `offset` back; they may overlap with what is appended."""
    start = len(out) - offset
    if offset >= count:
        out += out[start : start + count]
        return
    copied = bytes(out[start:])
    out += (copied * (count // offset + 1))[:count]
