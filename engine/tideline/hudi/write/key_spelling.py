"""The key generator of a table, as it spells the keys that it has.

Record keys of one column that a complex key generator made are `id:1` or `1`. Hudi has done both,
by its version (0.14.1 to 1.0.2 leave the column's name out), and no property says which. The keys
that a table has decide: those in the footer of a base file, else those of a block of a log. A table
without any is spelled as Hudi before and after these versions does. Times are spelled as
`stored_spelling` finds them.
Source: Hudi's KeyGenUtils.encodeSingleKeyFieldNameForComplexKeyGen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import pyarrow as pa

from tideline.errors import UnsupportedTableError
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.file_group.slice_keys import keys_of_slice
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.partition_time import UTC
from tideline.hudi.keys.stored_spelling import spelled_as_stored
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants

_PARTITIONS_MAX = 64
"""How many partitions are looked into until one has a key."""
_SAMPLED_PARTITIONS = 32
_SAMPLED_SLICES = 4
_SAMPLED_ROWS = 2_000


def key_generator(
    table: HoodieTable,
    timeline: ActiveTimeline | None = None,
    *,
    zone: str = UTC,
    replaces_all: bool = False,
) -> KeyGenerator:
    """The table's key generator; keys that are stored already settle how they are spelled.

    `timeline` is the table's, read here unless given. `zone` is that of times as text; with
    `replaces_all` no stored key outlives the write. Raises UnsupportedTableError where two
    spellings are found, and each row may be there twice, or one that is not made here.
    """
    keys = KeyGenerator.from_config(table.config)
    if not table.config.populate_meta_fields:
        return keys
    stored = _StoredTable(table, table.timeline() if timeline is None else timeline)
    if keys.qualified and len(keys.record_fields) == 1:
        keys = _named_or_bare(stored, keys)
    if replaces_all or stored.newest_schema is None:
        return keys
    return spelled_as_stored(stored, keys, zone)


@dataclass(frozen=True)
class _StoredTable:
    """What a table has stored by now, as a timeline shows it."""

    table: HoodieTable
    timeline: ActiveTimeline

    @property
    def uri(self) -> str:
        return self.table.uri

    @property
    def partitions(self) -> tuple[str, ...]:
        return self._view.partitions

    @cached_property
    def newest_schema(self) -> pa.Schema | None:
        """Its columns; None where it has none yet."""
        return self.table.schemas.newest(self.timeline)

    @property
    def schema(self) -> pa.Schema:
        assert self.newest_schema is not None, "a table without columns has no keys"
        return self.newest_schema

    @cached_property
    def _view(self) -> FileSystemView:
        return self.table.files.view(self.timeline)

    def keys(self) -> tuple[str, ...]:
        """Some keys of the first file group that has any."""
        committed = CommittedInstants.of(self.timeline)
        for partition in self.partitions[:_PARTITIONS_MAX]:
            for file_slice in self._view.latest_slices(partition):
                keys = keys_of_slice(self.table.store, file_slice, committed)
                if keys:
                    return keys
        return ()

    def samples(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The first rows of a few slices, of base files where there are some."""
        context = SliceContext.of(self.table, self.timeline, self.schema)
        partitions = self.partitions
        chosen = dict.fromkeys(
            (*partitions[:_SAMPLED_PARTITIONS], *partitions[-_SAMPLED_PARTITIONS:])
        )
        slices = (file_slice for name in chosen for file_slice in self._view.latest_slices(name))
        read = [RECORD_KEY, PARTITION_PATH, *columns]
        for file_slice in islice(_spread(slices), _SAMPLED_SLICES):
            if file_slice.base_file is None and context.merge_mode is None:
                continue
            whole = (
                file_slice if file_slice.base_file is None else replace(file_slice, log_files=())
            )
            rows = read_file_slice(self.table.store, whole, context, read)
            batch = next((batch for batch in rows if batch.num_rows), None)
            if batch is not None:
                yield batch.slice(0, _SAMPLED_ROWS)


def _spread(slices: Iterable[FileSlice]) -> list[FileSlice]:
    """The oldest and the newest first: a spelling changes with time."""
    ordered = sorted(slices, key=lambda file_slice: file_slice.base_instant)
    half = (len(ordered) + 1) // 2
    pairs = zip(ordered[:half], reversed(ordered), strict=False)
    return list({file_slice.group: file_slice for pair in pairs for file_slice in pair}.values())


def _named_or_bare(stored: _StoredTable, keys: KeyGenerator) -> KeyGenerator:
    config, found = stored.table.config, stored.keys()
    spelled = {KeyGenerator.from_config(config, stored_key=key).qualified for key in found}
    if len(spelled) > 1:
        raise UnsupportedTableError(
            f"some record keys begin with {keys.record_fields[0]}: and some do not, as Hudi's "
            "versions differ (HUDI-7001), so that rows may be there twice; rewrite the table "
            "with one of them first",
            table=stored.table.location.uri,
            value=", ".join(found),
        )
    return KeyGenerator.from_config(config, stored_key=next(iter(found), None))
