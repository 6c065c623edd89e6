"""The texts that stand for columns, partitions and files in keys of the metadata table.

Source: Hudi's HashID, Base64CodecUtil, HoodieTableMetadataUtil (1.2); the xxHash specification.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

_SEED = 0xFFFFFFFFDABADABA
_MASK = 0xFFFFFFFFFFFFFFFF
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE_BYTES = 32
_WITHOUT_PARTITIONS = "."


@lru_cache(maxsize=65_536)
def column_id(name: str) -> str:
    """A column, by its dotted name."""
    return _short(name)


@lru_cache(maxsize=65_536)
def partition_id(partition: str) -> str:
    """A partition, by its path below the table."""
    return _short(partition or _WITHOUT_PARTITIONS)


def file_id_hash(name: str) -> str:
    """A file, by its bare name."""
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def xxh64(text: bytes, seed: int = _SEED) -> int:
    """XXH64 of a text."""
    first, second, third, fourth, fifth = _PRIMES
    at, length = 0, len(text)
    if length >= _STRIPE_BYTES:
        lanes = [seed + first + second, seed + second, seed, seed - first]
        while at + _STRIPE_BYTES <= length:
            for lane in range(4):
                lanes[lane] = _mixed(lanes[lane] & _MASK, _word(text, at + 8 * lane, 8))
            at += _STRIPE_BYTES
        value = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = ((value ^ _mixed(0, lane)) * first + fourth) & _MASK
    else:
        value = seed + fifth
    value = (value + length) & _MASK
    while at + 8 <= length:
        value ^= _mixed(0, _word(text, at, 8))
        value = (_turned(value, 27) * first + fourth) & _MASK
        at += 8
    if at + 4 <= length:
        value ^= _word(text, at, 4) * first & _MASK
        value = (_turned(value, 23) * second + third) & _MASK
        at += 4
    for byte in text[at:]:
        value ^= byte * fifth & _MASK
        value = _turned(value, 11) * first & _MASK
    value = (value ^ value >> 33) * second & _MASK
    value = (value ^ value >> 29) * third & _MASK
    return value ^ value >> 32


def _short(text: str) -> str:
    return base64.b64encode(xxh64(text.encode()).to_bytes(8, "big")).decode()


def _word(text: bytes, at: int, size_bytes: int) -> int:
    return int.from_bytes(text[at : at + size_bytes], "little")


def _mixed(lane: int, word: int) -> int:
    turned = _turned((lane + word * _PRIMES[1]) & _MASK, 31)
    return turned * _PRIMES[0] & _MASK


def _turned(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> (64 - by)) & _MASK
