"""The kinds of index a table's writer can use, and what sets them apart.

RECORD_INDEX is Hudi's index in its metadata table. Here its keys are found in the files, as
GLOBAL_SIMPLE finds them; what it says of the table is kept: one place for each key.

Source: Hudi `HoodieIndex.IndexType` and the `isGlobal`, `canIndexLogFiles` of each index.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.errors import ConfigError

GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
"""What Hudi 1.2 calls RECORD_INDEX."""


@dataclass(frozen=True, slots=True)
class IndexTraits:
    """What sets a kind of index apart.

    - `is_global`: a record key is unique in the whole table rather than in its partition.
    - `reads_bloom_filters`: candidate files are thinned out by key range and bloom filter first.
    - `places_by_hash`: the key alone decides the file group, so that inserts are placed as well.
    - `moves_setting` says whether a row whose partition changed is moved; only where that can be.
    - `in_table` is the kind that finds keys in the same way, in the whole table.
    """

    is_global: bool = False
    reads_bloom_filters: bool = False
    places_by_hash: bool = False
    moves_setting: str = ""
    in_table: str = ""


class IndexType(Enum):
    """An index; the value is the word of `hoodie.index.type`. What it is like is in `_TRAITS`."""

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
    def traits(self) -> IndexTraits:
        return _TRAITS[self]

    @property
    def is_global(self) -> bool:
        """Whether a record key is unique in the whole table rather than in its partition."""
        return self.traits.is_global

    @property
    def reads_bloom_filters(self) -> bool:
        """Whether candidate files are thinned out by key range and bloom filter first."""
        return self.traits.reads_bloom_filters

    @property
    def places_by_hash(self) -> bool:
        """Whether the key alone decides the file group, so that inserts are placed as well."""
        return self.traits.places_by_hash

    @property
    def in_table(self) -> IndexType:
        """The kind that finds keys in the same way, in the whole table; itself where none does."""
        return IndexType(self.traits.in_table) if self.traits.in_table else self


_TRAITS = {
    IndexType.SIMPLE: IndexTraits(in_table="GLOBAL_SIMPLE"),
    IndexType.BLOOM: IndexTraits(reads_bloom_filters=True, in_table="GLOBAL_BLOOM"),
    IndexType.GLOBAL_SIMPLE: IndexTraits(
        is_global=True, moves_setting="hoodie.simple.index.update.partition.path"
    ),
    IndexType.GLOBAL_BLOOM: IndexTraits(
        is_global=True,
        reads_bloom_filters=True,
        moves_setting="hoodie.bloom.index.update.partition.path",
    ),
    IndexType.BUCKET: IndexTraits(places_by_hash=True),
    IndexType.RECORD_INDEX: IndexTraits(
        is_global=True, moves_setting="hoodie.record.index.update.partition.path"
    ),
}
