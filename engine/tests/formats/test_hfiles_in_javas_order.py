"""HFiles whose keys are in the order of Java's texts, as Hudi's writers sort them."""

from __future__ import annotations

import random
from itertools import pairwise
from unittest import mock

import pytest

from tideline.errors import CorruptTableError
from tideline.formats.hfile import HFileWriter, decode_hfile
from tideline.formats.hfile_lookup import HFileLookup
from tideline.formats.hfile_splice import splice_hfile
from tideline.formats.text_order import has_own_order_in_java, java_order

SIGNS = "a$é\ud7ff\ue000\uffee\U00010000\U0001f600"
"""Characters before, behind and among those that are two units in Java."""


def entries(seed: int, count: int = 400) -> dict[bytes, bytes]:
    chance = random.Random(seed)
    keys = {"".join(chance.choices(SIGNS, k=chance.randrange(1, 6))) for _ in range(count)}
    return {key.encode(): f"v{number}".encode() for number, key in enumerate(sorted(keys))}


def by_hudi(known: dict[bytes, bytes], block_bytes: int, *, is_compressed: bool = True) -> bytes:
    writer = HFileWriter(is_compressed=is_compressed, block_bytes_max=block_bytes)
    with mock.patch.object(HFileWriter, "_require_above"):
        for key in sorted(known, key=java_order):
            writer.add(key, known[key])
    return writer.finish({})


def opened(body: bytes) -> HFileLookup:
    return HFileLookup(lambda at, size: body[at : at + size], len(body))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block_bytes", [40, 300, 1 << 20])
def test_all_of_it_is_found(seed: int, block_bytes: int) -> None:
    known = entries(seed)
    body = by_hudi(known, block_bytes)
    assert [key for key, _ in decode_hfile(body).entries] == sorted(known)
    lookup = opened(body)
    assert dict(lookup.of_keys(list(known))) == known
    for key in random.Random(seed).sample(sorted(known), 60):
        assert list(lookup.of_keys([key, key + b"-"])) == [(key, known[key])]
    for prefix in {key.decode()[:2] for key in known}:
        wanted = {key for key in known if key.startswith(prefix.encode())}
        assert {key for key, _ in lookup.with_prefixes([prefix.encode()])} == wanted


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block_bytes", [300, 4000])
def test_a_changed_copy_has_each_key_once(seed: int, block_bytes: int) -> None:
    """Where blocks are copied the others are in the order of bytes."""
    chance = random.Random(seed)
    known = entries(seed) | {f"a{number:03}".encode(): b"plain" for number in range(60)}
    plain = [key for key in known if not has_own_order_in_java(key)]
    changed: dict[bytes, bytes | None] = dict.fromkeys(chance.sample(plain, 9), b"new")
    changed |= dict.fromkeys(chance.sample(plain, 5), None)
    if seed % 2:
        changed |= dict.fromkeys(chance.sample(sorted(known), 9), b"any")
    changes = sorted(changed.items())
    body = splice_hfile(by_hudi(known, block_bytes), changes, block_bytes_max=block_bytes)
    if body is None:
        return
    now = {key: value for key, value in {**known, **changed}.items() if value is not None}
    assert dict(opened(body).of_keys(list(now))) == now
    assert not list(opened(body).of_keys([key for key, value in changes if value is None]))


def test_copies_are_made_of_a_file_whose_blocks_begin_with_plain_keys() -> None:
    ends = ("", "\ue000", "\U00010000")
    known = {f"a{group:02}{end}".encode(): b"v" for group in range(20) for end in ends}
    size = 70
    body = by_hudi(known, size)
    assert set(opened(body).some_keys()) == {f"a00{end}".encode() for end in ends}
    spliced = splice_hfile(body, [(b"a05", b"new"), (b"a11", None)], block_bytes_max=size)
    assert spliced is not None
    now = {**known, b"a05": b"new"}
    del now[b"a11"]
    assert dict(opened(spliced).of_keys(list(known))) == now


def test_what_is_in_neither_order_is_corrupt() -> None:
    keys = [b"b", b"a", "\ue000".encode()]
    writer = HFileWriter()
    with mock.patch.object(HFileWriter, "_require_above"):
        for key in keys:
            writer.add(key, b"v")
    with pytest.raises(CorruptTableError, match="out of order"):
        decode_hfile(writer.finish({}))


def test_only_characters_behind_surrogates_have_an_order_of_their_own() -> None:
    texts = [sign.encode() for sign in SIGNS]
    assert [has_own_order_in_java(text) for text in texts] == [False] * 4 + [True] * 4
    for lower, upper in pairwise(texts):
        if not has_own_order_in_java(lower):
            assert (lower < upper) == (java_order(lower) < java_order(upper))
    assert java_order("\U00010000".encode()) < java_order("\ue000".encode())
