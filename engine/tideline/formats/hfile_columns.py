"""An HFile of many keys that share few values, made of columns.

1. An entry is what comes before its key, the key, and what comes behind it. The first depends on
   lengths alone; the last is one of a few, as values are. Arrow joins the three for many entries.
2. Data blocks are cut out of what was joined, where entries end.

Source: `hfile`, whose files they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.hfile import KEY_TAIL, HFileWriter

_ENTRIES_AT_ONCE = 1 << 16
_HEAD = np.dtype([("field", ">i4"), ("value", ">i4"), ("key", ">i2")])


def encode_hfile_columns(
    keys: pa.Array,
    which: npt.NDArray[np.int32],
    values: Sequence[bytes],
    info: Mapping[str, bytes],
    *,
    block_bytes_max: int,
) -> bytes:
    """A file of binary keys, which ascend, each once; `which` of the values each has. `info` is
    what the owner says of the file."""
    writer = HFileWriter(block_bytes_max=block_bytes_max)
    behind = pa.array([KEY_TAIL + value + b"\0" for value in values], pa.binary())
    value_bytes = np.array([len(value) for value in values], np.int64)
    for start in range(0, len(keys), _ENTRIES_AT_ONCE):
        some = keys.slice(start, _ENTRIES_AT_ONCE).cast(pa.binary())
        its = which[start : start + _ENTRIES_AT_ONCE]
        lengths = pc.binary_length(some).to_numpy(zero_copy_only=False).astype(np.int64)
        heads = _heads(lengths, value_bytes[its])
        joined = pc.binary_join_element_wise(heads, some, behind.take(pa.array(its)), b"")
        ends = np.cumsum(lengths + value_bytes[its] + (_HEAD.itemsize + len(KEY_TAIL) + 1))
        content = memoryview(joined.buffers()[2])
        for first, end in _cut(ends, block_bytes_max):
            before = int(ends[first - 1]) if first else 0
            writer.add_block(
                content[before : int(ends[end - 1])],
                first_key=some[first].as_py(),
                last_key=some[end - 1].as_py(),
                entries=end - first,
                key_bytes=int(lengths[first:end].sum()),
                value_bytes=int(value_bytes[its[first:end]].sum()),
            )
    return writer.finish(info)


def _heads(lengths: npt.NDArray[np.int64], value_bytes: npt.NDArray[np.int64]) -> pa.Array:
    heads = np.empty(len(lengths), _HEAD)
    heads["field"] = lengths + 2 + len(KEY_TAIL)
    heads["value"] = value_bytes
    heads["key"] = lengths
    buffers = [None, pa.py_buffer(heads.tobytes())]
    fixed = pa.Array.from_buffers(pa.binary(_HEAD.itemsize), len(lengths), buffers)
    return fixed.cast(pa.binary())


def _cut(ends: npt.NDArray[np.int64], size_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The first entry of each block and the one behind its last, by where entries end."""
    first, before = 0, 0
    while first < len(ends):
        end = max(first + 1, int(np.searchsorted(ends, before + size_bytes_max, "right")))
        yield first, end
        first, before = end, int(ends[end - 1])
