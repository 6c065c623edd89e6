"""What a check of a partition of the metadata table finds: that it is wrong, or not to be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tideline.check_finding import Finding, Repair, RepairKind, error
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.metadata_table.partition import Discrepancy
from tideline.hudi.metadata_table.reader import UNREADABLE


def partition_findings(
    seen: Inspection, check: str, partition: str, wrong: Iterable[Discrepancy], *, says: str
) -> Iterator[Finding]:
    """An error for all that is wrong, and for a partition that is listed and cannot be read, which
    `says` begins, such as "it is". The repair makes the metadata table again."""
    repair = Repair(RepairKind.REBUILD_METADATA_TABLE)
    try:
        for item in wrong:
            yield error(check, item.message, path=item.path, instant=item.instant, repair=repair)
    except UNREADABLE as broken:
        if partition in seen.table.properties.reload().metadata_partitions:
            yield error(check, f"{says} in use, and cannot be read: {broken}", repair=repair)
