"""HFiles: what Hudi and HBase wrote is read, what is written reads back, broken bytes are named."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.formats.hfile import HFile, decode_hfile, encode_hfile
from tideline.testing.fixtures import fixture_table, require_fixtures, tables_of_versions

ENTRIES = st.dictionaries(st.binary(max_size=40), st.binary(max_size=300), max_size=60).map(
    lambda found: tuple(sorted(found.items()))
)
SOME = tuple((f"key {number:03d}".encode(), b"value" * number) for number in range(50))


def hfiles(version: str) -> list[Path]:
    """Base files of metadata tables of this version."""
    folders = (
        Path(fixture_table(path)) / ".hoodie/metadata" for path in tables_of_versions(version)
    )
    return [file for folder in folders for file in sorted(folder.rglob("*.hfile"))]


@pytest.mark.fixtures
@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_metadata_tables_of_others_are_read(version: str) -> None:
    require_fixtures()
    files = hfiles(version)
    assert files
    keys = set()
    for file in files:
        found = decode_hfile(file.read_bytes(), path=file)
        assert b"HoodieMetadataRecord" in found.info["schema"]
        keys |= {key for key, _ in found.entries}
        again = decode_hfile(encode_hfile(found.entries, found.info))
        assert again.entries == found.entries
        assert again.info["schema"] == found.info["schema"]
        assert again.info["hfile.LASTKEY"][2:] == (found.entries[-1][0] if found.entries else b"")
    assert b"__all_partitions__" in keys


@given(ENTRIES, st.booleans(), st.sampled_from([1, 100, 1_000_000]))
def test_what_is_written_reads_back(
    entries: tuple[tuple[bytes, bytes], ...], is_compressed: bool, block_bytes_max: int
) -> None:
    body = encode_hfile(
        entries, {"schema": b"{}"}, is_compressed=is_compressed, block_bytes_max=block_bytes_max
    )
    found = decode_hfile(body)
    assert found.entries == entries
    assert found.info["schema"] == b"{}"


def test_an_empty_body_has_no_entries() -> None:
    assert decode_hfile(b"") == HFile()


@pytest.mark.parametrize("keys", [(b"b", b"a"), (b"a", b"a")])
def test_keys_ascend(keys: tuple[bytes, ...]) -> None:
    with pytest.raises(InvalidDataError, match="must ascend"):
        encode_hfile([(key, b"") for key in keys], {})


def test_keys_out_of_order_are_corrupt() -> None:
    body = encode_hfile([(b"a", b"1"), (b"b", b"2")], {}, is_compressed=False)
    with pytest.raises(CorruptTableError, match="out of order"):
        decode_hfile(body.replace(b"\x00\x01a", b"\x00\x01c", 1))


def test_another_version_is_refused_by_name() -> None:
    body = encode_hfile(SOME, {})
    with pytest.raises(UnsupportedTableError, match="another version"):
        decode_hfile(body[:-1] + b"\x02", path="x.hfile")


@given(st.integers(0, 2**32), st.integers(1, 255), st.booleans())
def test_broken_bytes_are_corrupt_or_go_unnoticed(
    at: int, change: int, is_compressed: bool
) -> None:
    """There are no checksums: a changed value may be another value, but nothing else happens."""
    body = bytearray(encode_hfile(SOME, {"schema": b"{}"}, is_compressed=is_compressed))
    body[at % len(body)] ^= change
    try:
        decode_hfile(bytes(body), path="x.hfile")
    except (CorruptTableError, UnsupportedTableError) as error:
        assert error.path == "x.hfile"


@given(st.integers(1, 6_000))
def test_a_file_that_is_cut_short_is_corrupt(length: int) -> None:
    body = encode_hfile(SOME, {})
    with pytest.raises(CorruptTableError):
        decode_hfile(body[: min(length, len(body) - 1)])


def found_by_index(body: bytes, key: bytes) -> bytes | None:
    """The value of a key in a file that is not compressed, as readers look it up: the last block
    whose first key in the index is not greater, then that block from its start."""
    at = body.index(b"IDXROOT2")
    (_, _, size_bytes, _, _, _, _) = struct.unpack_from(">8siiqbii", body, at)
    index, position = body[at + 33 : at + 33 + size_bytes], 0
    blocks: list[tuple[bytes, int, int]] = []
    while position < len(index):
        block_at, block_bytes, _, key_bytes = struct.unpack_from(">qibh", index, position)
        position += 15
        blocks.append((index[position : position + key_bytes], block_at, block_bytes))
        position += key_bytes
    assert [first for first, _, _ in blocks] == sorted(first for first, _, _ in blocks)
    before = [block for block in blocks if block[0] <= key]
    if not before:
        return None
    _, block_at, block_bytes = before[-1]
    entry = body.find(struct.pack(">h", len(key)) + key, block_at + 33, block_at + block_bytes)
    if entry < 0:
        return None
    field_bytes, value_bytes = struct.unpack_from(">ii", body, entry - 8)
    return body[entry + field_bytes : entry + field_bytes + value_bytes]


@pytest.mark.parametrize("block_bytes_max", [1, 100, 1_000, 1_000_000])
def test_every_key_is_found_by_the_first_keys_of_the_index(block_bytes_max: int) -> None:
    body = encode_hfile(SOME, {}, is_compressed=False, block_bytes_max=block_bytes_max)
    assert [found_by_index(body, key) for key, _ in SOME] == [value for _, value in SOME]
    assert found_by_index(body, b"key 0005") is None


def test_a_file_without_keys_says_the_length_of_its_last_key() -> None:
    """HBase's reader, that of Hudi up to 1.0, reads a length there."""
    assert decode_hfile(encode_hfile((), {})).info["hfile.LASTKEY"] == b"\0\0"
