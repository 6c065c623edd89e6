"""MurmurHash3 (x86, 32 bit, seed 0) of one value, as Iceberg's bucket transform takes it.

Of whole columns: tideline.formats.murmur3_columns.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def murmur3(body: bytes) -> int:
    """MurmurHash3 for x86, 32 bits, seed 0, as an unsigned number."""
    state = 0
    whole = len(body) & ~3
    for start in range(0, whole, 4):
        state ^= _scrambled(int.from_bytes(body[start : start + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _MASK
    if len(body) > whole:
        state ^= _scrambled(int.from_bytes(body[whole:], "little"))
    state ^= len(body)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


def _scrambled(word: int) -> int:
    return (_rotated((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK
