"""The kinds of index a table's writer can use, and what sets them apart.

RECORD_INDEX is Hudi's index in its metadata table. Here its keys are found in the files, as
GLOBAL_SIMPLE finds them; what it says of the table is kept: one place for each key.

Source: Hudi `HoodieIndex.IndexType` and the `isGlobal`, `canIndexLogFiles` of each index.
"""

from __future__ import annotations

from enum import Enum

from tideline.errors import ConfigError

GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
"""What Hudi 1.2 calls RECORD_INDEX."""


class IndexType(Enum):
    """An index; the value is the word of `hoodie.index.type`."""

    SIMPLE = "SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    BUCKET = "BUCKET"
    RECORD_INDEX = "RECORD_INDEX"

    @classmethod
    def parse(cls, text: str) -> IndexType:
        """The index named `text`, in any case. Raises ConfigError naming the valid words."""
        word = text.strip().upper()
        try:
            return cls.RECORD_INDEX if word == GLOBAL_RECORD_LEVEL_INDEX else cls(word)
        except ValueError:
            words = ", ".join(kind.value for kind in cls)
            raise ConfigError(
                f"unsupported index type; expected one of {words}", value=text
            ) from None

    def __str__(self) -> str:
        return self.value

    @property
    def is_global(self) -> bool:
        """Whether a record key is unique in the whole table rather than in its partition."""
        return self in (
            IndexType.GLOBAL_SIMPLE,
            IndexType.GLOBAL_BLOOM,
            IndexType.RECORD_INDEX,
        )

    @property
    def reads_bloom_filters(self) -> bool:
        """Whether candidate files are thinned out by key range and bloom filter first."""
        return self in (IndexType.BLOOM, IndexType.GLOBAL_BLOOM)

    @property
    def places_by_hash(self) -> bool:
        """Whether the key alone decides the file group, so that inserts are placed as well."""
        return self is IndexType.BUCKET
