"""Does the record index in the metadata table say where the keys of the table are?

Writers of Hudi's that look keys up in it believe it: a key that it lacks is stored a second time, a
row whose key has left its place is written to a file group without it. Needs Arrow.

All keys are compared where keys are checked anyway. Else those of some file slices are looked up,
which reads little of a large index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.check.finding import Finding, Repair, RepairKind, error
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.metadata_table.partition import Discrepancy
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    has_global_record_index,
    places_of,
)
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.hudi.table.table_config import RECORD_INDEX
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.wording import counted

NAME = "record index"
SAMPLED_SLICES = 8


def check_record_index(
    seen: Inspection, slices_max: int | None = SAMPLED_SLICES
) -> Iterator[Finding]:
    """Findings about keys of some slices, or of all, and what the index says of them."""
    repair = Repair(RepairKind.REBUILD_METADATA_TABLE)
    try:
        for wrong in wrong_places(seen.table, seen.view, seen.timeline, slices_max):
            yield error(NAME, wrong.message, path=wrong.path, instant=wrong.instant, repair=repair)
    except (CorruptTableError, UnsupportedTableError, ObjectNotFoundError) as broken:
        if RECORD_INDEX in seen.table.properties.reload().metadata_partitions:
            yield error(NAME, f"it is in use, and cannot be read: {broken}", repair=repair)


def check_whole_record_index(seen: Inspection) -> Iterator[Finding]:
    """The same of all keys, and of keys that the index has and the table has not."""
    yield from check_record_index(seen, None)


def wrong_places(
    table: HoodieTable,
    view: FileSystemView,
    timeline: ActiveTimeline,
    slices_max: int | None = None,
) -> Iterator[Discrepancy]:
    """Where the index and the newest slices in `view` differ: of all keys, or of those of some
    slices.

    Raises CorruptTableError and UnsupportedTableError where they cannot be read.
    """
    config = table.config
    is_listed = RECORD_INDEX in config.metadata_partitions and config.keeps_metadata_table
    schema = table.schemas.newest(timeline) if is_listed else None
    if schema is None or not has_global_record_index(table):
        return
    reading = SliceContext.of(table, timeline, schema)
    if reading.merge_mode is None or not reading.populate_meta_fields:
        return
    metadata = MetadataTable(table.store, table.clock)
    pending = {instant.time for instant in timeline.pending()}
    slices = view.all_latest_slices()
    if slices_max is not None and len(slices) > slices_max:
        slices = slices[:: -(-len(slices) // slices_max)]
    keys = {piece: _keys(table, piece, reading) for piece in slices}
    if slices_max is None:
        records = metadata.read(RECORD_INDEX_PARTITION, pending)
    else:
        wanted = {key for found in keys.values() for key in found}
        records = metadata.look_up(RECORD_INDEX_PARTITION, wanted, pending)
    places = dict(places_of(records))
    for piece, found in keys.items():
        said = [places.pop(key, None) for key in found]
        wrong = [
            key
            for key, at in zip(found, said, strict=True)
            if at is None or at.group != piece.group
        ]
        if wrong:
            message = (
                f"{counted(len(wrong), 'key')} of {piece.group} "
                f"{'has' if len(wrong) == 1 else 'have'} another place in it, or none, such as "
                f"{wrong[0]!r}: Hudi's writers may store them twice"
            )
            path = piece.base_file.path if piece.base_file else str(piece.group)
            yield Discrepancy(message, path, piece.base_instant)
    if slices_max is None and places:
        key, place = next(iter(places.items()))
        message = f"{counted(len(places), 'key')} in it that no file has, such as {key!r}"
        yield Discrepancy(message, str(place.group), timeline.instants[-1].time)


def _keys(table: HoodieTable, piece: FileSlice, reading: SliceContext) -> Sequence[str]:
    try:
        return [
            key
            for batch in read_file_slice(table.store, piece, reading, [RECORD_KEY])
            for key in batch.column(0).to_pylist()
            if key is not None
        ]
    except CorruptTableError as broken:
        if broken.path is not None and table.store.head(str(broken.path)) is None:
            return []  # cleaned since it was listed
        raise
