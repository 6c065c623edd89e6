"""HFiles made of columns are those that are made entry by entry."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.formats.hfile import HFileWriter, decode_hfile, encode_hfile
from tideline.formats.hfile_columns import encode_hfile_columns
from tideline.formats.hfile_lookup import HFileLookup

INFO = {"schema": b"{}"}


def keys_of(count: int, seed: int) -> list[bytes]:
    chosen = random.Random(seed)
    made = {bytes(chosen.choices(range(256), k=chosen.randrange(40))) for _ in range(count)}
    return sorted(made)


@pytest.mark.parametrize("count", [0, 1, 2, 70_000])
@pytest.mark.parametrize("block_bytes_max", [1, 100, 64 * 1024])
def test_entries_are_those_of_the_other_writer(count: int, block_bytes_max: int) -> None:
    if count > 2 and block_bytes_max == 1:
        count = 500
    keys = keys_of(count, block_bytes_max)
    values = [b"", b"one", b"x" * 300]
    which = np.array([random.Random(7).randrange(3) for _ in keys], np.int32)
    body = encode_hfile_columns(
        pa.array(keys, pa.binary()), which, values, INFO, block_bytes_max=block_bytes_max
    )
    entries = tuple((key, values[index]) for key, index in zip(keys, which, strict=True))
    found = decode_hfile(body)
    assert found.entries == entries
    assert found.info == decode_hfile(encode_hfile(entries, INFO)).info
    lookup = HFileLookup(lambda at, size: body[at : at + size], len(body))
    wanted = dict(random.Random(3).sample(entries, min(20, len(entries))))
    assert dict(lookup.of_keys([*wanted, b"not there" * 9])) == wanted


def test_a_part_of_an_array_is_written() -> None:
    keys = pa.array([b"a", b"b", b"c", b"d"], pa.binary())
    body = encode_hfile_columns(
        keys.slice(1, 2), np.zeros(2, np.int32), [b"v"], INFO, block_bytes_max=100
    )
    assert decode_hfile(body).entries == ((b"b", b"v"), (b"c", b"v"))


def test_blocks_have_to_ascend() -> None:
    writer = HFileWriter()
    sizes = {"entries": 1, "key_bytes": 1, "value_bytes": 0}
    writer.add_block(b"", first_key=b"b", last_key=b"c", **sizes)
    with pytest.raises(InvalidDataError, match="must ascend"):
        writer.add_block(b"", first_key=b"c", last_key=b"d", **sizes)
