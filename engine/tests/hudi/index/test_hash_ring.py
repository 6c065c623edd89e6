"""CONSISTENT_HASHING rings, against values of the xxHash specification and of Hudi."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.hudi.index.hash_ring import HashRing, RingHash
from tideline.hudi.index.xx_hash import xxh32


def test_hashes_are_those_of_the_specification() -> None:
    known = {
        b"": 0x02CC5D05,
        b"a": 0x550D7456,
        b"abc": 0x32D153FF,
        b"Nobody inspects the spammish repetition": 0xE2293B2F,
    }
    assert xxh32(list(known)).tolist() == list(known.values())


@given(st.lists(st.binary(max_size=70), max_size=20))
def test_many_texts_hash_as_each_does(texts: list[bytes]) -> None:
    assert xxh32(texts).tolist() == [int(xxh32([text])[0]) for text in texts]


def test_the_first_ring_is_hudi_s() -> None:
    ring = HashRing.first("2024-01", 4)
    assert ring.values == (536870912, 1073741824, 1610612736, 2147483647)
    assert ring.prefixes == (
        "d2bbcce0-e7f8-3f67-8403-74fcb76a74df",
        "478cc09f-29bb-3604-a3ab-2c4f789716e8",
        "d0cbd773-a5d2-3025-80ac-fa3fbf71cc38",
        "0e6e0400-28f0-364b-9a68-1d58e849b794",
    )
    assert HashRing.parse(ring.encode(), path="") == ring


def test_a_hash_belongs_to_the_first_value_not_below_it() -> None:
    ring = HashRing("p", 2, (10, 20), ("a", "b"))
    assert [ring.bucket(value) for value in (0, 10, 11, 20, 21)] == [10, 10, 20, 20, 10]
    assert ring.prefix(20) == "b"


def test_values_of_composite_keys_are_hashed_joined() -> None:
    ring = HashRing.first("p", 1000)
    joined = RingHash({"p": ring}).bucket("p", "ab")
    assert RingHash({"p": ring}).bucket("p", "x:a,y:b") == joined
    assert RingHash({"p": ring}, ("x",)).bucket("p", "x:ab,y:c") == joined
    # Java joins null as a word.
    assert RingHash({"p": ring}).bucket("p", "x:__null__,y:b") == (
        RingHash({"p": ring}).bucket("p", "nullb")
    )


@pytest.mark.parametrize("nodes", [[], [{"value": 1}], [{"value": 1, "fileIdPrefix": "a"}] * 2])
def test_metadata_that_is_none_is_named(nodes: list[object]) -> None:
    body = json.dumps({"partitionPath": "p", "numBuckets": 1, "nodes": nodes}).encode()
    with pytest.raises(CorruptTableError) as caught:
        HashRing.parse(body, path="ring")
    assert caught.value.path == "ring"
