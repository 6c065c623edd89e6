"""Which columns of a data file are compressed, and that readers find the rows of both kinds."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.parquet.encoding import ParquetCodec, ParquetEncoding
from tideline.parquet.sink import EncodedSink, SplicedSink
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import Codec

ROWS = 20_000
RANDOM = np.random.default_rng(5)


def hashes(rows: int = ROWS) -> pa.Array:
    """Texts that Snappy finds nothing in."""
    digits = RANDOM.bytes(32 * rows).hex()
    return pa.array([digits[at : at + 64] for at in range(0, len(digits), 64)])


def some_rows() -> pa.Table:
    return pa.table(
        {
            "hash": hashes(),
            "number": np.arange(ROWS) * 3,
            "name": [f"customer {number} of the shop" for number in range(ROWS)],
            "few": ["a", "b"] * (ROWS // 2),
            "place": pa.StructArray.from_arrays([pa.array(RANDOM.random(ROWS))], ["x"]),
        }
    )


def written(
    rows: pa.Table,
    codec: ParquetCodec = ParquetCodec.SNAPPY,
    level: int | None = None,
    *,
    leaves_incompressible: bool = True,
) -> tuple[dict[str, str], bytes]:
    """The codec of each column, and the file."""
    body = io.BytesIO()
    encoding = ParquetEncoding(codec, level, leaves_incompressible=leaves_incompressible)
    sink = EncodedSink(body, encoding)
    sink.write(rows)
    sink.finish({})
    group = sink.metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.compression for chunk in chunks}, body.getvalue()


@pytest.mark.parametrize("codec", [ParquetCodec.SNAPPY, ParquetCodec.LZ4_RAW])
def test_columns_that_the_codec_does_not_make_smaller_are_left_uncompressed(
    codec: ParquetCodec,
) -> None:
    rows = pa.concat_tables([some_rows()] * 7)
    codecs, body = written(rows, codec)
    plain = {name for name, found in codecs.items() if found == "UNCOMPRESSED"}
    assert plain == {"hash", "place.x"}
    everything, compressed = written(rows, codec, leaves_incompressible=False)
    assert "UNCOMPRESSED" not in everything.values()
    assert len(body) < 1.1 * len(compressed)
    assert pq.read_table(pa.BufferReader(body)).equals(rows)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(ParquetCodec.ZSTD, 3), (ParquetCodec.ZSTD, None)],
)
def test_a_codec_that_saves_much_of_hashes_is_kept_for_them(
    codec: ParquetCodec, level: int | None
) -> None:
    codecs, _ = written(some_rows(), codec, level)
    assert codecs["hash"] == codec.name


def test_a_level_is_for_the_columns_that_are_compressed() -> None:
    rows = pa.table({"raw": pa.array([RANDOM.bytes(80) for _ in range(ROWS)]), "n": range(ROWS)})
    codecs, body = written(rows, ParquetCodec.ZSTD, 7)
    assert codecs == {"raw": "UNCOMPRESSED", "n": "ZSTD"}
    assert pq.read_table(pa.BufferReader(body)).equals(rows)


def test_small_columns_and_files_without_a_codec_are_not_looked_at() -> None:
    codecs, _ = written(pa.table({"hash": hashes(1_000), "number": range(1_000)}))
    assert set(codecs.values()) == {"SNAPPY"}
    codecs, _ = written(some_rows(), ParquetCodec.UNCOMPRESSED)
    assert set(codecs.values()) == {"UNCOMPRESSED"}


def test_values_of_many_bytes_are_sampled_by_few_rows() -> None:
    rows = pa.table({"raw": pa.array([RANDOM.bytes(1 << 20) for _ in range(9)]), "n": range(9)})
    codecs, _ = written(rows)
    assert codecs == {"raw": "UNCOMPRESSED", "n": "SNAPPY"}


def test_such_row_groups_are_copied_as_they_are_and_others_are_compressed() -> None:
    rows = some_rows()
    encoding = ParquetEncoding(ParquetCodec.SNAPPY)
    for codec, expected in (
        (ParquetCodec.SNAPPY, {"hash": "UNCOMPRESSED", "number": "SNAPPY"}),
        (ParquetCodec.UNCOMPRESSED, {"hash": "SNAPPY", "number": "SNAPPY"}),
        (ParquetCodec.ZSTD, {"hash": "SNAPPY", "number": "SNAPPY"}),
    ):
        _, stored = written(rows, codec)
        source = StoredParquet.of_bytes(memoryview(stored), path="memory")
        (group,) = source.footer.row_groups
        assert group.is_in_codec(Codec.SNAPPY) == (codec is ParquetCodec.SNAPPY)
        body = io.BytesIO()
        sink = SplicedSink(body, encoding)
        sink.copy(source, group)
        sink.finish({})
        copied = sink.metadata.row_group(0)
        found = {
            copied.column(number).path_in_schema: copied.column(number).compression
            for number in range(copied.num_columns)
        }
        assert expected.items() <= found.items()
        assert pq.read_table(pa.BufferReader(body.getvalue())).equals(rows)
