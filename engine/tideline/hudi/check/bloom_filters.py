"""Does the metadata table have the bloom filter of every base file, as the file's footer has it?

Hudi's writers look keys up in these where `hoodie.bloom.index.use.metadata` says so. A key that a
filter leaves out is stored a second time; where a file has no row the write fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from tideline.check_finding import Finding
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.stored_filter import StoredFilter
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.check.partition_findings import partition_findings
from tideline.hudi.metadata_table.bloom_filters import (
    BLOOM_FILTERS_PARTITION,
    FilterRow,
    filter_of,
    key_of,
)
from tideline.hudi.metadata_table.partition import Discrepancy
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.file_group import PARQUET, BaseFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import BLOOM_FILTERS

NAME = "bloom filters"
_DOUBLED = "Hudi's writers that look keys up there may store them twice"
_FAILS = "Hudi's writers that look keys up there fail"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What of a filter is compared."""

    type_code: str
    digest: bytes

    @classmethod
    def of(cls, found: StoredFilter) -> _Seen:
        return cls(found.type_code, hashlib.sha256(found.text).digest())


def check_bloom_filters(seen: Inspection) -> Iterator[Finding]:
    """Findings about the filters that the table's properties list."""
    wrong = wrong_filters(seen.table, seen.view)
    return partition_findings(seen, NAME, BLOOM_FILTERS, wrong, says="they are")


def wrong_filters(table: HoodieTable, view: FileSystemView) -> Iterator[Discrepancy]:
    """Where rows are not what the footers of the newest base files in `view` say.

    Raises CorruptTableError and UnsupportedTableError where rows cannot be read.
    """
    if not table.config.has_kept(BLOOM_FILTERS):
        return
    rows: dict[str, _Seen | None] = {}
    for record in MetadataTable(table.store, table.clock).read(BLOOM_FILTERS_PARTITION):
        row = FilterRow.parse(record)
        rows[record.key] = None if row is None else _Seen.of(row.filter)
    for file_slice in view.all_latest_slices():
        file = file_slice.base_file
        if file is not None and file.extension == PARQUET:
            yield from _of_file(table, file, rows.get(key_of(file)))


def _of_file(table: HoodieTable, file: BaseFile, row: _Seen | None) -> Iterator[Discrepancy]:
    if row is None:
        message = f"has no row in {BLOOM_FILTERS}: {_FAILS}"
        yield Discrepancy(message, file.path, file.instant)
        return
    try:
        found = filter_of(table, file)
    except ObjectNotFoundError:
        return  # cleaned since it was listed
    except (CorruptTableError, UnsupportedTableError):
        found = None
    if found is None or _Seen.of(found) != row:
        message = f"the filter in {BLOOM_FILTERS} is not that of its footer: {_DOUBLED}"
        yield Discrepancy(message, file.path, file.instant)
