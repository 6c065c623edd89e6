"""How the files of a file group are written: base files, logs, bloom filters."""

# ruff: noqa: RUF009 -- declared() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass, field

from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.settings import declared
from tideline.parquet.encoding import ParquetCodec

SMALL_SHARE = 16
"""A row group of less than this part of the largest one is small."""


@dataclass(frozen=True, slots=True)
class ParquetSettings:
    """How base files are encoded.

    A row group ends at `row_group_rows_max` rows or about `row_group_bytes_max` bytes of Arrow
    data, whichever comes first; the second bounds a task's memory. A new file may grow by the share
    `growth` beyond its maximum. Of files with fewer than `copied_bytes_min` bytes of values nothing
    is copied as it is stored when they are rewritten: taking them apart costs next to nothing.
    """

    codec: ParquetCodec = declared("hoodie.parquet.compression.codec", ParquetCodec)
    row_group_rows_max: int = 1_000_000
    row_group_bytes_max: int = declared("hoodie.parquet.block.size")
    file_size_bytes_max: int = declared("hoodie.parquet.max.file.size")
    growth: float = declared("hoodie.parquet.compression.ratio")
    page_bytes_max: int = declared("hoodie.parquet.page.size")
    uses_dictionaries: bool = declared("hoodie.parquet.dictionary.enabled")
    copied_bytes_min: int = 4 * 1024 * 1024

    def is_small_row_group(self, rows: int, size_bytes: int) -> bool:
        """Whether a row group of so many bytes of values is one of those that cost readers more
        than they are worth, so that none is left where rows are rewritten anyway."""
        return (
            rows * SMALL_SHARE < self.row_group_rows_max
            and size_bytes * SMALL_SHARE < self.row_group_bytes_max
        )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How log files are written: the format of their blocks, and where block and file end.

    Sizes in bytes; a block is measured before compression, as Arrow data.
    """

    format: LogFormat = LogFormat.PARQUET
    block_size_bytes_max: int = declared("hoodie.logfile.data.block.max.size")
    file_size_bytes_max: int = declared("hoodie.logfile.max.size")


@dataclass(frozen=True, slots=True)
class BloomSettings:
    """Sizing of a base file's bloom filter (Hudi's DYNAMIC_V0), at its largest; a file with fewer
    keys than `num_entries` gets a smaller one."""

    num_entries: int = declared("hoodie.index.bloom.num_entries")
    error_rate: float = declared("hoodie.index.bloom.fpp")
    max_entries: int = declared("hoodie.bloom.index.filter.dynamic.max.entries")
    is_written: bool = True


@dataclass(frozen=True, slots=True)
class FileSettings:
    """All of these, and how large a row is taken to be before one is stored."""

    parquet: ParquetSettings = field(default_factory=ParquetSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    bloom: BloomSettings = field(default_factory=BloomSettings)
    record_size_estimate_bytes: int = declared("hoodie.copyonwrite.record.size.estimate")
