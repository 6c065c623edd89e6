"""Do the record index and secondary indexes in the metadata table say what the files hold?

Writers of Hudi's that look keys up in it believe it: a key that it lacks is stored a second time, a
row whose key has left its place is written to a file group without it. Queries by the column of a
secondary index lose a row without a record. Needs Arrow.

All keys are compared where keys are checked anyway. Else those of some file slices are looked up,
which reads little of a large index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tideline.check_finding import Finding
from tideline.errors import CorruptTableError
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.check.partition_findings import partition_findings
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.file_group.key_changes import index_texts
from tideline.hudi.metadata_table.partition import Discrepancy
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    has_partitioned_record_index,
    places_of,
    shard_name,
)
from tideline.hudi.metadata_table.secondary_index import secondary_indexes
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
    given = seen.table, seen.view, seen.timeline, slices_max
    wrong = chain(wrong_places(*given), wrong_values(*given))
    return partition_findings(seen, NAME, RECORD_INDEX, wrong, says="it is")


def check_whole_record_index(seen: Inspection) -> Iterator[Finding]:
    """The same of all keys, and of keys that the index has and the table has not."""
    return check_record_index(seen, None)


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
    if schema is None:
        return
    reading = SliceContext.of(table, timeline, schema)
    if reading.merge_mode is None or not reading.populate_meta_fields:
        return
    metadata = MetadataTable(table.store, table.clock)
    pending = {instant.time for instant in timeline.pending()}
    slices = _sampled(view.all_latest_slices(), slices_max)
    keys = {file_slice: _read(table, file_slice, reading) for file_slice in slices}
    is_partitioned = has_partitioned_record_index(table)
    shards = {
        file_slice: shard_name(file_slice.partition) if is_partitioned else None
        for file_slice in slices
    }
    if slices_max is None:
        places = dict(places_of(metadata.read(RECORD_INDEX_PARTITION, pending)))
    else:
        wanted: dict[str | None, list[str]] = {}
        for file_slice, found in keys.items():
            wanted.setdefault(shards[file_slice], []).extend(found)
        records = metadata.look_up_in_shards(RECORD_INDEX_PARTITION, wanted, pending)
        places = dict(places_of(records))
    for file_slice, found in keys.items():
        said = [places.pop((shards[file_slice], key), None) for key in found]
        wrong = [
            key
            for key, at in zip(found, said, strict=True)
            if at is None or at.group != file_slice.group
        ]
        if wrong:
            message = (
                f"{counted(len(wrong), 'key')} of {file_slice.group} "
                f"{'has' if len(wrong) == 1 else 'have'} another place in it, or none, such as "
                f"{wrong[0]!r}: Hudi's writers may store them twice"
            )
            path = file_slice.base_file.path if file_slice.base_file else str(file_slice.group)
            yield Discrepancy(message, path, file_slice.base_instant)
    if slices_max is None and places:
        (_, key), place = next(iter(places.items()))
        message = f"{counted(len(places), 'key')} in it that no file has, such as {key!r}"
        yield Discrepancy(message, str(place.group), timeline.instants[-1].time)


def wrong_values(
    table: HoodieTable,
    view: FileSystemView,
    timeline: ActiveTimeline,
    slices_max: int | None = None,
) -> Iterator[Discrepancy]:
    """Where secondary indexes and the newest slices in `view` differ. Raises likewise."""
    indexes = secondary_indexes(table) if table.config.keeps_metadata_table else ()
    schema = table.schemas.newest(timeline) if indexes else None
    if schema is None:
        return
    reading = SliceContext.of(table, timeline, schema)
    metadata = MetadataTable(table.store, table.clock)
    pending = {instant.time for instant in timeline.pending()}
    slices = _sampled(view.all_latest_slices(), slices_max)
    for index in indexes:
        if index.column not in schema.names or reading.merge_mode is None:
            continue
        texts = {
            file_slice: _read(table, file_slice, reading, index.column) for file_slice in slices
        }
        wanted = {text for found in texts.values() for text in found}
        if slices_max is None:
            records = index.merged(metadata.read(index, pending))
        else:
            records = index.merged(metadata.look_up(index, wanted, pending))
        said = {record.key for record in records}
        for file_slice, found in texts.items():
            missing = [text for text in found if text not in said]
            if missing:
                message = (
                    f"{counted(len(missing), 'row')} of {file_slice.group} "
                    f"{'is' if len(missing) == 1 else 'are'} not in {index.name}: Hudi's queries "
                    f"by {index.column} lose {'it' if len(missing) == 1 else 'them'}"
                )
                yield Discrepancy(message, str(file_slice.group), file_slice.base_instant)
        left = said - wanted
        if slices_max is None and left:
            message = f"{counted(len(left), 'record')} in {index.name} of rows that no file has"
            yield Discrepancy(message, index.name, timeline.instants[-1].time)


def _sampled(slices: Sequence[FileSlice], slices_max: int | None) -> Sequence[FileSlice]:
    if slices_max is None or len(slices) <= slices_max:
        return slices
    return slices[:: -(-len(slices) // slices_max)]


def _read(
    table: HoodieTable,
    file_slice: FileSlice,
    reading: SliceContext,
    value_column: str | None = None,
) -> Sequence[str]:
    """The record keys of a slice, or the keys of its rows in a secondary index; none of one that
    was cleaned since it was listed."""
    columns = [RECORD_KEY, *filter(None, [value_column])]
    try:
        return [
            text
            for batch in read_file_slice(table.store, file_slice, reading, columns)
            for text in index_texts(batch).to_pylist()
            if text is not None
        ]
    except CorruptTableError as broken:
        if broken.path is not None and table.store.head(str(broken.path)) is None:
            return []
        raise
