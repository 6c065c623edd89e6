"""What partitions of the metadata table share that not every table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tideline.hudi.metadata_table.partition import Discrepancy, SeenTable
from tideline.hudi.metadata_table.record import MetadataRecord

_RECORDS_MAX = 4_000_000
"""Of one file group, so that the object can be read whole."""


class OptionalPartition:
    """The newest record of a key counts, and a key belongs to the file group of its hash."""

    is_in_every_table = False
    may_be_empty = False
    may_lack_files = False
    groups_made = 1
    """File groups that it is made of, more for more records than these can have."""

    def groups_for(self, records: int) -> int:
        return max(self.groups_made, -(-records // _RECORDS_MAX))

    def hashed(self, key: str) -> str:
        return key

    def merged(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        newest = {record.key: record for record in records}
        return [record for record in newest.values() if not record.is_deleted]

    def replacing(self, records: Iterable[MetadataRecord]) -> Sequence[MetadataRecord] | None:
        return tuple({record.key: record for record in records}.values())

    def verify(
        self,
        records: Iterable[MetadataRecord],  # noqa: ARG002
        seen: SeenTable,  # noqa: ARG002
    ) -> Iterator[Discrepancy]:
        """Records are compared with files where these are read (`hudi.check`)."""
        return iter(())
