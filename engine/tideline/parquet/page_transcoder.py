"""Column chunks in another codec: pages are decompressed and recompressed, never decoded.

Levels of pages of the second version stay as they are: they are stored before what is compressed.
Pages are taken together up to a megabyte or so, compressed by threads, and come out in their order.
Memory holds one chunk as stored, and few of its pages decompressed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from tideline.bounded.parsing import faults_named
from tideline.machine import processors
from tideline.parquet.stored_footer import Codec, StoredChunk
from tideline.parquet.stored_page import NewPage, StoredPage, new_page, stored_pages

_ARROW_NAMES = {
    Codec.SNAPPY: "snappy",
    Codec.GZIP: "gzip",
    Codec.BROTLI: "brotli",
    Codec.ZSTD: "zstd",
    Codec.LZ4_RAW: "lz4_raw",
}
_VARINT_BYTES_MAX = 5
_ZSTD_HEADER_BYTES_MAX = 18
_TOGETHER_BYTES = 1024 * 1024
_THREADS_MAX = 4
"""Also of a task of Spark's, which has the processors to itself at the end of a job."""
_AHEAD = 2
"""Groups of pages per thread that wait to be written."""


class PageTranscoder:
    """Pages in the codec of new files, at the level that they have; `close` ends its threads."""

    def __init__(self, codec: Codec, level: int | None, *, threads: int | None = None) -> None:
        self.codec = codec
        self._level = level
        self._threads = min(_THREADS_MAX, processors()) if threads is None else threads
        self._pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def pages(self, chunk: StoredChunk, body: bytes, *, path: str) -> Iterator[NewPage]:
        """The pages of a chunk, whose bytes these are, in the new codec.

        Raises CorruptTableError naming `path` for a chunk that is broken.
        """
        work = _Transcoding(_arrow_codec(Codec(chunk.codec)), _arrow_codec(self.codec, self._level),
                            path)  # fmt: skip
        groups = _grouped(stored_pages(chunk, body, path=path))
        if self._threads == 1:
            for group in groups:
                yield from work.of(group)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="pages")
        waiting: deque[Future[list[NewPage]]] = deque()
        for group in groups:
            waiting.append(self._pool.submit(work.of, group))
            if len(waiting) > _AHEAD * self._threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


class _Transcoding:
    def __init__(self, old: pa.Codec | None, new: pa.Codec | None, path: str) -> None:
        self._old = old
        self._new = new
        self._path = path

    def of(self, pages: list[StoredPage]) -> list[NewPage]:
        faults = (pa.ArrowException, OSError)
        with faults_named("a page cannot be decompressed", path=self._path, also=faults):
            return [self._page(page) for page in pages]

    def _page(self, page: StoredPage) -> NewPage:
        levels, stored = page.body[: page.levels_bytes], page.body[page.levels_bytes :]
        values_bytes = page.uncompressed_bytes - page.levels_bytes
        if not values_bytes and page.may_stay_uncompressed:
            return new_page(page, (levels,), is_compressed=False)
        old = self._old if page.is_compressed else None
        values = stored if old is None else _decompressed(old, stored, values_bytes)
        if len(values) != values_bytes:
            raise ValueError(f"{len(values)} bytes in a page of {values_bytes}")
        if self._new is None:
            return new_page(page, (levels, values), is_compressed=False)
        # A view of the buffer itself has the length from before it shrank.
        compressed = memoryview(self._new.compress(values).slice(0))
        if page.may_stay_uncompressed and len(compressed) >= len(values):
            return new_page(page, (levels, values), is_compressed=False)
        return new_page(page, (levels, compressed), is_compressed=True)


def _arrow_codec(codec: Codec, level: int | None = None) -> pa.Codec | None:
    if codec is Codec.UNCOMPRESSED:
        return None
    name = _ARROW_NAMES[codec]
    if level is None or not pa.Codec.supports_compression_level(name):
        return pa.Codec(name)
    return pa.Codec(name, compression_level=level)


def _grouped(pages: Iterator[StoredPage]) -> Iterator[list[StoredPage]]:
    group: list[StoredPage] = []
    size_bytes = 0
    for page in pages:
        group.append(page)
        size_bytes += page.uncompressed_bytes
        if size_bytes >= _TOGETHER_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


def _decompressed(codec: pa.Codec, stored: memoryview, size_bytes: int) -> memoryview:
    """Raises ValueError when there are not so many bytes, and what Arrow raises."""
    if not size_bytes:
        return memoryview(b"")
    values = memoryview(codec.decompress(stored, size_bytes))
    # Arrow says when there is more, and not when there is less: the rest would be memory as it was.
    is_sure = _stated_bytes(codec.name, stored) == size_bytes
    if not is_sure and _fits(codec, stored, size_bytes - 1):
        raise ValueError(f"fewer than {size_bytes} bytes in a page")
    return values


def _stated_bytes(codec: str, stored: memoryview) -> int | None:
    """The length that compressed bytes state themselves, which decompressing checks."""
    match codec:
        case "snappy":
            length = 0
            for number, byte in enumerate(stored[:_VARINT_BYTES_MAX]):
                length |= (byte & 0x7F) << 7 * number
                if byte < 0x80:
                    return length
        case "gzip":
            return int.from_bytes(stored[-4:], "little")
        case "zstd" if len(stored) > _ZSTD_HEADER_BYTES_MAX:
            return _stated_by_zstd(stored)
    return None


def _stated_by_zstd(stored: memoryview) -> int | None:
    """Source: RFC 8878, "Frame Header"."""
    descriptor = stored[4]
    size, is_single = descriptor >> 6, bool(descriptor & 0x20)
    if not size and not is_single:
        return None
    at = 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3]
    length = int.from_bytes(stored[at : at + (1 << size)], "little")
    return length + 256 if size == 1 else length


def _fits(codec: pa.Codec, stored: memoryview, size_bytes: int) -> bool:
    try:
        codec.decompress(stored, size_bytes)
    except (pa.ArrowException, OSError):
        return False
    return True
