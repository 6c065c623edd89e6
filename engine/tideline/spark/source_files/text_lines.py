"""On which line of a text file its rows begin, for people who look for one.

Spark does not count lines. Of the few files with bad rows those that are not large are read once
more here, as they are stored or unpacked from gzip.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Collection, Iterator

from tideline.spark.source_files.sources import CSV, SourceSettings
from tideline.storage.object_store import ObjectStore

LOOKED_AT_BYTES_MAX = 32 * 1024 * 1024
_NOT_LOOKED_INTO = (".bz2", ".zst")


def lines_of_rows(
    store: ObjectStore, path: str, rows: Collection[int], settings: SourceSettings
) -> dict[int, int]:
    """The first line, from 1, of each of the rows (numbered from 1) that is found."""
    info = store.head(path)
    if info is None or info.size_bytes > LOOKED_AT_BYTES_MAX:
        return {}
    if path.lower().endswith(_NOT_LOOKED_INTO):
        return {}
    try:
        text = _text(store.get(path), is_packed=path.lower().endswith(".gz"))
        wanted, found = set(rows), {}
        for row, line in enumerate(_first_lines(text, settings), start=1):
            if row in wanted:
                found[row] = line
            if len(found) == len(wanted):
                break
    except (csv.Error, OSError, EOFError, zlib.error, ValueError, TypeError):
        return {}
    return found


def _text(content: bytes, *, is_packed: bool) -> io.TextIOWrapper:
    plain = content
    if is_packed:
        plain = gzip.GzipFile(fileobj=io.BytesIO(content)).read(4 * LOOKED_AT_BYTES_MAX)
    return io.TextIOWrapper(io.BytesIO(plain), "utf-8-sig", errors="replace", newline="")


def _first_lines(text: io.TextIOWrapper, settings: SourceSettings) -> Iterator[int]:
    if settings.file_format != CSV:
        for number, line in enumerate(text, start=1):
            if line.strip():
                yield number
        return
    reader = csv.reader(text, delimiter=settings.sep, quotechar=settings.quote)
    is_header, before = settings.has_header, 0
    for values in reader:
        if values and not is_header:
            yield before + 1
        if values:
            is_header = False
        before = reader.line_num
