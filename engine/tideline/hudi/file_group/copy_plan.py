"""What of a base file can go into the next one as it is stored, decided before it is rewritten.

1. Copying pays where most columns keep the values that are stored, because rows are updated in some
   columns only, or where whole row groups have no row that is replaced. Otherwise, and of a small
   file, nothing is copied: then no footer is read and no column looked at twice.
2. Pages are copied when re-encoding them would give the same columns: those of the table, under
   the same names and in the same types, with the codec that is set and encodings that every reader
   knows, in the calendar that new files are in, and with bounds that readers may rely on.
3. A file with small row groups is encoded, which leaves it with large ones.

All of this goes by the footer. Source: parquet-format, "Statistics", "Encodings".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.file_group.base_file_reader import KEPT_META_COLUMNS, StoredFile
from tideline.hudi.file_group.base_file_writer import file_encoding, file_fields
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.file_group.handle_context import RECORD_KEY, HandleContext
from tideline.hudi.file_group.record_merge import IncomingRows
from tideline.hudi.file_group.wanted_keys import any_within, key_bounds
from tideline.hudi.log.missing_values import missing_values
from tideline.hudi.table.properties import MergeMode
from tideline.parquet.calendar import SPARK_VERSION_KEY
from tideline.parquet.schema_nodes import (
    Physical,
    SchemaNode,
    leaf_nodes,
    top_columns,
)
from tideline.parquet.sink import encoded_in_memory
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import (
    ColumnField,
    StoredChunk,
    StoredRowGroup,
)

_SHARE_TAKEN_MAX = 0.5
"""Of a file's bytes, in columns that an update may change."""

# PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED and RLE_DICTIONARY.
_ENCODINGS = frozenset({0, 2, 3, 4, 8})
_ARROW = "parquet-cpp-arrow"
_NUMBER_FORMATS = {Physical.FLOAT: "<f", Physical.DOUBLE: "<d"}


class Part(Enum):
    """What of a row group is re-encoded; the rest is copied."""

    NOTHING = "the file name alone"
    COLUMNS = "columns that an update may change"
    ROWS = "all"


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How the row groups of `source` are merged with incoming rows.

    `looked_at` are the columns that say which stored rows are replaced. `taken` are those that an
    update may change, or that are looked at; all others are copied. It is None where an update may
    change most of them: then a row group without one is copied whole, and others are not.
    `unmatched` are the numbers of row groups that hold no incoming key. `parts`, one for each row
    group, are known once keys are looked at.
    """

    source: StoredParquet
    looked_at: frozenset[str]
    taken: frozenset[str] | None
    unmatched: frozenset[int]
    parts: tuple[Part, ...] = ()


def plan_copies(
    ctx: HandleContext, stored: StoredFile, incoming: IncomingRows, kept: frozenset[str]
) -> CopyPlan | None:
    """The plan of a merge; None where the file is taken apart.

    `kept` are columns that updates leave as they are stored. Raises StorageUnavailableError; what
    is wrong in the footer is reported by reading the file in the usual way.
    """
    rows = stored.parquet
    if rows is None or rows.is_in_old_calendar:
        return None
    if _size_bytes(rows.metadata) < ctx.parquet.copied_bytes_min:
        return None
    groups = rows.metadata.num_row_groups
    looked_at = _looked_at(ctx)
    taken = {*KEPT_META_COLUMNS, *looked_at, *_changing(ctx, incoming, kept)}
    is_partial = any(name not in taken for name in ctx.schema.names)
    unmatched = _unmatched(ctx, rows.metadata, incoming)
    leaves_groups = groups > 1 and (bool(unmatched) or len(incoming) <= groups)
    if not is_partial and not leaves_groups:
        return None
    try:
        source = stored.open_bytes()
        with faults_named("the footer of a parquet file is broken", path=source.path):
            if not _is_copied(source, ctx, rows.metadata):
                return None
            is_partial &= _share(source, taken) <= _SHARE_TAKEN_MAX
    except (CorruptTableError, UnsupportedTableError):
        return None
    if not is_partial and not leaves_groups:
        return None
    return CopyPlan(source, looked_at, frozenset(taken) if is_partial else None, unmatched)


def _looked_at(ctx: HandleContext) -> frozenset[str]:
    """Columns by which rows are matched and the winner of a pair is decided."""
    keys = (RECORD_KEY,) if ctx.populate_meta_fields else ctx.virtual_key_fields
    by_time = ctx.merge_mode is MergeMode.EVENT_TIME_ORDERING
    ordering = ctx.ordering_fields if by_time else ()
    return frozenset(name.split(".", 1)[0] for name in (*keys, *ordering))


def _changing(ctx: HandleContext, incoming: IncomingRows, kept: frozenset[str]) -> set[str]:
    """Columns in which an incoming row may differ from the stored row of its key."""
    names = set(ctx.schema.names) - kept
    if ctx.partial is None:
        return names
    columns = zip(incoming.rows.schema.names, incoming.rows.columns, strict=True)
    missing = {name for name, column in columns if missing_values(column, ctx.partial).all()}
    return names - missing


def _unmatched(
    ctx: HandleContext, metadata: pq.FileMetaData, incoming: IncomingRows
) -> frozenset[int]:
    """Row groups none of whose rows can have an incoming key, by their statistics."""
    numbers = range(metadata.num_row_groups)
    if not ctx.merges_inserts:
        return frozenset(numbers)
    if not ctx.populate_meta_fields or len(numbers) < 2:
        return frozenset()
    return frozenset(
        number
        for number, bounds in enumerate(key_bounds(metadata))
        if bounds is not None and not any_within(incoming.keys, bounds)
    )


def _is_copied(source: StoredParquet, ctx: HandleContext, metadata: pq.FileMetaData) -> bool:
    groups = source.footer.row_groups
    if not source.footer.has_sound_statistics or source.nodes != _nodes(ctx):
        return False
    leaves_nan_out = metadata.created_by.startswith(_ARROW) and not _is_ours(metadata)
    codec = ctx.parquet.codec.stored
    if any(_is_small(group, ctx.parquet) for group in groups[:-1]) or not all(
        group.rows for group in groups
    ):
        return False
    leaves = leaf_nodes(source.nodes)
    return all(group.is_in_codec(codec) for group in groups) and all(
        _is_readable(chunk) and not _hides_nan(chunk, leaf, leaves_nan_out=leaves_nan_out)
        for group in groups
        for chunk, leaf in zip(group.chunks, leaves, strict=True)
    )


def _nodes(ctx: HandleContext) -> tuple[SchemaNode, ...]:
    """The columns as a new file has them."""
    rows = pa.schema(file_fields(ctx)).empty_table()
    return encoded_in_memory(rows, file_encoding(ctx.parquet)).nodes


def _is_small(group: StoredRowGroup, settings: ParquetSettings) -> bool:
    size_bytes = sum(chunk.metadata.get(ColumnField.UNCOMPRESSED_BYTES) for chunk in group.chunks)
    return settings.is_small_row_group(group.rows, size_bytes)


def _is_readable(chunk: StoredChunk) -> bool:
    """Whether its pages are encoded in ways that every reader knows."""
    return _ENCODINGS.issuperset(chunk.metadata.get(ColumnField.ENCODINGS).items)


def _is_ours(metadata: pq.FileMetaData) -> bool:
    """Whether a file that Arrow wrote is one of ours, where row groups with NaN have no bounds."""
    return SPARK_VERSION_KEY.encode() in (metadata.metadata or {})


def _hides_nan(chunk: StoredChunk, leaf: SchemaNode, *, leaves_nan_out: bool) -> bool:
    """Whether a reader that takes NaN for the greatest number may be misled by the bounds."""
    form = _NUMBER_FORMATS.get(leaf.physical) if leaf.physical is not None else None
    if form is None or chunk.statistics.bounds is None:
        return False
    return leaves_nan_out or chunk.statistics.has_nan(form)


def _share(source: StoredParquet, taken: set[str]) -> float:
    """Of the file's bytes those in columns that are taken apart."""
    columns = top_columns(source.nodes)
    found = 0
    for group in source.footer.row_groups:
        chunks = group.chunks
        for name in taken & columns.keys():
            found += sum(chunks[leaf].size_bytes for leaf in columns[name].leaves)
    return found / max(1, sum(group.size_bytes for group in source.footer.row_groups))


def _size_bytes(metadata: pq.FileMetaData) -> int:
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(int(group.total_byte_size) for group in groups)
