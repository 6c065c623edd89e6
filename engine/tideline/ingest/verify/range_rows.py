"""The rows of a range, read for a comparison by what the ingest reads them with.

1. This process reads what it can. Where something does not fit, or the source is Spark's, Spark
   reads the range, finds what is bad in it as an ingest does, and puts the rest into files of a
   temporary folder, in the order of arrival.
2. Parts that do not go together are read one at a time. One that cannot be read at all is not
   compared.
3. SQL of the ingest is Spark's, and is run as an ingest runs it. Where it makes other rows of
   another batch nothing can be compared. Rows that it made without their order of arrival have
   none: of several of a key the ordering values decide, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tideline.bad_input import BadInput
from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.execute.in_process import batch_bytes_max, require_spark, why_sql
from tideline.ingest.execute.table_access import SessionFactory
from tideline.ingest.locate import locate
from tideline.ingest.sources.source import ForSpark, Range, Source
from tideline.ingest.verify.compare import PART
from tideline.ingest.verify.feed import Feed
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_FILES = "spark"
_FIRST_UNORDERED, _PARTS_MAX = 1 << 24, 1 << 31
"""Numbers of parts that rows have each for itself, above those of a replay."""
_REMEDY = (
    "write what it does for each row alone, or compare the table with the same SQL by a query of "
    "your own"
)
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
    unordered: int = 0

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
        reason = self.source.why_spark() or why_sql(self.feed.batch.work)
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
        left, bad, is_ordered = self._kept(session, taken, into)
        if bad.files and len(taken.names) > 1:
            for name in taken.names:
                yield from self._on_spark(needed, taken.only([name]), part, when, folder)
            return
        self.unreadable |= bad.files
        bad_rows = sum(map(len, bad.rows.values()))
        self.bad += bad_rows
        self.records += bad_rows
        if left.names:
            for rows in self._kept_rows(into, part, when):
                yield rows if is_ordered else self._without_order(rows)

    def _kept(
        self, session: SparkSession, taken: Range, into: Path
    ) -> tuple[Range, BadInput, bool]:
        """Put the rows of what can be read into a folder: which parts that are, what is bad, and
        whether the rows are in the order of arrival."""
        # What this process reads needs no Spark.
        from tideline.ingest.execute.ingest_on_spark import NotRowByRowError, SparkAttempt

        left, learned, is_ordered = taken, BadInput(), True
        while left.names:
            rmtree(into, ignore_errors=True)
            batch = replace(self.feed.batch, range=left)
            attempt = SparkAttempt(self.source, batch, learned.digests, learned.reading)
            try:
                kept, bad = attempt.keep(session, into.as_uri())
            except NotRowByRowError as error:
                raise self._refused(error.message) from error
            if kept is not None:
                is_ordered = kept.is_ordered
                break
            files = {**bad.files, **dict.fromkeys(bad.waiting, "too many bad rows")}
            rows = {**learned.rows, **bad.rows}
            learned = BadInput(
                {**learned.files, **files}, rows, reading=bad.reading or learned.reading
            )
            if files and len(taken.names) > 1:
                break
            left = left.only([name for name in left.names if name not in files])
        return left, learned, is_ordered

    def _refused(self, reason: str) -> ConfigError:
        work = self.feed.work
        what = f"the SQL of ingest {work.name} makes other rows in another commit: {reason}"
        return ConfigError(f"the rows cannot be compared: {what}: {_REMEDY}", table=self._uri)

    @property
    def _uri(self) -> str:
        return self.feed.state.uri

    def _without_order(self, rows: pa.Table) -> pa.Table:
        """Each row as a part of its own: nothing says which one came later."""
        first = self.unordered
        self.unordered += rows.num_rows
        numbers = _FIRST_UNORDERED + np.arange(first, self.unordered) % (
            _PARTS_MAX - _FIRST_UNORDERED
        )
        at = rows.schema.get_field_index(PART)
        return rows.set_column(at, PART, pa.array(numbers.astype(np.int32)))

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
