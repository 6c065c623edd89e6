"""Whether a partition of the metadata table has as many file groups as when it was made.

A key is in the file group that its hash names among so many. Nothing says how many these were, and
where the last ones are gone keys are looked for in others: what is there is not found, and stored a
second time. But keys that are there are in file groups that their hashes do not name then. A few of
each file group that is read are enough: of eight that were placed by another count, all fit by
chance less often than once in 256. Nothing can be seen where the count that is left divides that of
before, as one file group that is left does: keys are where they belong by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.partition import MetadataPartition, group_number
from tideline.hudi.metadata_table.record import MetadataRecord

_KEYS_CHECKED = 8


@dataclass(frozen=True, slots=True)
class StoredCount:
    """So many file groups of a partition, or of a shard of it, and keys seen in them."""

    partition: MetadataPartition
    groups: int
    uri: str
    _seen: dict[int, list[str]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether no key has been seen that says anything."""
        return self.groups > 1 and not any(self._seen.values())

    def seen(self, number: int) -> list[str]:
        """The keys seen in a file group, to add to."""
        return self._seen.setdefault(number, [])

    def require(self) -> None:
        """Raises CorruptTableError where keys are not in the file groups that they belong to."""
        for number, keys in self._seen.items():
            for key in keys[:_KEYS_CHECKED]:
                if group_number(self.partition.hashed(key), self.groups) != number:
                    raise CorruptTableError(
                        f"the metadata table has lost file groups of {self.partition.name}: keys "
                        f"are not where they belong among {self.groups}",
                        table=self.uri,
                        value=key,
                    )

    def checked(self, number: int, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
        """All records of a file group. Raises as `require`."""
        seen = self.seen(number)
        for record in records:
            if len(seen) < _KEYS_CHECKED and record.key:
                seen.append(record.key)
                if len(seen) == _KEYS_CHECKED:
                    self.require()
            yield record
        self.require()
