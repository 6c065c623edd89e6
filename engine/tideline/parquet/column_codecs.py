"""Which columns of a data file are compressed: those that the codec makes smaller.

Hashes, tokens and measured numbers stay as large as they are. Compressing them, and decompressing
them wherever they are read, is the most expensive part of writing a file of them. So a sample of
the first row group is encoded, and columns where that saves less than a tenth are stored
uncompressed, next to others in the codec: each column of a file says which is its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.parquet.column_encoding import leaf_columns
from tideline.parquet.encoding import ParquetCodec, ParquetEncoding

_SHARE_MAX = 0.9
"""Of a column's bytes, that may be left of it for compression to pay."""
_BYTES_MIN = 1 << 20
"""Smaller columns cost next to nothing, whatever is done with them."""
_SAMPLE_SLICES = 4
_SAMPLE_BYTES = 1 << 18
_NONE = "none"


def codec_options(
    rows: pa.Table, encoding: ParquetEncoding, dictionaries: Collection[str]
) -> dict[str, Any]:
    """How Arrow's writer compresses the leaf columns of a file that begins with these rows.

    Columns with one of the `dictionaries`, which are small, are compressed.
    """
    codec, level = encoding.codec.arrow_name, encoding.codec_level
    everything = {"compression": codec, "compression_level": level}
    if not encoding.leaves_incompressible or encoding.codec is ParquetCodec.UNCOMPRESSED:
        return everything
    large = [name for name in rows.schema.names if rows.column(name).nbytes >= _BYTES_MIN]
    names = [name for name in large if name not in dictionaries]
    left = _incompressible(rows.select(names), encoding) - set(dictionaries) if names else set()
    if not left:
        return everything
    paths = [path for path, _ in leaf_columns(rows.schema)]
    return {
        "compression": {path: _NONE if path in left else codec for path in paths},
        "compression_level": level and {path: level for path in paths if path not in left},
    }


def _incompressible(rows: pa.Table, encoding: ParquetEncoding) -> set[str]:
    """The leaf columns that hardly become smaller, by a sample."""
    sample = _sample(rows)
    body = pa.BufferOutputStream()
    pq.write_table(
        sample,
        body,
        row_group_size=max(1, sample.num_rows),
        compression=encoding.codec.arrow_name,
        compression_level=encoding.codec_level,
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    group = pq.read_metadata(pa.BufferReader(body.getvalue())).row_group(0)
    chunks = map(group.column, range(group.num_columns))
    return {
        chunk.path_in_schema
        for chunk in chunks
        if chunk.total_compressed_size > chunk.total_uncompressed_size * _SHARE_MAX
    }


def _sample(rows: pa.Table) -> pa.Table:
    """Some slices of the rows, of few bytes for each column."""
    row_bytes = max(1, rows.nbytes // (rows.num_rows * rows.num_columns))
    length = max(1, _SAMPLE_BYTES // row_bytes // _SAMPLE_SLICES)
    stride = max(length, rows.num_rows // _SAMPLE_SLICES)
    return pa.concat_tables(rows.slice(start, length) for start in range(0, rows.num_rows, stride))
