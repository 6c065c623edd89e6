"""Row groups whose pages are recompressed: rows, statistics and indexes stay what they were."""

from __future__ import annotations

import io
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.parquet.compact_protocol import Kind, decode_struct, encode_struct
from tideline.parquet.page_index import moved_page_index
from tideline.parquet.page_places import CopiedPages
from tideline.parquet.page_transcoder import PageTranscoder
from tideline.parquet.spliced_file import SplicedFile, StoredParquet
from tideline.parquet.stored_footer import ChunkField, Codec, ColumnField
from tideline.parquet.stored_page import PageField, stored_pages

CODECS = {
    "none": Codec.UNCOMPRESSED,
    "snappy": Codec.SNAPPY,
    "gzip": Codec.GZIP,
    "brotli": Codec.BROTLI,
    "zstd": Codec.ZSTD,
    "lz4": Codec.LZ4_RAW,
}


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"}),
        pa.field("weight", pa.float64()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([("x", pa.float32()), ("names", pa.list_(pa.string()))])),
        pa.field("nothing", pa.int32()),
    ]
)
TEXTS = ("", "a", "bb", "längere Zeichen", "x" * 300)


def made(rows: int, seed: int) -> pa.Table:
    """Rows with nulls, empty lists, and a column of nulls alone."""
    random = Random(seed)

    def row() -> dict[str, Any]:
        texts = [random.choice([None, *TEXTS]) for _ in range(random.randrange(4))]
        return {
            "id": random.randrange(-(2**63), 2**63),
            "text": random.choice([None, *TEXTS]),
            "weight": random.choice([None, random.random(), float("nan"), float("inf")]),
            "price": random.choice([None, Decimal(random.randrange(10**9)) / 100]),
            "tags": random.choice([None, [], texts]),
            "place": random.choice([None, {"x": None, "names": texts}, {"x": 1.5, "names": None}]),
        }

    return pa.Table.from_pylist([row() for _ in range(rows)], SCHEMA)


def stored(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **{"store_schema": False, **options})
    return sink.getvalue()


def opened(body: bytes) -> StoredParquet:
    return StoredParquet.of_bytes(memoryview(body), path="memory")


def transcoded(body: bytes, codec: Codec, *, level: int | None = None, threads: int = 1) -> bytes:
    sink = io.BytesIO()
    file = SplicedFile(sink, created_by="tideline version 1 (build 0)")
    transcoder = PageTranscoder(codec, level, threads=threads)
    source = opened(body)
    for group in source.footer.row_groups:
        file.append(source, group, transcoder=transcoder)
    file.finish({})
    assert file.size_bytes == len(sink.getvalue())
    return sink.getvalue()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.integers(1, 30),
    seed=st.integers(0, 2**32),
    old=st.sampled_from(sorted(CODECS)),
    new=st.sampled_from(sorted(CODECS)),
    dictionary=st.booleans(),
    pages=st.sampled_from(["1.0", "2.0"]),
    index=st.booleans(),
    checksum=st.booleans(),
    threads=st.sampled_from([1, 2]),
)
def test_rows_and_statistics_stay(
    rows: int,
    seed: int,
    old: str,
    new: str,
    dictionary: bool,
    pages: str,
    index: bool,
    checksum: bool,
    threads: int,
) -> None:
    table = made(rows, seed)
    options: dict[str, Any] = {
        "use_dictionary": dictionary,
        "data_page_version": pages,
        "row_group_size": 11,
        "write_page_index": index,
        "write_page_checksum": checksum,
        "data_page_size": 64,
        "write_batch_size": 4,
    }
    body = stored(table, compression=old, **options)
    anew = transcoded(body, CODECS[new], threads=threads)
    found = pq.ParquetFile(io.BytesIO(anew), page_checksum_verification=True)
    # repr: NaN is no equal of itself.
    assert repr(found.read().to_pylist()) == repr(table.to_pylist())
    before = pq.ParquetFile(io.BytesIO(body)).metadata
    as_written = pq.ParquetFile(io.BytesIO(stored(table, compression=new, **options))).metadata
    for number in range(before.num_row_groups):
        group, other = found.metadata.row_group(number), before.row_group(number)
        assert group.num_rows == other.num_rows
        chunks = [group.column(n) for n in range(group.num_columns)]
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        for column, chunk in enumerate(chunks):
            expected = as_written.row_group(number).column(column)
            assert chunk.compression == expected.compression
            assert chunk.statistics == other.column(column).statistics
            assert chunk.encodings == other.column(column).encodings
            assert chunk.has_offset_index is index
            assert chunk.total_compressed_size == expected.total_compressed_size
            assert chunk.total_uncompressed_size == expected.total_uncompressed_size
    check_indexes(opened(anew))


def check_indexes(source: StoredParquet) -> None:
    """Every place that a footer or an index names is one where a page begins, of that size."""
    for group in source.footer.row_groups:
        for chunk in group.chunks:
            body = source.read(chunk.start, chunk.size_bytes)
            pages = {page.at: page for page in stored_pages(chunk, body, path="memory")}
            assert chunk.metadata.get(ColumnField.DATA_PAGE) in pages
            if chunk.metadata.get(ColumnField.DICTIONARY_PAGE):
                assert chunk.metadata.get(ColumnField.DICTIONARY_PAGE) in pages
            sizes = [page.header_bytes + page.uncompressed_bytes for page in pages.values()]
            assert chunk.uncompressed_bytes == sum(sizes)
            index = moved_page_index(source.read, chunk, CopiedPages(0))
            if index is None:
                assert not chunk.struct.get(ChunkField.OFFSET_INDEX_OFFSET)
                continue
            for place in decode_struct(index.offset_index).get(1).items:
                page = pages[place.get(1)]
                assert place.get(2) == page.header_bytes + len(page.body)


def test_bloom_filters_and_columns_of_the_codec_are_copied() -> None:
    rows = pa.table({"id": pa.array(range(5000)), "text": [f"t{n % 97}" for n in range(5000)]})
    body = stored(
        rows,
        compression={"id": "snappy", "text": "zstd"},
        bloom_filter_options={"id": {"ndv": 5000, "fpp": 0.01}},
    )
    source, found = opened(body), opened(transcoded(body, Codec.ZSTD))
    (old,), (new,) = source.footer.row_groups, found.footer.row_groups
    assert [chunk.codec for chunk in new.chunks] == [Codec.ZSTD, Codec.ZSTD]
    assert found.read(new.chunks[1].start, new.chunks[1].size_bytes) == source.read(
        old.chunks[1].start, old.chunks[1].size_bytes
    )
    assert new.chunks[0].has_bloom_filter
    assert pq.read_table(io.BytesIO(transcoded(body, Codec.ZSTD))).equals(rows)


def test_threads_give_the_same_bytes() -> None:
    rows = pa.table({"id": pa.array(range(300_000)), "text": [f"t{n}" for n in range(300_000)]})
    body = stored(rows, compression="snappy", use_dictionary=False, data_page_size=10_000)
    assert transcoded(body, Codec.ZSTD, threads=3) == transcoded(body, Codec.ZSTD)
    low, high = (transcoded(body, Codec.ZSTD, level=level) for level in (1, 12))
    assert len(low) != len(high)


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize("threads", [1, 2])
def test_a_page_that_is_too_short_is_a_broken_file(codec: str, threads: int) -> None:
    """Its header announces more than its bytes become."""
    rows = pa.table({"id": pa.array(range(1000))})
    body = stored(rows, compression=codec, use_dictionary=False)
    damaged, source = bytearray(body), opened(body)
    chunk = source.footer.row_groups[0].chunks[0]
    (page,) = stored_pages(chunk, source.read(chunk.start, chunk.size_bytes), path="memory")
    header = page.header.copy()
    # Two bytes of a number of the same length: 8000-odd becomes 8001-odd.
    header.put(PageField.UNCOMPRESSED_BYTES, Kind.I32, page.uncompressed_bytes + 1)
    encoded = encode_struct(header)
    assert len(encoded) == page.header_bytes
    damaged[page.at : page.at + page.header_bytes] = encoded
    struct = source.footer.row_groups[0].chunks[0].metadata
    struct.put(ColumnField.UNCOMPRESSED_BYTES, Kind.I64, chunk.uncompressed_bytes + 1)
    broken = StoredParquet(
        lambda at, length: bytes(damaged[at : at + length]), source.footer, source.nodes, "cut"
    )
    target = Codec.SNAPPY if codec != "snappy" else Codec.ZSTD
    file = SplicedFile(io.BytesIO(), created_by="tideline")
    with pytest.raises(CorruptTableError) as raised:
        file.append(
            broken,
            source.footer.row_groups[0],
            transcoder=PageTranscoder(target, None, threads=threads),
        )
    assert raised.value.path == "cut"


def test_a_page_that_does_not_fit_its_checksum_is_a_broken_file() -> None:
    rows = pa.table({"id": pa.array(range(1000))})
    body = bytearray(stored(rows, compression="none", write_page_checksum=True))
    chunk = opened(bytes(body)).footer.row_groups[0].chunks[0]
    body[chunk.start + chunk.size_bytes - 1] ^= 1
    with pytest.raises(CorruptTableError, match="checksum") as raised:
        transcoded(bytes(body), Codec.ZSTD)
    assert raised.value.path == "memory"


def test_pages_that_do_not_end_with_their_column_are_a_broken_file() -> None:
    rows = pa.table({"id": pa.array(range(1000)), "more": pa.array(range(1000))})
    source = opened(stored(rows, compression="snappy"))
    (group,) = source.footer.row_groups
    metadata = group.chunks[0].metadata
    metadata.put(ColumnField.COMPRESSED_BYTES, Kind.I64, group.chunks[0].size_bytes - 1)
    file = SplicedFile(io.BytesIO(), created_by="tideline")
    with pytest.raises(CorruptTableError):
        file.append(source, group, transcoder=PageTranscoder(Codec.ZSTD, None))
