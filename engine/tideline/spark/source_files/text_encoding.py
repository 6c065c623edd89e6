"""Text files that are not UTF-8: Spark reads csv with a replacement for each wrong byte, so that
different names become one.

So the lines of every file are looked at as bytes, by tasks, before they are parsed. JSON needs
none of this: its parser refuses wrong bytes.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import TidelineError
from tideline.spark.source_files.arrival import spelled_uri
from tideline.storage.location import StoreLocation

_LOOKED_AT_BYTES_MAX = 256 * 1024 * 1024
_LINE_BYTES_MAX = 16 * 1024 * 1024
_NOT_LOOKED_INTO = (".bz2", ".zst")
_PATH = "path"


def files_not_utf8(
    session: SparkSession,
    location: StoreLocation,
    parts: Sequence[Sequence[str]],
    options: Mapping[str, str],
) -> dict[str, str]:
    """Reasons by path. `parts` are the paths in lists that one read takes, `options` Spark's."""
    reasons: dict[str, str] = {}
    for paths in parts:
        uris = [location.spark_uri(path) for path in paths]
        lines = session.read.format("text").options(**options).load(uris)
        path = F.col("_metadata.file_path").alias(_PATH)
        foreign = lines.where(~F.is_valid_utf8("value")).select(path).distinct().collect()
        found = {row[_PATH] for row in foreign}
        for path_here, uri in zip(paths, uris, strict=True):
            if found and spelled_uri(session, uri) in found:
                reasons[path_here] = _reason(location, path_here)
    return reasons


def _reason(location: StoreLocation, path: str) -> str:
    line = _first_foreign_line(location, path)
    where = "it" if line is None else f"line {line:,}"
    return (
        f"{where} is not UTF-8: write the file in UTF-8, or name the encoding of all files in the "
        "read option encoding"
    )


def _first_foreign_line(location: StoreLocation, path: str) -> int | None:
    """Its number from 1; None where the file is not looked into."""
    store = location.open()
    if path.lower().endswith(_NOT_LOOKED_INTO):
        return None
    looked_at, number = 0, 0
    try:
        with store.open_reader(path) as stored:
            is_packed = path.lower().endswith(".gz")
            plain: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=stored) if is_packed else stored
            while looked_at < _LOOKED_AT_BYTES_MAX and (line := plain.readline(_LINE_BYTES_MAX)):
                looked_at, number = looked_at + len(line), number + 1
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
    except (OSError, EOFError, TidelineError):
        return None
    return None
