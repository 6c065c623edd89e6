"""How a table's rows lie in buckets, and how that is known.

Hudi writes nothing of a bucket index into a table's properties. What is on disk are file ids that
begin with the bucket's number (SIMPLE), and files below `.hoodie/.bucket_index/`: the hashing
config of partition-level rules, the hashing metadata of CONSISTENT_HASHING.
Source: Hudi `HoodieIndex.BucketIndexEngineType`, `HoodieTableMetaClient`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tideline.hudi.index.bucket import small_bucket_number
from tideline.hudi.index.partition_rules import PartitionRules
from tideline.hudi.table.file_group import FileGroupId
from tideline.wording import counted

BUCKET_INDEX_FOLDER = ".hoodie/.bucket_index"
HASHING_METADATA_FOLDER = f"{BUCKET_INDEX_FOLDER}/consistent_hashing_metadata"
HASHING_CONFIG_FOLDER = f"{BUCKET_INDEX_FOLDER}/partition_bucket_index_meta/configs"

HAS_BUCKETS = (
    "a bucket index finds rows by the names of file groups, which clustering changes; resizing "
    "CONSISTENT_HASHING buckets is left to Hudi"
)
"""Why nothing is clustered."""


class BucketEngine(Enum):
    """What a bucket is; the value is the word of `hoodie.index.bucket.engine`.

    SIMPLE: a fixed number of buckets per partition. CONSISTENT_HASHING: ranges of hash values,
    split and merged by clustering.
    """

    SIMPLE = "SIMPLE"
    CONSISTENT_HASHING = "CONSISTENT_HASHING"


class KnownFrom(Enum):
    """What says that a table has a bucket index; the value is how it is worded."""

    PROPERTIES = "its properties"
    FILE_IDS = "its file ids"
    HASHING_CONFIG = HASHING_CONFIG_FOLDER
    HASHING_METADATA = HASHING_METADATA_FOLDER


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """A table whose rows lie in buckets.

    `num_buckets` is None where nothing but the keys says it. `rules` and `num_buckets` are those of
    the hashing config where there is one; `problem` is why that cannot be followed. `mixed` are
    file groups without a bucket's number among others that have one: Hudi cannot write such a table
    any more.
    """

    engine: BucketEngine
    known_from: KnownFrom
    num_buckets: int | None = None
    hash_fields: tuple[str, ...] = ()
    rules: PartitionRules = field(default_factory=PartitionRules)
    mixed: tuple[FileGroupId, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        parts = [self.engine.value]
        if self.num_buckets is not None:
            parts.append(counted(self.num_buckets, "bucket"))
        if self.rules.rules:
            parts.append(str(self.rules))
        parts.append(f"known by {self.known_from.value}")
        if self.mixed:
            parts.append(f"not in {self.mixed[0]}")
        if self.problem:
            parts.append(self.problem)
        return ", ".join(parts)


def has_bucket_ids(groups: Iterable[FileGroupId]) -> bool:
    """Whether most of the file ids begin with a bucket's number.

    A random one does so once in a hundred thousand.
    """
    found = [small_bucket_number(group.file_id) is not None for group in groups]
    return sum(found) * 2 > len(found)


def without_bucket(groups: Iterable[FileGroupId]) -> tuple[FileGroupId, ...]:
    """The live file groups that no bucket index gave: a random id, or a bucket's second group."""
    seen: set[tuple[str, int]] = set()
    strangers = []
    for group in groups:
        number = small_bucket_number(group.file_id)
        if number is None or (group.partition, number) in seen:
            strangers.append(group)
        else:
            seen.add((group.partition, number))
    return tuple(strangers)
