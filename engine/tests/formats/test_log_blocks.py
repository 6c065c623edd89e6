"""Frames of log blocks: made byte for byte as Hudi makes them, found again between damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.log_block import (
    MAGIC,
    BlockFrame,
    BlockKind,
    HeaderKey,
    encode_avro_content,
    encode_block,
    read_frames,
    rollback_command_block,
    split_avro_content,
)

INSTANT = {HeaderKey.INSTANT_TIME: "20250101000000000"}
MEBIBYTE = 1024 * 1024


def reader_of(body: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, length: body[offset : offset + length]


def frames_of(body: bytes) -> tuple[BlockFrame, ...]:
    return read_frames(reader_of(body), len(body))


def block(content: bytes) -> bytes:
    return encode_block(BlockKind.AVRO_DATA, INSTANT, content)


def contents(body: bytes) -> list[bytes]:
    return [
        body[frame.content_offset : frame.content_offset + frame.content_size_bytes]
        for frame in frames_of(body)
    ]


def test_a_rollback_command_has_the_bytes_hudi_writes() -> None:
    body = rollback_command_block("20250126040936578", "20250126040826878")
    assert len(body) == 105
    assert body[:14] == b"#HUDI#" + (91).to_bytes(8, "big")
    assert body[-8:] == (97).to_bytes(8, "big")
    (frame,) = frames_of(body)
    assert frame.is_rollback
    assert frame.headers[HeaderKey.TARGET_INSTANT_TIME] == "20250126040826878"


@given(st.lists(st.tuples(st.sampled_from(BlockKind), st.text(max_size=9), st.binary())))
def test_blocks_are_found_as_they_were_made(made: list[tuple[BlockKind, str, bytes]]) -> None:
    blocks = [encode_block(kind, {HeaderKey.SCHEMA: text}, content) for kind, text, content in made]
    body = b"".join(blocks)
    found = frames_of(body)
    assert [
        (frame.kind, frame.headers[HeaderKey.SCHEMA], content)
        for frame, content in zip(found, contents(body), strict=True)
    ] == made
    assert [frame.size_bytes for frame in found] == [len(item) for item in blocks]


def test_no_content_is_read_to_find_the_blocks() -> None:
    body = block(b"x" * 10 * MEBIBYTE) + block(b"y" * 10 * MEBIBYTE)
    read: list[int] = []

    def read_range(offset: int, length: int) -> bytes:
        read.append(length)
        return body[offset : offset + length]

    assert len(read_frames(read_range, len(body))) == 2
    assert sum(read) < MEBIBYTE


@pytest.mark.parametrize("kept", [1, 5, 6, 13, 14, 40, -1, -8, -9])
def test_a_last_block_cut_short_is_corrupt_and_the_others_are_not(kept: int) -> None:
    whole, last = block(b"one"), block(b"two")
    found = frames_of(whole + last[:kept])
    assert found[0].kind is BlockKind.AVRO_DATA
    # Less than a magic is left over from a write that came to nothing.
    assert [frame.kind for frame in found[1:]] == [BlockKind.CORRUPT] * (kept not in (1, 5))


@pytest.mark.parametrize("gap", [0, 1, 100, MEBIBYTE - 7, MEBIBYTE - 6, MEBIBYTE - 3, 3 * MEBIBYTE])
def test_after_a_damaged_block_reading_goes_on_at_the_next_magic(gap: int) -> None:
    body = block(b"one") + MAGIC + b"z" * gap + block(b"two")
    kinds = [frame.kind for frame in frames_of(body)]
    assert kinds == [BlockKind.AVRO_DATA, BlockKind.CORRUPT, BlockKind.AVRO_DATA]
    assert contents(body)[2] == b"two"
    assert sum(frame.size_bytes for frame in frames_of(body)) == len(body)


def test_a_block_whose_pointer_back_disagrees_is_corrupt() -> None:
    damaged = block(b"one")[:-1] + b"\xff"
    kinds = [frame.kind for frame in frames_of(damaged + block(b"two"))]
    assert kinds == [BlockKind.CORRUPT, BlockKind.AVRO_DATA]


def test_a_block_that_something_else_follows_is_corrupt() -> None:
    kinds = [frame.kind for frame in frames_of(block(b"one") + b"garbage" + block(b"two"))]
    assert kinds == [BlockKind.CORRUPT, BlockKind.AVRO_DATA]


def test_a_negative_or_enormous_size_is_a_damaged_block() -> None:
    for size in (-1, 0, 7, 2**62):
        body = MAGIC + size.to_bytes(8, "big", signed=True) + b"x" * 60
        assert [frame.kind for frame in frames_of(body)] == [BlockKind.CORRUPT]


@given(st.binary(max_size=80), st.integers(0, 60), st.integers(0, 255))
def test_damage_anywhere_is_found_or_named(content: bytes, place: int, byte: int) -> None:
    body = bytearray(block(content) + block(b"two"))
    body[place % len(body)] = byte
    try:
        found = frames_of(bytes(body))
    except (CorruptTableError, UnsupportedTableError):
        return
    assert sum(frame.size_bytes for frame in found) == len(body)


def test_a_file_that_is_no_log_is_refused_naming_it() -> None:
    with pytest.raises(CorruptTableError, match=r"does not begin with a block.*path=p/\.x\.log\.1"):
        read_frames(reader_of(b"PAR1PAR1"), 8, path="p/.x.log.1")


def test_an_empty_file_has_no_blocks() -> None:
    assert frames_of(b"") == ()


def test_other_format_versions_and_kinds_are_refused() -> None:
    body = block(b"one")
    with pytest.raises(UnsupportedTableError, match="format version"):
        frames_of(body[:14] + (2).to_bytes(4, "big") + body[18:])
    with pytest.raises(CorruptTableError, match="an unknown kind"):
        frames_of(body[:18] + (9).to_bytes(4, "big") + body[22:])


@given(st.lists(st.binary(max_size=20)))
def test_avro_contents_come_apart_as_they_were_joined(datums: list[bytes]) -> None:
    assert split_avro_content(encode_avro_content(datums)) == datums


@pytest.mark.parametrize("content", [b"", b"\0\0\0\3", b"\0\0\0\3\0\0\0\1", b"\0\0\0\3\0\0\0\0x"])
def test_avro_contents_that_do_not_add_up_are_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptTableError):
        split_avro_content(content, path="x")
