"""Which rows may have one of some keys: a Bloom filter of the hashes of these keys.

It goes to the tasks that read keys of a table, so that only rows that may match are shuffled. Its
size follows the number of keys, not that of their bytes. What passes it is compared again, value by
value: an exact set would keep out one row in a hundred more, and be larger than the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.iceberg.write.key_codes import Codes, key_codes
from tideline.iceberg.write.keyed_rows import Flags
from tideline.iceberg.write.row_selection import RowNumbers

FILTERED_KEYS_MAX = 4_194_304
"""So many hashes take 32 MiB where they come together, and their filter 8 MiB."""
_BITS_PER_KEY = 16
_BITS_MIN, _BITS_MAX = 1 << 19, 1 << 26
_BYTE, _IN_BYTE, _SECOND = np.uint64(3), np.uint64(7), np.uint64(32)


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Two bits for each key, of so many that of other keys one in 70 passes, or fewer."""

    bits: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, codes: Iterable[Codes]) -> KeyFilter:
        """Of `FILTERED_KEYS_MAX` keys at most, by their codes."""
        parts = list(codes)
        wanted = max(1, sum(map(len, parts))) * _BITS_PER_KEY
        count = min(_BITS_MAX, max(_BITS_MIN, 1 << (wanted - 1).bit_length()))
        bits = np.zeros(count >> 3, np.uint8)
        for part in parts:
            for places in (part, part >> _SECOND):
                at, bit = _places(places, count)
                np.bitwise_or.at(bits, at, bit)
        return cls(bits)

    def numbers(self, columns: Sequence[pa.Array]) -> RowNumbers:
        """Which rows may have one of the keys, counted from 0, by their values in each field: none
        that has a null there."""
        known = np.flatnonzero(without_null(columns))
        if len(known) < len(columns[0]):
            columns = [column.take(pa.array(known)) for column in columns]
        return known[np.flatnonzero(self._may_have(key_codes(columns)))]

    def _may_have(self, codes: Codes) -> Flags:
        found = self._are_set(codes)
        passed = np.flatnonzero(found)
        found[passed] = self._are_set(codes[passed] >> _SECOND)
        return found

    def _are_set(self, places: Codes) -> Flags:
        at, bit = _places(places, len(self.bits) << 3)
        found: Flags = (self.bits[at] & bit) != 0
        return found


def without_null(columns: Sequence[pa.Array]) -> Flags:
    """Which rows have a value in each of the columns."""
    known = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    return known


def _places(codes: Codes, count: int) -> tuple[RowNumbers, npt.NDArray[np.uint8]]:
    """The byte and the bit in it of each code; `count` is a power of two."""
    places = codes & np.uint64(count - 1)
    bits = np.left_shift(np.uint8(1), (places & _IN_BYTE).astype(np.uint8))
    return (places >> _BYTE).astype(np.int64), bits
