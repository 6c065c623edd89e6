"""The bloom filter in the footer of a base file, read without Arrow."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError
from tideline.formats.bloom import BloomFilter
from tideline.formats.parquet_footer import BaseFileFooter
from tideline.formats.stored_filter import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_TYPE_KEY,
    StoredFilter,
    read_stored_filter,
)


def read(body: bytes) -> StoredFilter | None:
    def read_range(offset: int, length: int) -> bytes:
        return body[offset : offset + length]

    return read_stored_filter(read_range, len(body), path="p0/f.parquet")


def base_file(entries: dict[str, str]) -> bytes:
    rows = pa.table({"id": ["a", "b"]})
    out = io.BytesIO()
    pq.write_table(rows.replace_schema_metadata(dict(entries)), out)
    return out.getvalue()


@pytest.mark.parametrize("keys", [10, 60_000], ids=["in the first request", "in a second one"])
def test_it_is_the_text_of_the_footer(keys: int) -> None:
    bloom = BloomFilter.create(keys)
    bloom.add_keys(["a", "b"])
    found = read(base_file(BaseFileFooter(bloom, "a", "b").to_metadata()))
    assert found == StoredFilter("DYNAMIC_V0", bloom.to_base64().encode())


@pytest.mark.parametrize(
    "entries", [{}, {BLOOM_FILTER_KEY: "AAAA"}, {BLOOM_FILTER_TYPE_KEY: "SIMPLE"}]
)
def test_a_footer_without_one_or_its_type_has_none(entries: dict[str, str]) -> None:
    assert read(base_file(entries)) is None


def test_what_is_no_parquet_file_is_refused() -> None:
    with pytest.raises(CorruptTableError, match="not a parquet file"):
        read(b"ORC" * 20)
