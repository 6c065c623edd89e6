"""What deletes do to rows: positions in any form of bitmap, and values of any type."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.iceberg.data.deletion_vector import (
    BLOB_TYPE,
    MAGIC,
    decode_deletion_vector,
    encode_deletion_vector,
)
from tideline.iceberg.data.equality_deletes import DeletedValues
from tideline.iceberg.data.position_deletes import live_rows, positions_by_path
from tideline.iceberg.data.puffin import Blob, encode_puffin, read_blobs

FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), None])
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), FLOATS, st.booleans()), max_size=9)


@given(deleted=ROWS, rows=ROWS)
@settings(max_examples=200, deadline=None)
def test_a_row_is_deleted_when_all_compared_fields_equal(
    deleted: list[Any], rows: list[Any]
) -> None:
    values = DeletedValues.of(columns(deleted))
    wanted = {comparable(row) for row in deleted}
    assert values.live_rows(columns(rows)).tolist() == [
        comparable(row) not in wanted for row in rows
    ]


def columns(rows: list[Any]) -> list[pa.Array]:
    kinds = (pa.string(), pa.float64(), pa.bool_())
    return [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]


def comparable(row: Any) -> Any:
    number = row[1]
    bits = None if number is None else struct.pack("<d", number if number == number else np.nan)
    return row[0], bits, row[2]


@given(st.sets(st.integers(0, 300_000) | st.integers(2**32 - 5, 2**33), max_size=50))
@settings(max_examples=50, deadline=None)
def test_a_deletion_vector_is_read_as_it_was_written(positions: set[int]) -> None:
    given_positions = np.array(sorted(positions), np.int64)
    found = decode_deletion_vector(encode_deletion_vector(given_positions), path="x.puffin")
    assert found.tolist() == sorted(positions)


def test_full_containers_of_a_vector_are_bit_fields() -> None:
    positions = np.arange(70_000, dtype=np.int64) * 2
    blob = encode_deletion_vector(positions)
    assert len(blob) < 3 * 8192 + 200
    assert decode_deletion_vector(blob, path="x").tolist() == positions.tolist()


def test_runs_in_a_vector_are_read() -> None:
    # One 32 bit bitmap at key 1: a run container of positions 7 to 9 and 65535.
    container = struct.pack("<H4H", 2, 7, 2, 65535, 0)
    bitmap = struct.pack("<I", 12347) + b"\x01" + struct.pack("<HH", 0, 3) + container
    body = MAGIC + struct.pack("<QI", 1, 1) + bitmap
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", crc32(body))
    offset = 1 << 32
    assert decode_deletion_vector(blob, path="x").tolist() == [
        offset + 7, offset + 8, offset + 9, offset + 65535,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(slice(0, 3), "short"), (slice(0, -5), "short|checksum"), (slice(1, None), "short|magic")],
)
def test_a_broken_vector_is_refused_naming_its_file(broken: slice, reason: str) -> None:
    blob = encode_deletion_vector(np.array([1, 5], np.int64))[broken]
    with pytest.raises(CorruptTableError, match=rf"({reason}).*x\.puffin"):
        decode_deletion_vector(blob, path="x.puffin")


def test_a_flipped_bit_in_a_vector_is_noticed() -> None:
    blob = bytearray(encode_deletion_vector(np.array([1, 5], np.int64)))
    blob[-6] ^= 1
    with pytest.raises(CorruptTableError, match="checksum"):
        decode_deletion_vector(bytes(blob), path="x.puffin")


def test_blobs_lie_where_the_footer_says() -> None:
    blob = Blob(BLOB_TYPE, (2147483645,), -1, -1, 0, 0, None, {"cardinality": "2"})
    body, placed = encode_puffin([(blob, b"first"), (blob, b"second")], created_by="test")
    assert read_blobs(body, path="x") == placed
    found = [body[one.offset : one.offset + one.length] for one in placed]
    assert found == [b"first", b"second"]
    with pytest.raises(CorruptTableError, match="Puffin"):
        read_blobs(body[:-1], path="x")


def test_position_deletes_are_cut_by_data_file() -> None:
    batches = [
        pa.record_batch([pa.array(["b", "a", "b"]), pa.array([7, 3, 1])], names=["f", "p"]),
        pa.record_batch([pa.array(["a", "b"]), pa.array([3, 0])], names=["f", "p"]),
    ]
    found = positions_by_path(batches, path="deletes.parquet")
    assert {path: positions.tolist() for path, positions in found.items()} == {
        "a": [3],
        "b": [0, 1, 7],
    }
    first, last = live_rows(found["b"], 0, 3), live_rows(found["b"], 6, 2)
    assert first is not None and first.tolist() == [False, False, True]
    assert last is not None and last.tolist() == [True, False]
    assert live_rows(found["b"], 2, 5) is None
