"""Key ranges of base files, compared as Hudi compares them.

A footer's minimum and maximum record key are ordered as Java strings, by UTF-16 unit. That differs
from the order of UTF-8 bytes (Arrow's) only where characters above U+FFFF meet characters from
U+E000 on; a range computed in the wrong order would hide keys from Hudi's index lookup.
Source: Hudi `BloomIndexFileInfo`, `HoodieKeyLookupHandle`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# First UTF-8 byte of characters from U+E000 on, and of characters above U+FFFF.
_BYTE_OF_LATE_CHARACTERS = 0xEE
_BYTE_OF_SURROGATE_PAIRS = 0xF0


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Smallest and greatest record key of some rows, both inclusive, in Java's string order."""

    min_key: str
    max_key: str

    def union(self, other: KeyRange | None) -> KeyRange:
        """The smallest range that holds both."""
        if other is None:
            return self
        return KeyRange(
            min(self.min_key, other.min_key, key=java_order),
            max(self.max_key, other.max_key, key=java_order),
        )

    def overlaps(self, other: KeyRange) -> bool:
        """Whether a key can lie in both."""
        return java_order(self.min_key) <= java_order(other.max_key) and java_order(
            other.min_key
        ) <= java_order(self.max_key)


def java_order(text: str) -> bytes:
    """Sort key that orders strings as `String.compareTo` does."""
    return text.encode("utf-16-be", "surrogatepass")


def key_range(keys: pa.Array | pa.ChunkedArray) -> KeyRange | None:
    """Range of a string array; None when it has no keys."""
    if len(keys) == keys.null_count:
        return None
    if _orders_differ(keys):
        texts = [key for key in keys.to_pylist() if key is not None]
        return KeyRange(min(texts, key=java_order), max(texts, key=java_order))
    extremes = pc.min_max(keys)
    return KeyRange(extremes["min"].as_py(), extremes["max"].as_py())


def _orders_differ(keys: pa.Array | pa.ChunkedArray) -> bool:
    """Whether the keys hold both kinds of characters whose order depends on the encoding."""
    chunks: Iterable[pa.Array] = keys.chunks if isinstance(keys, pa.ChunkedArray) else (keys,)
    late = pairs = False
    for chunk in chunks:
        text = _bytes_of(chunk)
        high = text[text >= _BYTE_OF_LATE_CHARACTERS]
        pairs = pairs or bool((high >= _BYTE_OF_SURROGATE_PAIRS).any())
        late = late or bool((high < _BYTE_OF_SURROGATE_PAIRS).any())
    return late and pairs


def _bytes_of(chunk: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The text of a string array, as its buffer holds it."""
    strings = chunk if chunk.type == pa.string() else chunk.cast(pa.string())
    _, offsets, data = strings.buffers()
    if data is None or len(strings) == 0:
        return np.empty(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int32, count=strings.offset + len(strings) + 1)
    start, end = int(bounds[strings.offset]), int(bounds[-1])
    return np.frombuffer(data, dtype=np.uint8, count=end)[start:]
