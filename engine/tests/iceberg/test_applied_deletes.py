"""What deletes do to rows: positions in any form of bitmap, and values of any type."""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.data.deletion_vector import (
    BLOB_TYPE,
    MAGIC,
    decode_deletion_vector,
    encode_deletion_vector,
)
from tideline.iceberg.data.position_deletes import live_rows, positions_by_path
from tideline.iceberg.data.puffin import Blob, encode_puffin, read_blobs
from tideline.iceberg.data.row_values import ABSENT, RowValues

FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), None])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        FLOATS,
        st.booleans(),
        st.sampled_from([None, 0, 7, -(2**63), 2**63 - 1]),
        st.sampled_from([None, dt.date(1970, 1, 1), dt.date(1, 1, 1)]),
    ),
    max_size=9,
)


@given(deleted=ROWS, rows=ROWS)
@settings(max_examples=200, deadline=None)
def test_a_row_is_deleted_when_all_compared_fields_equal(
    deleted: list[Any], rows: list[Any]
) -> None:
    values = RowValues.of(columns(deleted))
    wanted = {comparable(row) for row in deleted}
    found = values.numbers(columns(rows))
    assert (found == ABSENT).tolist() == [comparable(row) not in wanted for row in rows]
    by_number: dict[int, set[Any]] = {}
    for number, row in zip(found.tolist(), rows, strict=True):
        by_number.setdefault(number, set()).add(comparable(row))
    by_number.pop(ABSENT, None)
    assert all(len(same) == 1 for same in by_number.values())
    assert len(by_number) <= len(values) == len(wanted)


def columns(rows: list[Any]) -> list[pa.Array]:
    kinds = (pa.string(), pa.float64(), pa.bool_(), pa.int64(), pa.date32())
    return [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]


def comparable(row: Any) -> Any:
    number = row[1]
    bits = None if number is None else struct.pack("<d", number if number == number else np.nan)
    return row[0], bits, *row[2:]


@given(st.sets(st.integers(0, 300_000) | st.integers(2**32 - 5, 2**33), max_size=50))
@settings(max_examples=50, deadline=None)
def test_a_deletion_vector_is_read_as_it_was_written(positions: set[int]) -> None:
    given_positions = np.array(sorted(positions), np.int64)
    found = decode_deletion_vector(encode_deletion_vector(given_positions), path="x.puffin")
    assert found.tolist() == sorted(positions)


def sealed(body: bytes) -> bytes:
    """A blob of bitmaps with the right length and checksum."""
    body = MAGIC + body
    return struct.pack(">I", len(body)) + body + struct.pack(">I", crc32(body))


def bitmap(*containers: tuple[int, int, bytes], key: int = 0) -> bytes:
    """One 32 bit bitmap after its key: containers of arrays and bit fields, made by hand."""
    start = 8 + 8 * len(containers)
    sizes = [len(content) for _, _, content in containers]
    offsets = [start + sum(sizes[:at]) for at in range(len(sizes))]
    return b"".join(
        [
            struct.pack("<III", key, 12346, len(containers)),
            *(struct.pack("<HH", high, count - 1) for high, count, _ in containers),
            *(struct.pack("<I", offset) for offset in offsets),
            *(content for _, _, content in containers),
        ]
    )


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def test_arrays_and_bit_fields_in_a_vector_are_read() -> None:
    bits = b"\x55" * 8192
    first = bitmap((0, 2, numbers(1, 9)), (3, 32_768, bits))
    last = bitmap((0, 1, numbers(5)), key=2)
    expected = [1, 9, *range(3 << 16, 4 << 16, 2), (2 << 32) + 5]
    blob = sealed(struct.pack("<Q", 2) + first + last)
    assert decode_deletion_vector(blob, path="x").tolist() == expected


def test_a_vector_is_written_small() -> None:
    scattered = np.arange(70_000, dtype=np.int64) * 2
    blob = encode_deletion_vector(scattered)
    assert len(blob) < 3 * 8192 + 200
    assert decode_deletion_vector(blob, path="x").tolist() == scattered.tolist()
    assert len(encode_deletion_vector(np.arange(1_000_000, dtype=np.int64))) < 400


def test_runs_in_a_vector_are_read() -> None:
    blob = sealed(struct.pack("<QI", 1, 1) + runs((7, 2), (65535, 0)))
    offset = 1 << 32
    assert decode_deletion_vector(blob, path="x").tolist() == [
        offset + 7, offset + 8, offset + 9, offset + 65535,
    ]  # fmt: skip


def runs(*spans: tuple[int, int]) -> bytes:
    """A bitmap of one container of runs, each a start and how many follow it."""
    count = sum(more + 1 for _, more in spans)
    head = struct.pack("<I", 12347) + b"\x01" + struct.pack("<HH", 0, (count - 1) % 65_536)
    return head + struct.pack("<H", len(spans)) + b"".join(numbers(*span) for span in spans)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (struct.pack("<Q", 1) + bitmap((0, 3, numbers(9, 3, 1))), "increasing"),
        (struct.pack("<Q", 1) + bitmap((0, 5_000, b"\xff" * 8192)), "cardinality"),
        (struct.pack("<Q", 1) + bitmap((0, 65_536, bytes(8192))), "cardinality"),
        (struct.pack("<Q", 1) + bitmap((5, 1, numbers(1)), (5, 1, numbers(2))), "not"),
        (struct.pack("<QI", 1, 0) + runs((0, 65_535), (0, 65_535)), "run"),
        (struct.pack("<Q", 2) + bitmap((0, 1, numbers(1))), "not"),
        (struct.pack("<Q", 2**64 - 1), "not"),
        (struct.pack("<Q", 1) + bitmap((0, 1, numbers(7)), key=2**32 - 1), "no file has a row"),
    ],
)
def test_a_vector_that_contradicts_itself_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(CorruptTableError, match=r"x\.puffin") as refused:
        decode_deletion_vector(sealed(body), path="x.puffin")
    assert "x.puffin" in str(refused.value)
    assert reason in str(refused.value)


def test_what_a_vector_expands_to_is_counted_before_it_is_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = runs((0, 65_535))
    vectors = struct.pack("<Q", 40) + b"".join(struct.pack("<I", key) + whole for key in range(40))
    assert len(decode_deletion_vector(sealed(vectors), path="x")) == 40 * 65_536
    monkeypatch.setenv("TIDELINE_METADATA_BYTES_MAX", "1Mi")
    with pytest.raises(UnsupportedTableError, match="expands to"):
        decode_deletion_vector(sealed(vectors), path="x")


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
    found = [body[candidate.offset : candidate.offset + candidate.length] for candidate in placed]
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
