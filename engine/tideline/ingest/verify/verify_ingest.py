"""Comparing a table with the sources of its ingests, at the positions that it has read to.

1. Look at the table: its rows, and the checkpoints of the same moment (`table_state`).
2. Read the sources again from where they begin to these positions, range by range, or as they are,
   and put their rows into buckets by the hashes of their keys; the table's rows likewise.
3. Compare bucket by bucket (`compare`).

Memory depends on the size of a range and of a bucket; the rest is in a temporary folder. Nothing is
changed, and ingests may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tideline.errors import ConfigError, ConflictError
from tideline.hudi.table.partial_updates import PartialUpdateMode
from tideline.ingest.execute.table_access import Progress, SessionFactory
from tideline.ingest.operation.operation import Operation
from tideline.ingest.verify.compare import Rules, compare_bucket
from tideline.ingest.verify.feed import Feed, SourceLostError
from tideline.ingest.verify.given_rows import Given, given_rows
from tideline.ingest.verify.history import foreign_commits
from tideline.ingest.verify.key_buckets import KeyBuckets, bucket_count
from tideline.ingest.verify.keyed_rows import KeyedRows
from tideline.ingest.verify.table_state import TableState, read_state
from tideline.ingest.verify.verification import Compared, Differences, Verification

ROWS_MAX = 20
"""How many rows that differ are named, unless asked for others."""
_ATTEMPTS = 10


def verify_ingests(
    operations: Sequence[Operation],
    *,
    session_factory: SessionFactory,
    progress: Progress,
    rows_max: int = ROWS_MAX,
) -> Verification:
    """What differs between the sources of ingests and the table of all of them. `session_factory`
    is called for what only Spark reads.

    Raises ConfigError for what cannot be compared: operations that leave no rows, a source that is
    no longer the one the table has read; ConflictError where writers never rest;
    StorageUnavailableError.
    """
    for _ in range(_ATTEMPTS):
        state = read_state(operations)
        try:
            found = _verified(state, operations, session_factory, progress, rows_max)
        except SourceLostError:
            if read_state(operations).checkpoints == state.checkpoints:
                raise
            # The table has read on since, and the source keeps no more than that.
            continue
        if found is not None:
            return found
    raise ConflictError("the source was left behind each time it was looked at", table=state.uri)


def _verified(
    state: TableState,
    operations: Sequence[Operation],
    session_factory: SessionFactory,
    progress: Progress,
    rows_max: int,
) -> Verification | None:
    """None where a source has left the table's position behind meanwhile."""
    feeds = [
        Feed.of(operation, state, progress)
        for operation in operations
        if operation.ingest.name in state.checkpoints
    ]
    if not feeds:
        names = ", ".join(operation.ingest.name for operation in operations)
        raise ConfigError(f"ingest {names} has taken nothing in yet", table=state.uri)
    keyed = _keyed(feeds)
    with (
        TemporaryDirectory(prefix="tideline-verify-") as folder,
        given_rows(feeds, session_factory) as given,
    ):
        if given is None:
            return None
        keeps_old = (
            keyed.partial is not None and keyed.partial.mode is PartialUpdateMode.IGNORE_DEFAULTS
        )
        if keeps_old and not given.is_folded:
            message = "the rows cannot be compared: the table keeps what nulls replace"
            raise ConfigError(message, table=state.uri)
        sides = _Sides(state, keyed, given, feeds)
        differences = sides.compare(Path(folder), progress, rows_max)
        read = given.read()
    compared = tuple(
        Compared(
            feed.work.name,
            feed.work.source.uri,
            str(feed.checkpoint.position),
            item.records,
            item.bad,
            item.gone,
        )
        for feed, item in zip(feeds, read, strict=True)
    )
    return Verification(state.uri, compared, state.newest, sides.rows, differences)


def _keyed(feeds: Sequence[Feed]) -> KeyedRows:
    """How rows of the table are compared: as a bag only where all that write them insert."""
    order = (feed.keyed.is_bag + 2 * feed.keyed.deletes_only for feed in feeds)
    _, keyed = min(zip(order, (feed.keyed for feed in feeds), strict=True), key=lambda it: it[0])
    return keyed


@dataclass(slots=True)
class _Sides:
    """Both sides of a comparison, and what reading them showed."""

    state: TableState
    keyed: KeyedRows
    given: Given
    feeds: Sequence[Feed]
    rows: int = 0
    orders_deletes: bool = False

    def compare(self, folder: Path, progress: Progress, rows_max: int) -> Differences:
        count = bucket_count(self.given.rows)
        source = KeyBuckets(folder / "source", count)
        table = KeyBuckets(folder / "table", count)
        for rows in self.given.batches(folder):
            progress("reading the source")
            self.orders_deletes |= self.keyed.has_ordered_deletes(rows)
            source.add(rows)
        progress("reading the table")
        for stored in self.state.rows(self.keyed):
            table.add(stored)
            self.rows += stored.num_rows
        progress("comparing")
        rules = self._rules(rows_max)
        found = Differences()
        for number in range(count):
            both = source.read(number), table.read(number)
            if both != (None, None):
                typed = self.keyed.typed_source(both[0]), self.keyed.typed_table(both[1])
                found = found.plus(compare_bucket(*typed, rules), rows_max)
        return found

    def _rules(self, rows_max: int) -> Rules:
        given, keyed = self.given, self.keyed
        certain, foreign = frozenset[str](), frozenset[str]()
        only_deletes = all(feed.keyed.deletes_only for feed in self.feeds)
        if (given.has_gaps or given.lost_early) and not only_deletes:
            works = [feed.work for feed in self.feeds]
            certain = given.certain()
            foreign = foreign_commits(self.state, works)
        return Rules(
            columns=tuple(name for name in keyed.schema.names if name not in given.lacking),
            ordering=keyed.ordering,
            is_bag=keyed.is_bag,
            is_unique_in_table=keyed.is_unique_in_table,
            is_partitioned=keyed.is_partitioned,
            has_gaps=given.has_gaps,
            lost_early=given.lost_early,
            orders_deletes=self.orders_deletes,
            only_deletes=only_deletes,
            mixes=len({feed.keyed.is_bag for feed in self.feeds}) > 1,
            gone_until=given.gone_until,
            certain=certain,
            foreign=foreign,
            partial=keyed.partial if given.is_folded else None,
            rows_max=rows_max,
        )
