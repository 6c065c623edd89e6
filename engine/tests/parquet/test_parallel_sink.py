"""Files whose columns threads encode, held against those that Arrow writes as a whole."""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tideline.errors import UnsupportedTableError
from tideline.parquet.encoding import BloomFilterSetting, ParquetCodec, ParquetEncoding
from tideline.parquet.parallel_sink import ParallelSink, sink_for
from tideline.parquet.sink import EncodedSink, ParquetSink, encoded_in_memory, file_of_copies

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"}),
        pa.field("weight", pa.float64()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([("x", pa.float32()), ("names", pa.list_(pa.string()))])),
        pa.field("flag", pa.bool_()),
    ]
)
TEXT = st.sampled_from(["", "a", "bb", "längere Zeichen", "x" * 300])
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | TEXT,
        "weight": st.none() | st.floats(),
        "price": st.none() | st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n) / 100),
        "tags": st.none() | st.lists(st.none() | TEXT, max_size=4),
        "place": st.none()
        | st.fixed_dictionaries(
            {"x": st.none() | st.just(1.5), "names": st.none() | st.lists(TEXT, max_size=2)}
        ),
        "flag": st.none() | st.booleans(),
    }
)
BLOOM = {"id": BloomFilterSetting(0.01, None), "text": BloomFilterSetting(0.01, 100)}


def parallel(stream: io.BytesIO, encoding: ParquetEncoding, threads: int) -> ParquetSink:
    return ParallelSink(stream, encoding, SCHEMA, threads=threads)


def written(sink: ParquetSink, stream: io.BytesIO, groups: Sequence[pa.Table]) -> pq.ParquetFile:
    for group in groups:
        sink.write(group)
    sink.finish({"key": "value"})
    assert sink.size_bytes == len(stream.getvalue())
    assert sink.metadata.num_rows == sum(group.num_rows for group in groups)
    return pq.ParquetFile(io.BytesIO(stream.getvalue()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.lists(ROW, max_size=12), min_size=1, max_size=3),
    codec=st.sampled_from(ParquetCodec),
    threads=st.integers(1, 4),
    hides_nan=st.booleans(),
    with_blooms=st.booleans(),
)
def test_a_file_has_the_rows_and_statistics_of_one_that_arrow_writes(
    parts: list[list[dict[str, Any]]],
    codec: ParquetCodec,
    threads: int,
    hides_nan: bool,
    with_blooms: bool,
) -> None:
    groups = [pa.Table.from_pylist(part, SCHEMA) for part in parts]
    encoding = ParquetEncoding(
        codec,
        hides_nan=hides_nan,
        unbounded=frozenset({"text"}) if hides_nan else frozenset(),
        uses_dictionaries=False,
        bloom_filters=BLOOM if with_blooms else {},
    )
    ours, whole = io.BytesIO(), io.BytesIO()
    found = written(parallel(ours, encoding, threads), ours, groups)
    expected = written(EncodedSink(whole, encoding), whole, groups)
    # repr: NaN is no equal of itself.
    assert repr(found.read().to_pylist()) == repr(expected.read().to_pylist())
    assert found.schema_arrow.equals(expected.schema_arrow, check_metadata=True)
    assert found.metadata.metadata == expected.metadata.metadata == {b"key": b"value"}
    assert found.metadata.num_row_groups == expected.metadata.num_row_groups
    for number in range(found.metadata.num_row_groups):
        own, other = found.metadata.row_group(number), expected.metadata.row_group(number)
        assert (own.num_rows, own.total_byte_size) == (other.num_rows, other.total_byte_size)
        for column in range(own.num_columns):
            mine, theirs = own.column(column), other.column(column)
            assert mine.is_stats_set == theirs.is_stats_set
            if mine.is_stats_set:
                assert repr(mine.statistics.to_dict()) == repr(theirs.statistics.to_dict())
            for name in ("compression", "encodings", "num_values", "total_compressed_size"):
                assert getattr(mine, name) == getattr(theirs, name)


def test_each_row_group_has_its_own_dictionaries_and_codecs() -> None:
    few = pa.table({"id": pa.array(range(5000), pa.int64()), "text": ["a", "b"] * 2500})
    many = few.set_column(1, "text", pa.array([f"{n:08d}" * 4 for n in range(5000)]))
    stream = io.BytesIO()
    sink = ParallelSink(stream, ParquetEncoding(ParquetCodec.ZSTD), few.schema, threads=2)
    file = written(sink, stream, [few, many])
    encodings = [file.metadata.row_group(n).column(1).encodings for n in range(2)]
    assert "RLE_DICTIONARY" in encodings[0] and "RLE_DICTIONARY" not in encodings[1]
    assert file.read().equals(pa.concat_tables([few, many]))


def test_other_readers_read_it(tmp_path: Any) -> None:
    rows = pa.table({f"c{n}": pa.array(range(n, n + 20_000)) for n in range(9)})
    path = tmp_path / "rows.parquet"
    with path.open("wb") as stream:
        encoding = ParquetEncoding(ParquetCodec.ZSTD)
        sink = ParallelSink(stream, encoding, rows.schema, threads=3)
        sink.write(rows.slice(0, 15_000))
        sink.write(rows.slice(15_000))
        sink.finish({})
    sums = ", ".join(f"sum({name})" for name in rows.column_names)
    found = duckdb.connect().execute(f"select {sums} from '{path}' where c3 >= 10").fetchall()
    assert found[0] == tuple(sum(range(n + 7, n + 20_000)) for n in range(9))


@pytest.mark.parametrize(
    ("processors", "rows", "columns", "kind"),
    [
        (4, 600_000, 2, ParallelSink),
        (1, 600_000, 2, EncodedSink),
        (4, 600_000, 1, EncodedSink),
        (4, 100, 2, EncodedSink),
    ],
)
def test_threads_are_for_large_row_groups_on_several_processors(
    monkeypatch: pytest.MonkeyPatch, processors: int, rows: int, columns: int, kind: type
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    first = pa.table({f"c{n}": pa.nulls(rows, pa.int64()) for n in range(columns)})
    large = first if columns > 1 else pa.table({"c": pa.nulls(2 * rows, pa.int64())})
    sink = sink_for(io.BytesIO(), ParquetEncoding(ParquetCodec.SNAPPY), large)
    assert type(sink) is kind
    sink.abandon()


def test_what_cannot_be_encoded_is_an_error_of_arrow() -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    sink = ParallelSink(io.BytesIO(), ParquetEncoding(ParquetCodec.ZSTD), schema, threads=2)
    rows = pa.table({"id": [1, 2], "n": pa.array([1, None])}, schema=schema)
    with pytest.raises(pa.ArrowInvalid, match="'n' is declared non-nullable"):
        sink.write(rows)
    sink.abandon()


def test_columns_of_other_files_or_rows_are_refused() -> None:
    encoding = ParquetEncoding(ParquetCodec.ZSTD)
    rows = pa.table({"a": [1, 2], "b": ["x", "y"]})
    whole = encoded_in_memory(rows.schema.empty_table(), encoding)
    first = encoded_in_memory(rows.select(["a"]), encoding)
    second = encoded_in_memory(rows.select(["b"]).slice(1), encoding)
    for parts in ((first,), (first, second), (second, first)):
        with pytest.raises(UnsupportedTableError, match="one row group"):
            file_of_copies(io.BytesIO(), whole).append_columns(parts)
