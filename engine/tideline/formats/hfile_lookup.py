"""Looking keys up in an HFile without reading all of it.

1. The last bytes hold the trailer and, in most files, the index of data blocks; a second request
   reads the index where they do not.
2. The index has the first key of every block, so that a key, or all keys with a prefix, lie in
   blocks that are known. Neighbouring blocks come with one request.
3. A file may be in Java's order of texts. Keys that have another place there are looked for in
   both: of the order of others nothing changes.

Source: HBase's book, appendix on HFile v3; Hudi's HFileReaderImpl.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import admit
from tideline.errors import CorruptTableError
from tideline.formats.hfile import (
    LOAD_AT,
    TRAILER_BYTES,
    Block,
    block_at,
    blocks_of,
    find_entries,
    info_at,
    read_entries,
    read_trailer,
)
from tideline.formats.text_order import has_own_order_in_java, java_order

ReadRange = Callable[[int, int], bytes]
"""Up to `length` bytes of a file from `offset` on."""

_SAMPLE = 8
_TAIL_BYTES = 64 * 1024
_GAP_BYTES_MAX = 64 * 1024
"""Blocks that are no further apart come with one request: less than one costs."""
_READ_BYTES_MAX = 4 * 1024 * 1024
"""What one request brings, unless a block is larger."""


class HFileLookup:
    """One file whose blocks are read as keys are looked up."""

    def __init__(self, read_range: ReadRange, size_bytes: int, *, path: object = None) -> None:
        """Read where the blocks lie. Raises CorruptTableError naming `path` for what is no HFile,
        UnsupportedTableError for one with an index of several levels, or beyond the limits."""
        self._read_range = read_range
        self._path = path
        with faults_named("HFile is truncated or broken", path=path):
            start = max(0, size_bytes - _TAIL_BYTES)
            tail = read_range(start, size_bytes - start)
            self._trailer = read_trailer(tail)
            load_at = self._trailer.number(LOAD_AT)
            if not 0 <= load_at <= size_bytes - TRAILER_BYTES:
                raise CorruptTableError("the index of an HFile lies outside of it", value=load_at)
            if load_at < start:
                admit(size_bytes - load_at, path=path, what="index of an HFile")
                start, tail = load_at, read_range(load_at, size_bytes - load_at)
            self.info: Mapping[str, bytes] = info_at(tail, self._trailer, start, path)
            self._blocks = blocks_of(tail, self._trailer, path, start)
            self._first_keys = [block.first_key for block in self._blocks]
            self._in_java = (
                [java_order(key) for key in self._first_keys]
                if any(map(has_own_order_in_java, self._first_keys))
                else None
            )
        self._sampled: list[bytes] = []

    def some_keys(self) -> list[bytes]:
        """Keys of the file beside those that were looked up, out of the first block that was read
        for these; none of a file without entries. Raises as the constructor."""
        if not self._sampled and self._blocks:
            next(self._contents([0]), None)
        return self._sampled

    def of_keys(self, keys: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The entries with these keys, in the order of the blocks. Raises as the constructor."""
        wanted: dict[int, set[bytes]] = {}
        for key in keys:
            for first_keys, spelled in self._orders(key):
                wanted.setdefault(bisect_right(first_keys, spelled) - 1, set()).add(key)
        for number, content in self._contents(wanted):
            with faults_named("HFile is truncated or broken", path=self._path):
                yield from find_entries(content, wanted[number])

    def with_prefixes(self, prefixes: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys begin with one of these, in the order of the blocks. Raises
        likewise."""
        starts = tuple(prefixes)
        numbers: set[int] = set()
        for prefix in starts:
            for first_keys, spelled in self._orders(prefix):
                after = _after(spelled)
                end = bisect_left(first_keys, after) if after else len(first_keys)
                numbers.update(range(max(0, bisect_left(first_keys, spelled) - 1), end))
        for _, content in self._contents(numbers):
            with faults_named("HFile is truncated or broken", path=self._path):
                yield from (item for item in read_entries(content) if item[0].startswith(starts))

    def _orders(self, key: bytes) -> Iterator[tuple[Sequence[bytes], bytes]]:
        """The first keys of blocks, and one that is looked for among them, in each order that the
        file may have."""
        yield self._first_keys, key
        if self._in_java is not None and has_own_order_in_java(key):
            yield self._in_java, java_order(key)

    def _contents(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """The contents of blocks, by their numbers."""
        wanted = [(n, self._blocks[n]) for n in sorted(numbers) if n >= 0]
        read_bytes = 0
        for run in _neighbours(wanted):
            start, last = run[0][1].offset, run[-1][1]
            body = self._read_range(start, last.offset + last.size_bytes - start)
            for number, block in run:
                with faults_named("HFile is truncated or broken", path=self._path):
                    at = block.offset - start
                    content = block_at(body, at, self._trailer.codec, self._path)
                    if not self._sampled:
                        self._sampled = [key for key, _ in islice(read_entries(content), _SAMPLE)]
                read_bytes += len(content)
                admit(read_bytes, path=self._path, what="HFile")
                yield number, content


def _after(prefix: bytes) -> bytes:
    """The least key above all with a prefix; nothing where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b""


def _neighbours(blocks: Iterable[tuple[int, Block]]) -> Iterator[list[tuple[int, Block]]]:
    """Blocks in the order of the file, those together that lie close to each other, up to what is
    read at once."""
    run: list[tuple[int, Block]] = []
    for number, block in blocks:
        end = block.offset + block.size_bytes
        if run and (
            block.offset - (run[-1][1].offset + run[-1][1].size_bytes) > _GAP_BYTES_MAX
            or end - run[0][1].offset > _READ_BYTES_MAX
        ):
            yield run
            run = []
        run.append((number, block))
    if run:
        yield run
