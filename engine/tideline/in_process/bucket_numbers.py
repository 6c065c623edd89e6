"""The buckets of a batch's keys, with a bucket index.

Java's hash of a text is a sum over its UTF-16 units, which numpy makes for all keys at once. Keys
of several fields and CONSISTENT_HASHING rings are hashed one by one, each distinct key once.
`tideline.hudi.index.bucket` is the reference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.placement.targets import KeyHash
from tideline.in_process.prepared_rows import Positions

_POSITIVE = 0x7FFFFFFF
_BEYOND = r"[\x{10000}-\x{10FFFF}]"


def bucket_numbers(
    keys: pa.Array,
    partitions: pa.DictionaryArray,
    hashed: KeyHash,
    record_fields: tuple[str, ...],
) -> Positions:
    """The bucket of every key in its partition.

    The values of `record_fields` are hashed where the index names no fields: what only looks like a
    pair, in a value, is none.
    """
    if isinstance(hashed, BucketHash):
        hashed = replace(hashed, fields=hashed.fields or record_fields)
    paths = partitions.dictionary.to_pylist()
    codes = partitions.indices.to_numpy()
    if isinstance(hashed, BucketHash) and not _has_pairs(keys):
        counts = np.array([hashed.count_in(path) for path in paths], np.int64)
        # The hash of a list of one: 31 and the item's.
        code = (java_hashes(keys).astype(np.int64) + 31) & _POSITIVE
        found: Positions = code % counts[codes]
        return found
    if isinstance(hashed, BucketHash):
        numbers = [
            hashed.bucket(paths[code], key)
            for code, key in zip(codes.tolist(), keys.to_pylist(), strict=True)
        ]
    else:
        numbers = hashed.buckets([paths[code] for code in codes.tolist()], keys.to_pylist())
    return np.array(numbers, np.int64)


def java_hashes(texts: pa.Array) -> npt.NDArray[np.uint32]:
    """`String.hashCode` of every text, without its sign."""
    units = "".join(texts.to_pylist()).encode("utf-16-le", "surrogatepass")
    stream = np.frombuffer(units, "<u2").astype(np.uint32)
    counts = _unit_counts(texts)
    ends = np.cumsum(counts)
    starts = ends - counts
    powers = _powers(int(counts.max(initial=0)))
    owner = np.repeat(np.arange(len(ends)), counts)
    weighted = stream * powers[ends[owner] - 1 - np.arange(len(stream))]
    sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(weighted, dtype=np.uint32)])
    hashes: npt.NDArray[np.uint32] = sums[ends] - sums[starts]
    return hashes


def _unit_counts(texts: pa.Array) -> Positions:
    """UTF-16 units of every text: two for a character beyond the first plane."""
    characters = pc.utf8_length(texts).to_numpy().astype(np.int64)
    units: Positions = characters + pc.count_substring_regex(texts, _BEYOND).to_numpy()
    return units


def _powers(length: int) -> npt.NDArray[np.uint32]:
    powers = np.ones(max(length, 1), np.uint32)
    powers[1:] = 31
    return np.cumprod(powers, dtype=np.uint32)


def _has_pairs(keys: pa.Array) -> bool:
    """Whether any key may read `field:value,field:value`."""
    is_pair = pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))
    return bool(pc.any(is_pair).as_py())
