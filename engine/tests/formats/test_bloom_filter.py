"""Bloom filters: the same bytes as Hudi, on every path to them."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.formats.bloom import BloomFilter, BloomFilterType
from tideline.formats.stored_filter import BLOOM_FILTER_KEY
from tideline.testing.fixtures import fixture_table

KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=24)


class HudiBloomFilter:
    """Hudi's InternalDynamicBloomFilter, key by key, as its Java reads."""

    def __init__(self, bits: int, hashes: int, keys_per_row: int, max_entries: int) -> None:
        self.bits, self.hashes = bits, hashes
        self.keys_per_row, self.max_entries = keys_per_row, max_entries
        self.rows: list[set[int]] = [set()]
        self.in_row, self.turn, self.reached_max = 0, 0, False

    def add(self, key: str) -> None:
        self._active_row().update(self._positions(key.encode()))
        self.in_row += 1

    def _active_row(self) -> set[int]:
        if self.reached_max:
            self.turn += 1
            return self.rows[(self.turn - 1) % len(self.rows)]
        if self.in_row < self.keys_per_row:
            return self.rows[-1]
        if len(self.rows) * self.keys_per_row < self.max_entries:
            self.rows.append(set())
            self.in_row = 0
            return self.rows[-1]
        self.reached_max = True
        return self.rows[0]

    def _positions(self, data: bytes) -> list[int]:
        found, seed = [], 0
        for _ in range(self.hashes):
            seed = hadoop_murmur(data, seed)
            signed = seed - (1 << 32) if seed >> 31 else seed
            found.append(abs(signed) % self.bits)
        return found

    def to_base64(self) -> str:
        header = struct.pack(">iibi", -1, self.hashes, 1, self.bits)
        body = header + struct.pack(">iii", self.keys_per_row, self.in_row, len(self.rows))
        for row in self.rows:
            packed = bytearray((self.bits + 7) // 8)
            for position in row:
                packed[position >> 3] |= 1 << (position & 7)
            body += header + bytes(packed)
        return base64.b64encode(body).decode()


def hadoop_murmur(data: bytes, seed: int) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = seed ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    left = len(data) - whole
    if left:
        for distance in range(1, left + 1):
            signed = int.from_bytes(data[-distance:][:1], signed=True)
            h ^= signed << 8 * (distance - 1) & mask
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_the_default_size_is_that_of_hudi() -> None:
    bloom = BloomFilter.create()
    assert (bloom.bit_count, bloom.hash_count, bloom.row_count) == (2_587_966, 30, 1)
    assert len(base64.b64decode(bloom.to_base64())) == 323_534


@settings(deadline=None)
@given(st.lists(KEYS, max_size=60), st.integers(1, 12), st.integers(1, 40))
def test_bytes_equal_those_of_hudi_through_all_growth(
    keys: list[str], num_entries: int, max_entries: int
) -> None:
    bloom = BloomFilter.create(num_entries, 1e-3, max_entries)
    hudi = HudiBloomFilter(bloom.bit_count, bloom.hash_count, num_entries, max_entries)
    for key in keys:
        hudi.add(key)
    bloom.add_keys(keys)
    assert bloom.to_base64() == hudi.to_base64()
    assert bloom.might_contain(keys).all()


@settings(deadline=None)
@given(st.lists(st.lists(KEYS, max_size=12), max_size=6), st.integers(1, 8), st.integers(1, 30))
def test_a_stored_filter_goes_on_as_if_it_had_never_been_stored(
    batches: list[list[str]], num_entries: int, max_entries: int
) -> None:
    whole = BloomFilter.create(num_entries, 1e-3, max_entries)
    whole.add_keys([key for batch in batches for key in batch])
    resumed = BloomFilter.create(num_entries, 1e-3, max_entries)
    for batch in batches:
        resumed = BloomFilter.from_base64(resumed.to_base64(), max_entries=max_entries)
        resumed.add_keys(batch)
    assert resumed.to_base64() == whole.to_base64()


@pytest.mark.fixtures
@pytest.mark.parametrize(
    "table",
    [
        "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor",
        "hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned",
        "hudi-upgrade.unsupported-upgrade-tables.hudi-v5-table/data/hudi-v5-table",
        "hudi-trino.date_dim/data/date_dim",
    ],
)
def test_the_filter_of_a_real_file_is_reproduced_from_its_keys(table: str) -> None:
    files = [
        file for file in fixture_table(table).rglob("*.parquet") if ".hoodie" not in file.parts
    ]
    assert files
    for file in files:
        stored = pq.read_metadata(file).metadata[BLOOM_FILTER_KEY.encode()].decode()
        keys = pq.read_table(file, columns=["_hoodie_record_key"]).column(0)
        loaded = BloomFilter.from_base64(stored)
        assert loaded.might_contain(keys).all()
        assert loaded.to_base64() == stored
        rebuilt = BloomFilter(
            loaded.kind, loaded.bit_count, loaded.hash_count, loaded.keys_per_row, 100_000
        )
        rebuilt.add_keys(keys)
        assert rebuilt.to_base64() == stored


@pytest.mark.fixtures
def test_a_real_filter_of_more_than_one_row_finds_keys_of_both() -> None:
    (file,) = fixture_table("hudi-trino.date_dim/data/date_dim").rglob("*.parquet")
    loaded = BloomFilter.from_base64(
        pq.read_metadata(file).metadata[BLOOM_FILTER_KEY.encode()].decode()
    )
    assert loaded.row_count == 2


def test_absent_keys_are_recognised() -> None:
    bloom = BloomFilter.create()
    present = pa.array([f"key-{number}" for number in range(20_000)])
    bloom.add_keys(present)
    absent = [f"other-{number}" for number in range(20_000)]
    assert not bloom.might_contain(absent).any()
    mixed = bloom.might_contain(["other-1", "key-1", "é日", "key-19999", "key-20000"])
    assert mixed.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "bb", "日本"],
        np.array(["a", "bb", "日本"]),
        np.array(["a", "bb", "日本"], dtype=object),
        pa.array(["a", "bb", "日本"]),
        pa.array(["x", "a", "bb", "日本", "y"])[1:4],
        pa.array(["a", "bb", "日本"], pa.large_string()),
        pa.array(["a", "bb", "日本"], pa.string_view()),
        pa.array(["a", "bb", "日本"]).dictionary_encode(),
        pa.chunked_array([["a"], [], ["bb", "日本"]]),
    ],
    ids=lambda keys: str(getattr(keys, "type", type(keys).__name__)),
)
def test_any_form_of_keys_gives_the_same_filter(keys: object) -> None:
    bloom, expected = BloomFilter.create(100), BloomFilter.create(100)
    bloom.add_keys(keys)
    for key in ("a", "bb", "日本"):
        expected.add_keys([key])
    assert bloom.to_base64() == expected.to_base64()


@pytest.mark.parametrize("none", [[], pa.array([], pa.string()), pa.chunked_array([], pa.string())])
def test_no_keys_change_nothing(none: object) -> None:
    bloom = BloomFilter.create(10)
    bloom.add_keys(none)
    assert bloom.to_base64() == BloomFilter.create(10).to_base64()
    assert bloom.might_contain(none).tolist() == []
    assert bloom.might_contain(["a"]).tolist() == [False]


@pytest.mark.parametrize("keys", [["a", None], ["a", ""]])
def test_null_and_empty_keys_are_refused(keys: list[str | None]) -> None:
    bloom = BloomFilter.create(10)
    with pytest.raises(InvalidDataError):
        bloom.add_keys(keys)
    with pytest.raises(InvalidDataError):
        bloom.might_contain(keys)


def simple_filter(*keys: str) -> str:
    """What Hudi's SimpleBloomFilter stores: one row without the dynamic header."""
    bloom = BloomFilter.create(50, 1e-4)
    bloom.add_keys(list(keys))
    content = base64.b64decode(bloom.to_base64())
    return base64.b64encode(content[25:]).decode()


@pytest.mark.parametrize("kind", [BloomFilterType.SIMPLE, None])
def test_a_simple_filter_is_read_and_extended(kind: BloomFilterType | None) -> None:
    bloom = BloomFilter.from_base64(simple_filter("a", "b"), kind)
    assert bloom.kind is BloomFilterType.SIMPLE
    assert bloom.might_contain(["a", "b", "c"]).tolist() == [True, True, False]
    bloom.add_keys(["c"])
    assert bloom.to_base64() == simple_filter("a", "b", "c")


def test_broken_filters_are_corrupt() -> None:
    stored = base64.b64decode(BloomFilter.create(10).to_base64())
    broken = [stored[:length] for length in range(len(stored))]
    broken += [stored + b"\0", stored[:21] + struct.pack(">i", 0) + stored[25:]]
    for content in broken:
        with pytest.raises(CorruptTableError):
            BloomFilter.from_base64(base64.b64encode(content).decode(), BloomFilterType.DYNAMIC_V0)
    with pytest.raises(CorruptTableError):
        BloomFilter.from_base64("no base64 at all")


def test_another_hash_is_refused_by_name() -> None:
    stored = bytearray(base64.b64decode(BloomFilter.create(10).to_base64()))
    stored[8] = 0
    with pytest.raises(UnsupportedTableError, match="Murmur"):
        BloomFilter.from_base64(base64.b64encode(stored).decode())
