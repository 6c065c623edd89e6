"""Parquet files put together from row groups of others, held against a concatenation by pyarrow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.parquet.compact_protocol import Kind, decode_struct, encode_struct
from tideline.parquet.page_index import moved_page_index
from tideline.parquet.page_places import CopiedPages
from tideline.parquet.schema_nodes import schema_nodes
from tideline.parquet.spliced_file import SplicedFile, StoredParquet
from tideline.parquet.stored_footer import ColumnField, GroupField

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"}),
        pa.field("weight", pa.float64()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("when", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("sizes", pa.map_(pa.string(), pa.int32())),
        pa.field("place", pa.struct([("x", pa.float32()), ("names", pa.list_(pa.string()))])),
    ]
)
CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")

_texts = st.sampled_from(["", "a", "bb", "längere Zeichen", "x" * 300])
_rows = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | _texts,
        "weight": st.none() | st.floats(),
        "price": st.none() | st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n) / 100),
        "when": st.none() | st.integers(-(2**50), 2**50),
        "tags": st.none() | st.lists(st.none() | _texts, max_size=4),
        "sizes": st.none() | st.lists(st.tuples(_texts, st.none() | st.integers(0, 9)), max_size=3),
        "place": st.none()
        | st.fixed_dictionaries(
            {"x": st.none() | st.just(1.5), "names": st.none() | st.lists(_texts, max_size=2)}
        ),
    }
)


def stored(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **{"store_schema": False, **options})
    return sink.getvalue()


def opened(body: bytes) -> StoredParquet:
    return StoredParquet.of_bytes(memoryview(body), path="memory")


def spliced(bodies: Sequence[bytes]) -> bytes:
    """All row groups of all files in one."""
    sink = io.BytesIO()
    file = SplicedFile(sink, created_by="tideline version 1 (build 0)")
    for body in bodies:
        source = opened(body)
        for group in source.footer.row_groups:
            file.append(source, group)
    file.finish({"key": "value"})
    assert file.size_bytes == len(sink.getvalue())
    return sink.getvalue()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.lists(_rows, max_size=12), min_size=1, max_size=4),
    codec=st.sampled_from(CODECS),
    dictionary=st.booleans(),
    pages=st.sampled_from(["1.0", "2.0"]),
    group_rows=st.integers(1, 12),
    index=st.booleans(),
)
def test_rows_are_those_of_a_concatenation(
    parts: list[list[dict[str, Any]]],
    codec: str,
    dictionary: bool,
    pages: str,
    group_rows: int,
    index: bool,
) -> None:
    tables = [pa.Table.from_pylist(part, SCHEMA) for part in parts]
    bodies = [
        stored(
            table,
            compression=codec,
            use_dictionary=dictionary,
            data_page_version=pages,
            row_group_size=group_rows,
            write_page_index=index,
            write_page_checksum=True,
            data_page_size=64,
            write_batch_size=4,
        )
        for table in tables
    ]
    found = pq.ParquetFile(io.BytesIO(spliced(bodies)), page_checksum_verification=True)
    expected = pa.concat_tables(tables)
    # repr: NaN is no equal of itself.
    assert repr(found.read().to_pylist()) == repr(expected.to_pylist())
    assert found.schema_arrow.equals(pq.read_schema(io.BytesIO(bodies[0])), check_metadata=False)
    groups = [pq.ParquetFile(io.BytesIO(body)).metadata for body in bodies]
    wanted = [item.row_group(n) for item in groups for n in range(item.num_row_groups)]
    assert found.metadata.num_row_groups == len(wanted)
    for number, group in enumerate(wanted):
        copy = found.metadata.row_group(number)
        assert (copy.num_rows, copy.total_byte_size) == (group.num_rows, group.total_byte_size)
        for column in range(group.num_columns):
            assert copy.column(column).statistics == group.column(column).statistics
            assert copy.column(column).encodings == group.column(column).encodings
            has_index = group.column(column).has_offset_index
            assert copy.column(column).has_offset_index == has_index
            assert has_index is (index and group.num_rows > 0)


def test_page_indexes_and_bloom_filters_move_along() -> None:
    rows = pa.table({"id": pa.array(range(5000)), "text": [f"t{n % 97}" for n in range(5000)]})
    body = stored(
        rows,
        write_page_index=True,
        row_group_size=2500,
        data_page_size=1000,
        write_batch_size=100,
        bloom_filter_options={"text": {"ndv": 100, "fpp": 0.01}},
    )
    copy = spliced([body, body])
    source, found = opened(body), opened(copy)
    assert [group.rows for group in found.footer.row_groups] == [2500] * 4
    for number, group in enumerate(found.footer.row_groups):
        original = source.footer.row_groups[number % 2]
        for chunk, other in zip(group.chunks, original.chunks, strict=True):
            distance = chunk.start - other.start
            moved = moved_page_index(source.read, other, CopiedPages(distance))
            assert moved is not None and moved.column_index is not None
            assert moved == moved_page_index(found.read, chunk, CopiedPages(0))
            assert chunk.has_bloom_filter == other.has_bloom_filter
            assert found.read(chunk.start, chunk.size_bytes) == source.read(
                other.start, other.size_bytes
            )


def test_a_footer_that_nothing_changes_is_encoded_as_it_was() -> None:
    rows = pa.Table.from_pylist([{"id": 1, "text": "a", "sizes": [("k", 1)]}], SCHEMA)
    body = stored(rows, write_page_index=True)
    length = int.from_bytes(body[-8:-4], "little")
    footer = body[-8 - length : -8]
    assert encode_struct(decode_struct(footer)) == footer


def test_int96_and_dictionaries_of_arrow_are_copied() -> None:
    rows = pa.table(
        {
            "when": pa.array([0, None, 10**15], pa.timestamp("us")),
            "text": pa.array(["a", None, "a"]).dictionary_encode(),
        }
    )
    body = stored(rows, use_deprecated_int96_timestamps=True)
    found = pq.read_table(io.BytesIO(spliced([body, body])))
    plain = pq.read_table(io.BytesIO(body))
    assert found.equals(pa.concat_tables([plain, plain]))


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "2"})]),
        pa.schema([pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})]),
        pa.schema([pa.field("no", pa.int64(), metadata={"PARQUET:field_id": "1"})]),
        pa.schema([pa.field("id", pa.timestamp("us"), metadata={"PARQUET:field_id": "1"})]),
        pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})]),
    ],
    ids=["field id", "physical type", "name", "logical type", "repetition"],
)
def test_columns_that_differ_do_not_share_a_file(other: pa.Schema) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    first = stored(schema.empty_table().cast(schema), row_group_size=1)
    number_like = stored(pa.Table.from_arrays([pa.array([1], pa.int64())], schema=schema))
    second = stored(pa.Table.from_arrays([pa.array([1]).cast(other.field(0).type)], schema=other))
    assert schema_nodes(opened(first).footer) == schema_nodes(opened(number_like).footer)
    with pytest.raises(UnsupportedTableError, match="other columns"):
        spliced([number_like, second])


def test_pages_that_are_missing_are_a_broken_file() -> None:
    body = stored(pa.table({"id": pa.array(range(1000))}))
    source = opened(body)
    shortened = StoredParquet(
        lambda at, length: body[at : min(at + length, 50)], source.footer, source.nodes, "cut"
    )
    file = SplicedFile(io.BytesIO(), created_by="tideline")
    with pytest.raises(CorruptTableError, match="pages are missing") as raised:
        file.append(shortened, source.footer.row_groups[0])
    assert raised.value.path == "cut"


@pytest.mark.parametrize("magic", [b"PARE", b"ORC1"])
def test_what_is_encrypted_or_no_parquet_is_refused(magic: bytes) -> None:
    body = stored(pa.table({"id": [1]}))[:-4] + magic
    expected = UnsupportedTableError if magic == b"PARE" else CorruptTableError
    with pytest.raises(expected):
        opened(body)


SORTED = pq.SortingColumn(0)


def replaced(body: bytes, columns: bytes) -> bytes:
    """The row groups of a file, with other columns in the place of some of theirs."""
    sink = io.BytesIO()
    file = SplicedFile(sink, created_by="tideline")
    source = opened(body)
    for group in source.footer.row_groups:
        file.append(source, group, opened(columns))
    file.finish({})
    return sink.getvalue()


def test_the_order_of_rows_goes_with_columns_that_are_replaced() -> None:
    rows = pa.table({"id": pa.array([1, 2, 3]), "v": pa.array([1, 2, 3])})
    body = stored(rows, sorting_columns=[SORTED])
    (kept,) = opened(spliced([body])).footer.row_groups
    assert kept.struct.get(GroupField.SORTING) is not None
    copy = replaced(body, stored(pa.table({"id": pa.array([3, 1, 2])})))
    assert pq.read_table(io.BytesIO(copy)).column("id").to_pylist() == [3, 1, 2]
    (group,) = opened(copy).footer.row_groups
    assert group.struct.get(GroupField.SORTING) is None


def test_places_and_sizes_of_a_row_group_are_those_of_its_columns() -> None:
    rows = pa.table({"id": pa.array(range(1000)), "text": [f"t{n % 7}" for n in range(1000)]})
    body = stored(rows, row_group_size=500)
    columns = stored(pa.table({"text": [f"another text {n}" for n in range(500)]}))
    for copy in (spliced([body, body]), replaced(body, columns)):
        for number, group in enumerate(opened(copy).footer.row_groups):
            entry, chunks = group.struct, group.chunks
            found = [entry.get(field) for field in (GroupField.FILE_OFFSET, GroupField.ORDINAL)]
            assert found == [chunks[0].start, number]
            sizes = [entry.get(GroupField.COMPRESSED_BYTES), entry.get(GroupField.BYTES)]
            assert sizes == [
                sum(chunk.size_bytes for chunk in chunks),
                sum(chunk.uncompressed_bytes for chunk in chunks),
            ]


def with_bloom_filter(rows: int = 500) -> tuple[bytes, bytes]:
    """A file whose column has a bloom filter, and the filter's bytes."""
    table = pa.table({"text": [f"t{n}" for n in range(rows)]})
    body = stored(table, bloom_filter_options={"text": {"ndv": 500, "fpp": 0.01}})
    source = opened(body)
    metadata = source.footer.row_groups[0].chunks[0].metadata
    at = metadata.get(ColumnField.BLOOM_OFFSET)
    return body, source.read(at, metadata.get(ColumnField.BLOOM_BYTES))


def test_a_bloom_filter_is_where_the_footer_says() -> None:
    first, second = with_bloom_filter(500), with_bloom_filter(400)
    assert first[1] != second[1]
    copy = opened(spliced([first[0], second[0]]))
    for group, (_, bloom) in zip(copy.footer.row_groups, (first, second), strict=True):
        metadata = group.chunks[0].metadata
        at, length = metadata.get(ColumnField.BLOOM_OFFSET), metadata.get(ColumnField.BLOOM_BYTES)
        assert copy.read(at, length) == bloom


@pytest.mark.parametrize("field", [ColumnField.BLOOM_BYTES, ColumnField.BLOOM_OFFSET])
def test_of_a_bloom_filter_that_is_not_copied_nothing_is_said(field: ColumnField) -> None:
    """Older writers do not say how long theirs are."""
    body, _ = with_bloom_filter()
    source = opened(body)
    (group,) = source.footer.row_groups
    if field is ColumnField.BLOOM_BYTES:
        group.chunks[0].metadata.drop(field)
    else:
        # Beyond the end of the file.
        group.chunks[0].metadata.put(field, Kind.I64, 2 * len(body))
    sink = io.BytesIO()
    file = SplicedFile(sink, created_by="tideline")
    file.append(source, group)
    file.finish({})
    (found,) = opened(sink.getvalue()).footer.row_groups
    metadata = found.chunks[0].metadata
    assert metadata.get(ColumnField.BLOOM_OFFSET) is None
    assert metadata.get(ColumnField.BLOOM_BYTES) is None
