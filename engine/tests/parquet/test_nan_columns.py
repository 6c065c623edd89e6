"""Row groups with NaN have no bounds in the footer: readers order NaN differently."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.parquet.encoding import BloomFilterSetting, ParquetCodec, ParquetEncoding
from tideline.parquet.held_footer import HeldFooter
from tideline.parquet.nan_columns import bounded_leaves, leaves_with_nan
from tideline.parquet.page_index import bloom_filter
from tideline.parquet.sink import EncodedSink
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import ColumnField

NAN = float("nan")
NESTED = pa.struct([("f", pa.float64()), ("n", pa.int32())])


def batch(x: list[float | None], y: list[float | None]) -> pa.Table:
    columns = {
        "id": pa.array(range(len(x)), pa.int64()),
        "st": pa.array([{"f": 1.0, "n": 2}] * len(x), NESTED),
        "x": pa.array(x, pa.float64()),
        "y": pa.array(y, pa.float32()),
    }
    return pa.table(columns)


def test_only_the_columns_and_row_groups_with_nan_lose_their_bounds() -> None:
    groups = [
        batch([1.0, None, 2.0], [NAN, 1.0, None]),
        batch([1.0, NAN, None], [0.5, 1.0, None]),
        batch([NAN, NAN, NAN], [0.5, 1.0, None]),
    ]
    body = io.BytesIO()
    footer = HeldFooter(body)
    sink = pa.PythonFile(footer, mode="w")
    schema = groups[0].schema
    writer = pq.ParquetWriter(sink, schema, write_statistics=[*bounded_leaves(schema)])
    for group in groups:
        writer.write_table(group)
    footer.hold()
    writer.close()
    found = [(number, leaf) for number, item in enumerate(groups) for leaf in leaves_with_nan(item)]
    assert found == [(0, 4), (1, 3), (2, 3)]
    footer.release(found)
    assert footer.size_bytes == len(body.getvalue())

    stored = pq.ParquetFile(io.BytesIO(body.getvalue()))
    assert str(stored.read().to_pylist()) == str(pa.concat_tables(groups).to_pylist())
    by_column = {
        stored.metadata.row_group(0).column(leaf).path_in_schema: [
            stored.metadata.row_group(number).column(leaf).statistics for number in range(3)
        ]
        for leaf in range(5)
    }
    bounds = {
        name: [
            None if item is None or not item.has_min_max else (item.min, item.max) for item in all_
        ]
        for name, all_ in by_column.items()
    }
    assert bounds == {
        "id": [(0, 2)] * 3,
        "st.f": [None] * 3,
        "st.n": [(2, 2)] * 3,
        "x": [(1.0, 2.0), None, None],
        "y": [None, (0.5, 1.0), (0.5, 1.0)],
    }
    assert [item.null_count for item in by_column["x"]] == [1, 1, 0]


def test_a_footer_without_nan_is_written_as_it_came() -> None:
    table = batch([1.0], [1.0])
    expected = io.BytesIO()
    pq.write_table(table, expected)
    body = io.BytesIO()
    footer = HeldFooter(body)
    writer = pq.ParquetWriter(pa.PythonFile(footer, mode="w"), table.schema)
    writer.write_table(table)
    footer.hold()
    writer.close()
    footer.release([(0, leaf) for leaf in leaves_with_nan(table)])
    assert body.getvalue() == expected.getvalue()


def test_bloom_filters_stay_beside_columns_without_bounds() -> None:
    blooms = {"id": BloomFilterSetting(0.01, None), "x": BloomFilterSetting(0.01, None)}
    encoding = ParquetEncoding(ParquetCodec.ZSTD, hides_nan=True, bloom_filters=blooms)
    rows = batch([1.0, NAN, None], [0.5, 1.0, None])
    body = io.BytesIO()
    sink = EncodedSink(body, encoding)
    sink.write(rows)
    sink.finish({"key": "value"})
    assert sink.size_bytes == len(body.getvalue())
    stored = pq.ParquetFile(io.BytesIO(body.getvalue()))
    assert str(stored.read().to_pylist()) == str(rows.to_pylist())
    assert not stored.metadata.row_group(0).column(3).statistics.has_min_max
    found = StoredParquet.of_bytes(memoryview(body.getvalue()), path="memory")
    (group,) = found.footer.row_groups
    lengths = [chunk.metadata.get(ColumnField.BLOOM_BYTES) for chunk in group.chunks]
    assert [length is not None for length in lengths] == [True, False, False, True, False]
    for chunk in group.chunks:
        if chunk.metadata.get(ColumnField.BLOOM_BYTES) is not None:
            assert bloom_filter(found.read, chunk)
