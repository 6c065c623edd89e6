"""The rows of a range, read for a comparison by what the ingest reads them with.

1. This process reads what it can. Where something does not fit, or the source is Spark's, Spark
   reads the range, finds what is bad in it as an ingest does, and puts the rest into files of a
   temporary folder, in the order of arrival.
2. Parts that do not go together are read one at a time. One that cannot be read at all is not
   compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.bad_input import BadInput
from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.execute.in_process import batch_bytes_max, require_spark
from tideline.ingest.execute.table_access import SessionFactory
from tideline.ingest.locate import locate
from tideline.ingest.sources.source import ForSpark, Range, Source
from tideline.ingest.verify.feed import Feed
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_FILES = "spark"
_NO_LIMIT = 1 << 62
"""Files that Spark wrote have a bounded number of rows."""


@dataclass(slots=True)
class RangeRows:
    """Reads the ranges of one feed. `records` and `bad` ones are counted; `unreadable` parts have
    their reasons."""

    feed: Feed
    source: Source
    session_factory: SessionFactory
    records: int = 0
    bad: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def keyed(self, taken: Range, part: int, when: str, folder: Path) -> Iterator[pa.Table]:
        """The rows as the table would store them. Raises ConfigError, InvalidDataError,
        StorageUnavailableError."""
        found = self._in_process(taken, part, when)
        if isinstance(found, ForSpark):
            if not self.feed.work.source.is_checked_on_spark:
                raise found.error or ConfigError(f"the source cannot be compared: {found.reason}")
            yield from self._on_spark(found, taken, part, when, folder)
        else:
            yield found

    def _in_process(self, taken: Range, part: int, when: str) -> pa.Table | ForSpark:
        reason = self.source.why_spark()
        if reason is not None:
            return ForSpark(reason)
        try:
            found = self.source.read(taken, self.feed.batch.shape(frozenset()), batch_bytes_max())
            if isinstance(found, ForSpark):
                return found
            rows = self.feed.keyed.of_source(found.table, part, when=when)
        except InvalidDataError as error:
            return ForSpark("something does not fit", error)
        bad = len(found.bad.files) + sum(map(len, found.bad.rows.values()))
        self.records += found.records or found.table.num_rows
        self.bad += bad
        return rows

    def _on_spark(
        self, needed: ForSpark, taken: Range, part: int, when: str, folder: Path
    ) -> Iterator[pa.Table]:
        source = self.feed.work.source
        require_spark(needed, source)
        session = self.session_factory(
            [locate(place) for place in (self.feed.batch.operation.table.location, *source.places)]
        )
        into = folder / _SPARK_FILES
        left, bad = self._kept(session, taken, into)
        if bad.files and len(taken.names) > 1:
            for name in taken.names:
                yield from self._on_spark(needed, taken.only([name]), part, when, folder)
            return
        self.unreadable |= bad.files
        bad_rows = sum(map(len, bad.rows.values()))
        self.bad += bad_rows
        self.records += bad_rows
        if left.names:
            yield from self._kept_rows(into, part, when)

    def _kept(self, session: SparkSession, taken: Range, into: Path) -> tuple[Range, BadInput]:
        """Put the rows of what can be read into a folder: which parts that are, and what is bad."""
        # What this process reads needs no Spark.
        from tideline.ingest.execute.ingest_on_spark import SparkAttempt

        left, learned = taken, BadInput()
        while left.names:
            rmtree(into, ignore_errors=True)
            batch = replace(self.feed.batch, range=left)
            attempt = SparkAttempt(self.source, batch, learned.digests, learned.reading)
            is_kept, bad = attempt.keep(session, into.as_uri())
            if is_kept:
                break
            files = {**bad.files, **dict.fromkeys(bad.waiting, "too many bad rows")}
            rows = {**learned.rows, **bad.rows}
            learned = BadInput(
                {**learned.files, **files}, rows, reading=bad.reading or learned.reading
            )
            if files and len(taken.names) > 1:
                break
            left = left.only([name for name in left.names if name not in files])
        return left, learned

    def _kept_rows(self, folder: Path, part: int, when: str) -> Iterator[pa.Table]:
        # Rows that a process keeps in memory are not all read at once.
        from tideline.in_process.source_files.rows import read_source_rows

        store = StoreLocation(folder.as_uri()).open()
        for file in sorted(folder.glob("*.parquet")):
            rows = read_source_rows(store, [file.name], _NO_LIMIT)
            if isinstance(rows, str):
                raise ConfigError(f"the source cannot be compared: {rows}")
            self.records += rows.num_rows
            yield self.feed.keyed.of_source(rows, part, when=when)
