"""Keys are looked up in HFiles with few requests, and what lies in them is not believed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tideline.errors import CorruptTableError, TidelineError
from tideline.formats.hfile import decode_hfile, encode_hfile
from tideline.formats.hfile_lookup import HFileLookup

ENTRIES = [(f"{number % 7}-{number:06}".encode(), b"v" * (number % 90)) for number in range(9_000)]
ENTRIES.sort()
KNOWN = dict(ENTRIES)


def body_of(entries: list[tuple[bytes, bytes]] = ENTRIES, block_bytes: int = 4096) -> bytes:
    return encode_hfile(entries, {"schema": b"s"}, is_compressed=False, block_bytes_max=block_bytes)


def opened(body: bytes) -> tuple[HFileLookup, list[tuple[int, int]]]:
    """A lookup in a file, and the requests that it makes."""
    requests: list[tuple[int, int]] = []

    def read_range(offset: int, length: int) -> bytes:
        requests.append((offset, length))
        return body[offset : offset + length]

    return HFileLookup(read_range, len(body), path="x.hfile"), requests


def test_every_key_is_found_in_its_block() -> None:
    lookup, requests = opened(body_of())
    assert lookup.info["schema"] == b"s"
    assert len(requests) == 1
    for key, value in random.Random(1).sample(ENTRIES, 300):
        requests.clear()
        assert list(lookup.of_keys([key])) == [(key, value)]
        assert len(requests) == 1
        assert requests[0][1] < 5_000


def test_many_keys_take_a_request_where_their_blocks_are_neighbours() -> None:
    lookup, requests = opened(body_of())
    wanted = [key for key, _ in ENTRIES[100:900]]
    requests.clear()
    assert [key for key, _ in lookup.of_keys(wanted)] == wanted
    assert len(requests) == 1


def test_keys_that_are_not_there_are_not_found() -> None:
    lookup, requests = opened(body_of())
    requests.clear()
    assert not list(lookup.of_keys([b"", b"9", b"3-000001x", b"\xff"]))
    assert len(requests) <= 2


@pytest.mark.parametrize("prefix", [b"0-", b"3-", b"3-00", b"6-008", b"6-008999", b"7", b""])
def test_all_keys_with_a_prefix_are_found(prefix: bytes) -> None:
    lookup, _ = opened(body_of(block_bytes=512))
    found = list(lookup.with_prefixes([prefix]))
    assert found == [entry for entry in ENTRIES if entry[0].startswith(prefix)]


def test_a_large_index_takes_one_more_request() -> None:
    many = [(f"{number:09}".encode() * 4, b"value") for number in range(60_000)]
    lookup, requests = opened(body_of(many, block_bytes=512))
    assert len(requests) == 2
    assert list(lookup.of_keys([many[77][0]])) == [many[77]]


@pytest.mark.parametrize("count", [0, 1])
def test_small_files(count: int) -> None:
    lookup, _ = opened(body_of(ENTRIES[:count]))
    assert list(lookup.of_keys([ENTRIES[0][0]])) == ENTRIES[:count]
    assert list(lookup.with_prefixes([b""])) == ENTRIES[:count]


def broken(change: Callable[[bytearray, random.Random], None], seed: int) -> bytes:
    body = bytearray(body_of(ENTRIES[:400], block_bytes=1024))
    change(body, random.Random(seed))
    return bytes(body)


def flip(body: bytearray, chance: random.Random) -> None:
    for _ in range(3):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def cut(body: bytearray, chance: random.Random) -> None:
    del body[chance.randrange(len(body)) :]


@pytest.mark.parametrize("change", [flip, cut])
def test_a_file_that_lies_raises_or_has_what_is_in_it(
    change: Callable[[bytearray, random.Random], None],
) -> None:
    for seed in range(400):
        body = broken(change, seed)
        try:
            lookup, _ = opened(body)
            list(lookup.of_keys([key for key, _ in ENTRIES[:400:7]]))
            list(lookup.with_prefixes([b"0-"]))
        except TidelineError as error:
            assert error.path == "x.hfile" or "HFile" in str(error)


def test_what_is_no_hfile_is_refused_with_its_path() -> None:
    with pytest.raises(CorruptTableError, match=r"x\.hfile"):
        opened(b"no hfile")


def test_it_finds_what_a_whole_read_finds_in_compressed_files() -> None:
    body = encode_hfile(ENTRIES, {}, block_bytes_max=2048)
    lookup, _ = opened(body)
    assert tuple(lookup.with_prefixes([b""])) == decode_hfile(body).entries


def test_a_key_that_another_one_ends_with_is_not_taken_for_it() -> None:
    """Nor one that has in it all that stands in front of an entry."""
    tail = b"\0" + (2**63 - 1).to_bytes(8, "big") + b"\x04"
    crafted = [b"\0\0\0\x0e\0\0\0\1\0\2k1", b"\0\2k1", b"k", b"k1" + tail + b"x", b"xk1"]
    entries = sorted((key, b"of " + key) for key in crafted)
    lookup, _ = opened(body_of(entries))
    assert list(lookup.of_keys([b"k1"])) == []
    for key in crafted:
        assert list(lookup.of_keys([key])) == [(key, b"of " + key)]
    lookup, _ = opened(body_of(sorted([*entries, (b"k1", b"right")])))
    assert list(lookup.of_keys([b"k1"])) == [(b"k1", b"right")]
