"""Changed copies of HFiles: as if the file had been written anew, at the price of the changes."""

from __future__ import annotations

import gzip
import random

import pytest

from tideline.errors import CorruptTableError, TidelineError
from tideline.formats.hfile import BLOCK_BYTES_MAX, decode_hfile, encode_hfile
from tideline.formats.hfile_lookup import HFileLookup
from tideline.formats.hfile_splice import splice_hfile

INFO = {"schema": b"s"}
BLOCK = 2048


def body_of(entries: dict[bytes, bytes], *, is_compressed: bool = True) -> bytes:
    pairs = sorted(entries.items())
    return encode_hfile(pairs, INFO, is_compressed=is_compressed, block_bytes_max=BLOCK)


def table(count: int) -> dict[bytes, bytes]:
    return {f"k{number:06}".encode(): b"v%d" % number * 5 for number in range(0, count * 2, 2)}


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_a_file_written_anew_would_be(seed: int) -> None:
    chance = random.Random(seed)
    entries = table(chance.choice((0, 1, 30, 2_000)))
    body = body_of(entries)
    for turn in range(4):
        touched = sorted(
            f"k{chance.randrange(4_100):06}".encode() for _ in range(chance.choice((0, 1, 9, 900)))
        )
        changes = {key: chance.choice((None, b"new%d" % turn)) for key in touched}
        entries |= {key: value for key, value in changes.items() if value is not None}
        for key in [key for key, value in changes.items() if value is None]:
            entries.pop(key, None)
        spliced = splice_hfile(body, tuple(sorted(changes.items())), block_bytes_max=BLOCK)
        assert spliced is not None
        body = spliced
        found = decode_hfile(body)
        assert dict(found.entries) == entries
        assert [key for key, _ in found.entries] == sorted(entries)
        assert found.info["schema"] == b"s"
        last = max(entries, default=b"")
        assert found.info["hfile.LASTKEY"][2:] == last
        lookup = HFileLookup(lambda at, size, body=body: body[at : at + size], len(body))  # type: ignore[misc]
        wanted = chance.sample(sorted(entries), min(20, len(entries)))
        assert dict(lookup.of_keys(wanted)) == {key: entries[key] for key in wanted}


def test_blocks_without_changes_are_copied_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of(table(5_000))
    decompressed: list[int] = []
    decompress = gzip.compress

    def counted(content: bytes, *rest: int, **named: int) -> bytes:
        decompressed.append(len(content))
        return decompress(content, *rest, **named)

    monkeypatch.setattr("tideline.formats.hfile.gzip.compress", counted)
    assert splice_hfile(body, ((b"k000005", b"x"),), block_bytes_max=BLOCK) is not None
    # The block of the key, the last one, the index, that of no meta blocks, and what is said.
    assert len(decompressed) <= 6


def test_a_file_of_another_form_is_left_to_be_decoded() -> None:
    body = body_of(table(500), is_compressed=False)
    assert splice_hfile(body, ((b"k000005", b"x"),), block_bytes_max=BLOCK_BYTES_MAX) is None


@pytest.mark.parametrize("seed", range(200))
def test_broken_files_are_refused_by_name(seed: int) -> None:
    chance = random.Random(seed)
    body = bytearray(body_of(table(600)))
    for _ in range(chance.choice((1, 1, 4, 60))):
        # In the indexes and the trailer: what lies in blocks that are copied is not looked at.
        body[chance.randrange(len(body) - 6_000, len(body))] = chance.randrange(256)
    try:
        splice_hfile(bytes(body), ((b"k000005", b"x"),), block_bytes_max=BLOCK, path="x.hfile")
    except TidelineError as error:
        assert isinstance(error, CorruptTableError) or "x.hfile" in str(error)
