"""Streams as Arrow reads them: the same bytes, each range by one read, failures as they are."""

from __future__ import annotations

import io
import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import StorageUnavailableError
from tideline.formats.arrow_stream import arrow_stream

BUFFER_BYTES = 1_000


class CountedFile(io.FileIO):
    """A raw file that counts how often it is read."""

    reads = 0

    def readinto(self, buffer: object, /) -> int | None:
        self.reads += 1
        return super().readinto(buffer)  # type: ignore[arg-type]


class FailingFile(io.FileIO):
    """A raw file of a store that went away."""

    def readinto(self, buffer: object, /) -> int | None:  # noqa: ARG002
        raise StorageUnavailableError("the store went away", path=str(self.name))


@pytest.fixture
def body(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "body"
    path.write_bytes(secrets.token_bytes(10 * BUFFER_BYTES + 7))
    return path, path.read_bytes()


@pytest.mark.parametrize("size", [0, 1, BUFFER_BYTES, 3 * BUFFER_BYTES + 1, 20 * BUFFER_BYTES])
@pytest.mark.parametrize("offset", [0, 5, 8 * BUFFER_BYTES, 11 * BUFFER_BYTES])
@pytest.mark.parametrize("is_buffered", [True, False])
def test_any_range_has_the_bytes_of_the_file(
    body: tuple[Path, bytes], size: int, offset: int, is_buffered: bool
) -> None:
    path, whole = body
    inner = io.BufferedReader(CountedFile(path), BUFFER_BYTES) if is_buffered else io.BytesIO(whole)
    with inner as stream:
        source = arrow_stream(stream)
        assert source.size() == len(whole)
        source.seek(offset)
        assert source.read_buffer(size).to_pybytes() == whole[offset : offset + size]
        source.seek(offset)
        assert source.read(size) == whole[offset : offset + size]


def test_a_range_larger_than_the_buffer_is_one_read(body: tuple[Path, bytes]) -> None:
    path, whole = body
    raw = CountedFile(path)
    with io.BufferedReader(raw, BUFFER_BYTES) as stream:
        source = arrow_stream(stream)
        source.seek(3)
        before = raw.reads
        assert source.read_buffer(3 * BUFFER_BYTES + 1).to_pybytes() == whole[3:][:3001]
        assert raw.reads == before + 1


def test_rows_are_held_in_arrows_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(100_000)}), path, compression="none", use_dictionary=False)
    with path.open("rb") as stream:
        source = arrow_stream(stream)
        before = pa.total_allocated_bytes()
        held = source.read_buffer(800_000)
        assert pa.total_allocated_bytes() - before >= 800_000
        assert pq.ParquetFile(source).read() == pq.read_table(path)
        assert held.size == 800_000


def test_a_failure_of_the_store_stays_what_it_is(body: tuple[Path, bytes]) -> None:
    with io.BufferedReader(FailingFile(body[0]), BUFFER_BYTES) as stream:
        source = arrow_stream(stream)
        with pytest.raises(StorageUnavailableError, match="went away"):
            source.read_buffer(5 * BUFFER_BYTES)
