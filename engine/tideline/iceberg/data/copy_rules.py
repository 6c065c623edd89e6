"""Which row groups of existing files may stand in new ones as they are, and why others may not.

A row group is copied when re-encoding it would change nothing that the table asks for: its
columns, its codec, its bloom filters, and the metrics that are made of its statistics. One that
differs in its codec alone is transcoded: its pages are recompressed, and not decoded. A small
one is encoded with others into a larger one, because every row group costs its readers a request or
two per column. Needs no Arrow. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.row_lineage import LINEAGE_FIELDS
from tideline.iceberg.metadata.field_type import NestedField, Primitive, walk_leaves
from tideline.iceberg.metadata.stored_columns import stored_columns
from tideline.parquet.encoding import ParquetCodec
from tideline.parquet.schema_nodes import SchemaNode
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import Codec, StoredChunk, StoredRowGroup

SMALL_SHARE = 16
"""A row group of less than this part of `write.parquet.row-group-size-bytes`, as stored, is small:
8 MiB by default."""

_TRANSCODED = frozenset(codec.stored for codec in ParquetCodec)
_COMPRESSED_SHARE = 4
"""Pages without a codec are about so many times as large as with one."""
_NUMBER_FORMATS = {"float": "<f", "double": "<d"}
_LINEAGE_IDS = frozenset(field.field_id for field in LINEAGE_FIELDS)


class Treatment(Enum):
    """What a rewrite does with a row group: it is copied, transcoded, or re-encoded because of
    this."""

    COPIED = "copied as they are stored"
    TRANSCODED = "recompressed with write.parquet.compression-codec"
    ORDER = "rows are sorted"
    PARTITIONS = "rows are put into other partitions"
    DELETES = "deleted rows are left out"
    SMALL = "small row groups become larger ones"
    UNREADABLE = "not parquet, or with a footer that cannot be copied"
    COLUMNS = "columns are stored in another way than the table has them now"
    CODEC = "a codec that pages cannot be brought from to write.parquet.compression-codec"
    WRITER = "statistics of its writer are not relied on"
    STATISTICS = "statistics that metrics are made of are missing, cut or NaN"
    LINEAGE = "rows have no ids of their own yet"
    BLOOM_FILTER = "a bloom filter that the table asks for is missing"

    @property
    def keeps_values(self) -> bool:
        """Whether values stay encoded as they are."""
        return self in (Treatment.COPIED, Treatment.TRANSCODED)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What a column chunk must have, besides pages."""

    has_counts: bool
    has_bounds: bool
    is_lineage: bool
    has_bloom_filter: bool
    number_format: str
    """Of floating point numbers, by `struct`; empty for other types."""


@dataclass(frozen=True, slots=True)
class CopyRules:
    """What new files of a table must have, as far as footers show it."""

    nodes: tuple[SchemaNode, ...]
    codec: Codec
    size_bytes_min: int
    leaves: tuple[_Leaf, ...]

    @classmethod
    def of(
        cls, fields: Sequence[NestedField], parquet: ParquetSettings, metrics: MetricsConfig
    ) -> CopyRules:
        """The rules for files with these columns. Raises UnsupportedTableError for their types."""
        leaves = []
        for number, kind, repeated in walk_leaves(fields):
            mode = metrics.mode(number)
            has_filter = number in parquet.bloom_filters and kind != Primitive("boolean")
            has_counts = mode.has_counts and not repeated
            has_bounds = has_counts and mode.has_bounds
            is_lineage = number in _LINEAGE_IDS
            form = _NUMBER_FORMATS.get(str(kind), "")
            leaves.append(_Leaf(has_counts, has_bounds, is_lineage, has_filter, form))
        return cls(
            stored_columns(fields),
            parquet.codec.stored,
            parquet.row_group_bytes_max // SMALL_SHARE,
            tuple(leaves),
        )

    def may_hold_copies(self, file_size_bytes: int) -> bool:
        """Whether a file is large enough to look at its footer."""
        return file_size_bytes >= self.size_bytes_min

    def treatments(
        self, source: StoredParquet, is_deleted_from: Callable[[StoredRowGroup], bool]
    ) -> list[Treatment]:
        """Of the row groups of a file, in their order; `is_deleted_from` says whether a row group
        has deleted rows."""
        groups = source.footer.row_groups
        try:
            with faults_named("the footer of a parquet file is broken", path=source.path):
                reason = self._of_file(source)
                found = [reason or self._of_group(group) for group in groups]
        except CorruptTableError:
            return [Treatment.UNREADABLE] * len(groups)
        return [
            Treatment.DELETES if treatment.keeps_values and is_deleted_from(group) else treatment
            for treatment, group in zip(found, groups, strict=True)
        ]

    def _of_file(self, source: StoredParquet) -> Treatment | None:
        if source.nodes != self.nodes:
            return Treatment.COLUMNS
        if not source.footer.has_sound_statistics:
            return Treatment.WRITER
        return None

    def _of_group(self, group: StoredRowGroup) -> Treatment:
        if self.size_expected(group) < self.size_bytes_min or not group.rows:
            return Treatment.SMALL
        pairs = list(zip(group.chunks, self.leaves, strict=True))
        others = {chunk.codec for chunk, _ in pairs} - {self.codec}
        if others - _TRANSCODED:
            return Treatment.CODEC
        if any(leaf.is_lineage and chunk.statistics.nulls != 0 for chunk, leaf in pairs):
            return Treatment.LINEAGE
        if any(leaf.has_bloom_filter and not chunk.has_bloom_filter for chunk, leaf in pairs):
            return Treatment.BLOOM_FILTER
        if not all(_has_metrics(chunk, leaf) for chunk, leaf in pairs):
            return Treatment.STATISTICS
        return Treatment.COPIED if group.is_in_codec(self.codec) else Treatment.TRANSCODED

    def size_expected(self, group: StoredRowGroup) -> int:
        """About how many bytes its pages have in the codec of new files."""
        if group.is_in_codec(self.codec):
            return group.size_bytes
        return sum(self._size_expected(chunk) for chunk in group.chunks)

    def _size_expected(self, chunk: StoredChunk) -> int:
        if Codec.UNCOMPRESSED not in (chunk.codec, self.codec) or chunk.codec == self.codec:
            return chunk.size_bytes
        if self.codec is Codec.UNCOMPRESSED:
            return chunk.uncompressed_bytes
        return chunk.size_bytes // _COMPRESSED_SHARE


def _has_metrics(chunk: StoredChunk, leaf: _Leaf) -> bool:
    found = chunk.statistics
    if not leaf.has_counts:
        return True
    if found.nulls is None:
        return False
    if not leaf.has_bounds or chunk.values == found.nulls:
        return True
    if found.bounds is None or not found.is_exact:
        return False
    # NaN is no bound that readers may use.
    form = leaf.number_format
    return not form or not found.has_nan(form)
