"""CONSISTENT_HASHING buckets: the ring of a partition, as its hashing metadata says it.

A ring is a row of hash values, each with the prefix of a file id: a key belongs to the first value
not below its hash, past the last one to the first. Clustering splits and merges buckets, which
makes a new ring; nothing else changes one.
Source: Hudi `ConsistentBucketIdentifier`, `HoodieConsistentHashingMetadata`.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any
from uuid import UUID

from tideline.bounded.parsing import faults_named, parse_json
from tideline.errors import CorruptTableError
from tideline.hudi.index.bucket import record_key_values

FIRST_INSTANT = "00000000000000"
"""Of the ring a partition begins with."""
_HASH_MASK = 0x7FFFFFFF
_NULL = "null"


@dataclass(frozen=True, slots=True)
class HashRing:
    """The buckets of one partition: ascending `values`, and the file id prefix of each."""

    partition: str
    num_buckets: int
    values: tuple[int, ...]
    prefixes: tuple[str, ...]

    @classmethod
    def first(cls, partition: str, num_buckets: int) -> HashRing:
        """The ring that any writer gives a new partition: the same, file ids included."""
        step = (_HASH_MASK + num_buckets - 1) // num_buckets
        ends = [min(step * number, _HASH_MASK) for number in range(1, num_buckets + 1)]
        prefixes = tuple(
            _named_uuid(start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode())
            for start, end in zip([0, *ends], ends, strict=False)
        )
        return cls(partition, num_buckets, tuple(ends), prefixes)

    @classmethod
    def parse(cls, body: bytes, *, path: str) -> HashRing:
        """Read hashing metadata. Raises CorruptTableError naming `path`."""
        content = parse_json(body, path=path, what="hashing metadata")
        with faults_named("hashing metadata is not understood", path=path):
            nodes = sorted(
                (int(node["value"]), str(node["fileIdPrefix"])) for node in content["nodes"]
            )
            ring = cls(
                str(content["partitionPath"]),
                int(content["numBuckets"]),
                tuple(value for value, _ in nodes),
                tuple(prefix for _, prefix in nodes),
            )
        if not nodes or len(set(ring.values)) < len(nodes):
            raise CorruptTableError("hashing metadata has no buckets, or one twice", path=path)
        return ring

    def encode(self, instant: str = FIRST_INSTANT) -> bytes:
        """The metadata as Hudi's JSON."""
        nodes = [
            {"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"}
            for value, prefix in zip(self.values, self.prefixes, strict=True)
        ]
        content: dict[str, Any] = {
            "version": 0,
            "partitionPath": self.partition,
            "instant": instant,
            "numBuckets": self.num_buckets,
            "seqNo": 0,
            "nodes": nodes,
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode()

    def bucket(self, hash_value: int) -> int:
        """The value of the bucket that a hash belongs to."""
        position = bisect_left(self.values, hash_value)
        return self.values[position % len(self.values)]

    def prefix(self, bucket: int) -> str:
        """The file id prefix of a bucket."""
        return self.prefixes[self.values.index(bucket)]

    def file_id(self, bucket: int) -> str:
        """The file group of a bucket."""
        return f"{self.prefix(bucket)}-0"


@dataclass(frozen=True, slots=True)
class RingHash:
    """Which bucket of its partition a record key belongs to, by the rings of some partitions."""

    rings: Mapping[str, HashRing]
    fields: tuple[str, ...] = ()

    def buckets(self, partitions: Sequence[str], record_keys: Sequence[str]) -> list[int]:
        """The bucket of every key in its partition."""
        # Plans that move no rows know rings, and need no numpy.
        from tideline.hudi.index.xx_hash import xxh32

        hashes = xxh32([_hashed_text(key, self.fields) for key in record_keys]) & _HASH_MASK
        return [
            self.rings[partition].bucket(value)
            for partition, value in zip(partitions, hashes.tolist(), strict=True)
        ]

    def bucket(self, partition: str, record_key: str) -> int:
        """Bucket of one stored record key."""
        return self.buckets([partition], [record_key])[0]


def _hashed_text(record_key: str, fields: Sequence[str]) -> bytes:
    # Java joins null as this word.
    values = record_key_values(record_key, fields)
    return "".join(_NULL if value is None else value for value in values).encode()


def _named_uuid(name: bytes) -> str:
    """Java's UUID.nameUUIDFromBytes."""
    return str(UUID(bytes=md5(name, usedforsecurity=False).digest(), version=3))
