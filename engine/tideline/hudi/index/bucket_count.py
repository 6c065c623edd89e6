"""How many buckets a table has, from the keys that lie in them. Pure.

A key of hash h lies in bucket b of N only where N divides h - b and is greater than b. Of enough
keys the number of buckets is all that the differences have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, isqrt

from tideline.hudi.index.bucket import BUCKETS_MAX, BucketHash, key_hash, record_key_values


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A record key and the bucket whose file, at `path`, it was found in."""

    partition: str
    bucket: int
    record_key: str
    path: str


def fitting_counts(
    keys: Iterable[StoredKey], fields: Sequence[str], *, at_least: int
) -> tuple[int, ...] | None:
    """Every number of buckets from `at_least` on that puts all keys where they are, ascending.

    None when the keys say nothing, so that any number fits.
    """
    common = 0
    for key in keys:
        distance = key_hash(record_key_values(key.record_key, fields)) - key.bucket
        if distance < 0:
            return ()
        common = gcd(common, distance)
    if common == 0:
        return None
    return tuple(count for count in _divisors(common) if at_least <= count <= BUCKETS_MAX)


def misplaced_key(keys: Iterable[StoredKey], buckets: BucketHash) -> StoredKey | None:
    """The first key that `buckets` would put elsewhere."""
    for key in keys:
        if buckets.bucket(key.partition, key.record_key) != key.bucket:
            return key
    return None


def _divisors(number: int) -> list[int]:
    small = [entry for entry in range(1, isqrt(number) + 1) if number % entry == 0]
    return sorted({*small, *(number // entry for entry in small)})
