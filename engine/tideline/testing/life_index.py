"""The index of a life's table, drawn apart from the rest of the table.

Hudi's writers have it in their settings, in every session. Ours find it out from the table, but
for the number of buckets, which tables as small as these do not show.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from enum import Enum

_TYPE = "hoodie.index.type"
_HASH_FIELD = "hoodie.bucket.index.hash.field"
_BUCKETS = {"hoodie.bucket.index.num.buckets": "3"}
_RECORD_INDEX = {
    _TYPE: "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    # By its default a record index leaves a row where it is, and readers do not agree where.
    "hoodie.record.index.update.partition.path": "true",
}


class LifeIndex(Enum):
    """How writers find the rows of keys. `PART_BUCKET` hashes the first key column alone."""

    DEFAULT = "Hudi's default"
    BLOOM = "BLOOM"
    BUCKET = "BUCKET"
    PART_BUCKET = "BUCKET of the first key column"
    RECORD_INDEX = "RECORD_INDEX"

    @classmethod
    def of(cls, seed: int) -> LifeIndex:
        """What a seed chose: Hudi's default for even ones."""
        if seed % 2 == 0:
            return cls.DEFAULT
        kinds = (cls.BLOOM, cls.BUCKET, cls.BUCKET, cls.PART_BUCKET, cls.RECORD_INDEX)
        return random.Random(f"index of life {seed}").choice((*kinds, cls.RECORD_INDEX))

    @property
    def places_by_hash(self) -> bool:
        return self in (LifeIndex.BUCKET, LifeIndex.PART_BUCKET)

    @property
    def is_global(self) -> bool:
        """Whether a key is one row, regardless of its partition."""
        return self is LifeIndex.RECORD_INDEX

    def hudi_settings(self, key_names: Sequence[str]) -> Mapping[str, str]:
        """What every session of Hudi that works on the table has."""
        if self is LifeIndex.RECORD_INDEX:
            return _RECORD_INDEX
        if self is LifeIndex.BLOOM:
            return {_TYPE: "BLOOM"}
        if self.places_by_hash:
            return {_TYPE: "BUCKET", **_BUCKETS, **self._hash_fields(key_names)}
        return {}

    def our_settings(self, key_names: Sequence[str]) -> Mapping[str, str]:
        """What a few keys do not say to a writer of ours that places rows."""
        return {**_BUCKETS, **self._hash_fields(key_names)} if self.places_by_hash else {}

    def _hash_fields(self, key_names: Sequence[str]) -> Mapping[str, str]:
        """All key columns are the default."""
        return {_HASH_FIELD: key_names[0]} if self is LifeIndex.PART_BUCKET else {}
