"""Comparing a table with the sources of its ingests, at the positions that it has read to.

1. Plan a read of the table, with the checkpoints of the same moment.
2. Read the sources again from where they begin to these positions, range by range, or as they are,
   and put their rows into buckets by the hashes of their keys; the table's rows likewise.
3. Compare bucket by bucket (`compare`).

Memory depends on the size of a range and of a bucket; the rest is in a temporary folder. Nothing is
changed, and ingests may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tideline.errors import ConfigError, ConflictError
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.partial_updates import PartialUpdateMode
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.ingest.execute.table_access import Progress, SessionFactory, open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.verify.compare import Rules, compare_bucket
from tideline.ingest.verify.feed import Feed
from tideline.ingest.verify.given_rows import Given, given_rows
from tideline.ingest.verify.history import foreign_commits
from tideline.ingest.verify.key_buckets import KeyBuckets, bucket_count
from tideline.ingest.verify.keyed_rows import KeyedRows
from tideline.ingest.verify.verification import Compared, Differences, Verification
from tideline.lake_table import LakeTable

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
    target = operations[0].table
    table = open_table(target)
    if table is None:
        raise ConfigError("there is no table yet", table=target.location.uri)
    for _ in range(_ATTEMPTS):
        found = _verified(table, operations, session_factory, progress, rows_max)
        if found is not None:
            return found
    raise ConflictError("the source was left behind each time it was looked at", table=table.uri)


def _verified(
    table: LakeTable,
    operations: Sequence[Operation],
    session_factory: SessionFactory,
    progress: Progress,
    rows_max: int,
) -> Verification | None:
    """None where a source has left the table's position behind meanwhile."""
    scan, checkpoints = _planned(table, operations)
    feeds = [
        Feed.of(operation, table, scan, checkpoints[_work(operation).name], progress)
        for operation in operations
        if _work(operation).name in checkpoints
    ]
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
            raise ConfigError(message, table=table.uri)
        sides = _Sides(table, scan, keyed, given, feeds)
        differences = sides.compare(Path(folder), progress, rows_max)
        read = given.read()
    newest = scan.timeline.completed().of(*COMMIT_ACTIONS).last()
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
    instant = "" if newest is None else str(newest.time)
    return Verification(table.uri, compared, instant, sides.rows, differences)


def _planned(
    table: LakeTable, operations: Sequence[Operation]
) -> tuple[TableScan, Mapping[str, Checkpoint]]:
    """A read of the table, and the checkpoints of the same moment, by the names of the ingests."""
    for _ in range(_ATTEMPTS):
        before = _checkpoints(table, operations)
        scan = plan_snapshot(table.hoodie_table)
        after = _checkpoints(table, operations)
        if not after:
            names = ", ".join(_work(operation).name for operation in operations)
            raise ConfigError(f"ingest {names} has taken nothing in yet", table=table.uri)
        if before == after:
            return scan, after
    raise ConflictError("the table changed each time it was looked at", table=table.uri)


def _checkpoints(table: LakeTable, operations: Sequence[Operation]) -> dict[str, Checkpoint]:
    found = {}
    for operation in operations:
        names = _work(operation).name, _work(operation).former_name
        checkpoint = newest_of(current_checkpoints(table, *names), *names)
        if checkpoint is not None:
            found[_work(operation).name] = checkpoint
    return found


def _work(operation: Operation) -> IngestRange:
    assert isinstance(operation.work, IngestRange)
    return operation.work


def _keyed(feeds: Sequence[Feed]) -> KeyedRows:
    """How rows of the table are compared: as a bag only where all that write them insert."""
    order = (feed.keyed.is_bag + 2 * feed.keyed.deletes_only for feed in feeds)
    _, keyed = min(zip(order, (feed.keyed for feed in feeds), strict=True), key=lambda it: it[0])
    return keyed


@dataclass(slots=True)
class _Sides:
    """Both sides of a comparison, and what reading them showed."""

    table: LakeTable
    scan: TableScan
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
        stored = ArrowScan.of(self.table.hoodie_table, self.scan, self.keyed.read_columns)
        for batch in stored.batches():
            table.add(self.keyed.of_table(batch))
            self.rows += batch.num_rows
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
            foreign = foreign_commits(self.table, self.scan.timeline, works)
        return Rules(
            columns=tuple(name for name in keyed.schema.names if name not in given.lacking),
            ordering=keyed.ordering,
            is_bag=keyed.is_bag,
            is_unique_in_table=keyed.config.index.type.is_global,
            is_partitioned=bool(keyed.keys.partition_fields),
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
