"""How new parquet files are encoded: codec, pages, dictionaries, statistics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tideline.parquet.stored_footer import Codec


class ParquetCodec(Enum):
    """Compression of pages; the value is its name in settings of both table formats."""

    SNAPPY = "snappy"
    ZSTD = "zstd"
    GZIP = "gzip"
    LZ4_RAW = "lz4_raw"
    BROTLI = "brotli"
    UNCOMPRESSED = "uncompressed"

    @property
    def arrow_name(self) -> str:
        """What Arrow calls it."""
        return "none" if self is ParquetCodec.UNCOMPRESSED else self.value

    @property
    def stored(self) -> Codec:
        """What footers call it."""
        return Codec[self.name]


@dataclass(frozen=True, slots=True)
class BloomFilterSetting:
    """A bloom filter of one column; `distinct_values` None means one per row."""

    false_positives: float
    distinct_values: int | None


@dataclass(frozen=True, slots=True)
class ParquetEncoding:
    """All of these; None leaves a limit to Arrow.

    `hides_nan`: row groups with NaN in a column have no bounds of it, and columns within others
    have none at all, nor have those that are `unbounded`. `leaves_incompressible`: columns that the
    codec hardly makes smaller are stored without it. `bloom_filters` are by the path of a leaf
    column. `variants` are the structs of metadata and value that are said to be variants.
    """

    codec: ParquetCodec
    codec_level: int | None = None
    page_bytes_max: int | None = None
    page_rows_max: int | None = None
    dictionary_bytes_max: int | None = None
    uses_dictionaries: bool = True
    hides_nan: bool = False
    leaves_incompressible: bool = False
    unbounded: frozenset[str] = frozenset()
    decimals_as_integers: bool = False
    bloom_filters: Mapping[str, BloomFilterSetting] = field(default_factory=dict)
    variants: frozenset[str] = frozenset()
