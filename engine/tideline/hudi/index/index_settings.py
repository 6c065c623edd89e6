"""Which index finds the rows of a write, and its options."""

from __future__ import annotations

from dataclasses import dataclass, field

from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.index.bucket_layout import BucketEngine
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.partition_rules import PartitionRules
from tideline.hudi.table.settings import declared


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Which index tags rows, and its options.

    `updates_partition_path` is whether a global index moves a row whose partition changed. An
    empty `bucket_hash_fields` hashes all record key fields. `partition_rules` give some partitions
    another number of buckets than `num_buckets`. With `engine` CONSISTENT_HASHING that number is
    for new partitions, 0 for what others began with.
    """

    type: IndexType = IndexType.SIMPLE
    prunes_by_ranges: bool = declared("hoodie.bloom.index.prune.by.ranges")
    updates_partition_path: bool = False
    num_buckets: int = declared("hoodie.bucket.index.num.buckets")
    bucket_hash_fields: tuple[str, ...] = declared("hoodie.bucket.index.hash.field")
    partition_rules: PartitionRules = field(default_factory=PartitionRules)
    engine: BucketEngine = BucketEngine.SIMPLE

    @property
    def numbers_file_ids(self) -> bool:
        """Whether every file id begins with the number of a bucket."""
        return self.type.places_by_hash and self.engine is BucketEngine.SIMPLE

    @classmethod
    def of_buckets(cls, buckets: BucketHash) -> IndexSettings:
        """A bucket index that places rows in this way."""
        return cls(
            IndexType.BUCKET,
            num_buckets=buckets.num_buckets,
            bucket_hash_fields=buckets.fields,
            partition_rules=buckets.rules,
        )

    @property
    def buckets(self) -> BucketHash:
        """How a bucket index places rows."""
        return BucketHash(self.num_buckets, self.bucket_hash_fields, self.partition_rules)
