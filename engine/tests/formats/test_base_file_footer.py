"""What Hudi keeps in the footer of a base file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.bloom import BloomFilter
from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.formats.stored_filter import BLOOM_FILTER_KEY, BLOOM_FILTER_TYPE_KEY
from tideline.testing.fixtures import fixture_table

V6_MOR = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
NO_META_FIELDS = (
    "hudi-rs.cow.v6_simplekeygen_hivestyle_no_metafields/"
    "data/v6_simplekeygen_hivestyle_no_metafields"
)


def footer_with(metadata: dict[str, str], file: Path) -> BaseFileFooter:
    with pq.ParquetWriter(file, pa.schema([("a", pa.int32())])) as writer:
        writer.add_key_value_metadata(metadata)
    return read_footer(str(file))


def test_a_written_footer_reads_back(tmp_path: Path) -> None:
    bloom = BloomFilter.create(10)
    bloom.add_keys(["a", "é"])
    metadata = BaseFileFooter(bloom, "a", "é").to_metadata()
    assert metadata[BLOOM_FILTER_TYPE_KEY] == "DYNAMIC_V0"
    footer = footer_with(metadata, tmp_path / "f.parquet")
    assert (footer.min_key, footer.max_key) == ("a", "é")
    assert footer.bloom is not None
    assert footer.bloom.to_base64() == bloom.to_base64()


def test_a_footer_without_entries_is_empty(tmp_path: Path) -> None:
    assert footer_with({"other": "entry"}, tmp_path / "f.parquet") == BaseFileFooter()
    assert BaseFileFooter().to_metadata() == {}
    assert BaseFileFooter.from_metadata(None) == BaseFileFooter()


@pytest.mark.fixtures
def test_the_range_of_a_real_file_is_that_of_its_keys() -> None:
    (file,) = fixture_table(V6_MOR).glob("2023-01-01/*_20250922132203239.parquet")
    footer = read_footer(pq.read_metadata(file))
    keys = pq.read_table(file, columns=["_hoodie_record_key"]).column(0).to_pylist()
    assert (footer.min_key, footer.max_key) == (min(keys), max(keys))
    assert footer.bloom is not None
    assert footer.bloom.might_contain(keys).all()


@pytest.mark.fixtures
def test_files_without_meta_fields_have_no_entries() -> None:
    file = next(fixture_table(NO_META_FIELDS).glob("*/*.parquet"))
    with file.open("rb") as stream:
        assert read_footer(stream) == BaseFileFooter()


def test_a_filter_without_type_code_is_still_read(tmp_path: Path) -> None:
    bloom = BloomFilter.create(10)
    metadata = {BLOOM_FILTER_KEY: bloom.to_base64()}
    footer = footer_with(metadata, tmp_path / "f.parquet")
    assert footer.bloom is not None
    assert footer.bloom.to_base64() == bloom.to_base64()


def test_an_unknown_type_code_is_refused_by_name(tmp_path: Path) -> None:
    metadata = {BLOOM_FILTER_KEY: "AAAA", BLOOM_FILTER_TYPE_KEY: "CUCKOO"}
    with pytest.raises(UnsupportedTableError, match="CUCKOO") as refused:
        footer_with(metadata, tmp_path / "f.parquet")
    assert refused.value.path == str(tmp_path / "f.parquet")


def test_a_broken_filter_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(CorruptTableError) as corrupt:
        footer_with({BLOOM_FILTER_KEY: "AAAA"}, tmp_path / "f.parquet")
    assert corrupt.value.path == str(tmp_path / "f.parquet")


BROKEN_FOOTER = b"PAR1" + b"\xff" * 40 + (40).to_bytes(4, "little") + b"PAR1"


def with_undecodable_column_name() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a_column": ["x"]}), sink, store_schema=False)
    written: bytes = sink.getvalue().to_pybytes()
    return written.replace(b"a_column", b"\xff" * 8)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptTableError, match="missing") as corrupt:
        read_footer(str(tmp_path / "f.parquet"))
    assert corrupt.value.path == str(tmp_path / "f.parquet")


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1 no parquet PAR1", BROKEN_FOOTER, with_undecodable_column_name()],
)
def test_what_is_no_parquet_is_corrupt_and_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(content)
    with pytest.raises(CorruptTableError) as corrupt, (tmp_path / "f.parquet").open("rb") as stream:
        read_footer(stream, path="p/f.parquet")
    assert corrupt.value.path == "p/f.parquet"
