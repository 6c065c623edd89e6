"""Comparing a table with the source of an ingest, at the position that the table has read to.

1. Plan a read of the table, with the checkpoint of the same moment.
2. Read the source again from where it begins to that position, range by range, or as it is, and
   put its rows into buckets by the hashes of their keys; the table's rows likewise.
3. Compare bucket by bucket (`compare`).

Memory depends on the size of a range and of a bucket; the rest is in a temporary folder. Nothing is
changed, and a stream may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tideline.errors import ConfigError, ConflictError
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.partial_updates import PartialUpdateMode
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.table_access import Progress, open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.verify.certain_commits import certain_commits, first_position
from tideline.ingest.verify.compare import Rules, compare_bucket
from tideline.ingest.verify.given_rows import Given, given_rows, require_comparable
from tideline.ingest.verify.key_buckets import KeyBuckets, bucket_count
from tideline.ingest.verify.keyed_rows import KeyedRows
from tideline.ingest.verify.verification import Differences, Verification
from tideline.lake_table import LakeTable
from tideline.wording import counted

ROWS_MAX = 20
"""How many rows that differ are named, unless asked for others."""
_ATTEMPTS = 10


def verify_ingest(
    operation: Operation, work: IngestRange, *, progress: Progress, rows_max: int = ROWS_MAX
) -> Verification:
    """What differs between the source of `work` and the table of `operation`.

    Raises ConfigError for what cannot be compared: sources that are not read again, a source that
    is no longer the one the table has read; ConflictError where writers never rest;
    StorageUnavailableError.
    """
    require_comparable(work.source)
    table = open_table(operation.table)
    if table is None:
        raise ConfigError("there is no table yet", table=operation.table.location.uri)
    for _ in range(_ATTEMPTS):
        found = _verified(table, operation, work, progress, rows_max)
        if found is not None:
            return found
    raise ConflictError("the source was left behind each time it was looked at", table=table.uri)


def _verified(
    table: LakeTable, operation: Operation, work: IngestRange, progress: Progress, rows_max: int
) -> Verification | None:
    """None where the source has left the table's position behind meanwhile."""
    declared = work.source
    scan, checkpoints = _planned(table, work)
    checkpoint = newest_of(checkpoints, work.name, work.former_name)
    assert checkpoint is not None
    # Without a position a look says where the table began.
    available = declared.positions(own_reach(), None)
    first = first_position(scan.timeline, partial(_metadata, table), work)
    left = declared.no_range()
    batch = IngestBatch(operation, work, left, table, checkpoints, available, progress)
    shape = batch.shape(frozenset())
    keyed = KeyedRows.of(table, scan.schema, operation, work)
    position = checkpoint.position
    with (
        TemporaryDirectory(prefix="tideline-verify-") as folder,
        given_rows(work, available, position, first, shape) as given,
    ):
        if given is None:
            return None
        keeps_old = (
            keyed.partial is not None and keyed.partial.mode is PartialUpdateMode.IGNORE_DEFAULTS
        )
        if keeps_old and not given.is_folded:
            message = "the rows cannot be compared: the table keeps what nulls replace"
            raise ConfigError(message, table=table.uri)
        sides = _Sides(table, scan, keyed, given, work)
        found = sides.compare(Path(folder), progress, rows_max)
    newest = scan.timeline.completed().of(*COMMIT_ACTIONS).last()
    return Verification(
        table=table.uri,
        ingest=work.name,
        source=declared.uri,
        position=str(position),
        instant="" if newest is None else str(newest.time),
        records=given.records,
        bad=given.bad,
        rows=sides.rows,
        gone=given.gone,
        found=found,
    )


def _planned(table: LakeTable, work: IngestRange) -> tuple[TableScan, Mapping[str, Checkpoint]]:
    """A read of the table, and the checkpoints of the same moment."""
    for _ in range(_ATTEMPTS):
        before = current_checkpoints(table, work.name, work.former_name)
        scan = plan_snapshot(table.hoodie_table)
        after = current_checkpoints(table, work.name, work.former_name)
        found = newest_of(after, work.name, work.former_name)
        if found is None:
            raise ConfigError(f"ingest {work.name} has taken nothing in yet", table=table.uri)
        if newest_of(before, work.name, work.former_name) == found:
            return scan, after
    raise ConflictError("the table changed each time it was looked at", table=table.uri)


@dataclass(slots=True)
class _Sides:
    """Both sides of a comparison, and what reading them showed."""

    table: LakeTable
    scan: TableScan
    keyed: KeyedRows
    given: Given
    work: IngestRange
    rows: int = 0
    orders_deletes: bool = False

    def compare(self, folder: Path, progress: Progress, rows_max: int) -> Differences:
        count = bucket_count(self.given.rows)
        source = KeyBuckets(folder / "source", count)
        table = KeyBuckets(folder / "table", count)
        self._read_source(source, progress)
        progress("reading the table")
        stored = ArrowScan.of(self.table.hoodie_table, self.scan, self.keyed.read_columns)
        for rows in stored.batches():
            table.add(self.keyed.of_table(rows))
            self.rows += rows.num_rows
        progress("comparing")
        rules = self._rules(rows_max)
        found = Differences()
        for number in range(count):
            both = source.read(number), table.read(number)
            if both != (None, None):
                typed = self.keyed.typed_source(both[0]), self.keyed.typed_table(both[1])
                found = found.plus(compare_bucket(*typed, rules), rows_max)
        return found

    def _read_source(self, into: KeyBuckets, progress: Progress) -> None:
        for batch in self.given.batches():
            progress(f"reading the source: {counted(self.given.records, 'record')}")
            if batch.rows.num_rows:
                rows = self.keyed.of_source(batch.rows, batch.part, batch.known)
                self.orders_deletes |= self.keyed.has_ordered_deletes(rows)
                into.add(rows)

    def _rules(self, rows_max: int) -> Rules:
        given, keyed = self.given, self.keyed
        certain: frozenset[str] = frozenset()
        if given.has_gaps or given.lost_early:
            read = partial(_metadata, self.table)
            certain = certain_commits(self.scan.timeline, read, self.work, given.keeps_after)
        return Rules(
            columns=tuple(name for name in keyed.schema.names if name not in given.lacking),
            ordering=keyed.ordering,
            is_bag=keyed.is_bag,
            is_unique_in_table=keyed.config.index.type.is_global,
            is_partitioned=bool(keyed.keys.partition_fields),
            has_gaps=given.has_gaps,
            lost_early=given.lost_early,
            orders_deletes=self.orders_deletes,
            certain=certain,
            partial=keyed.partial if given.is_folded else None,
            rows_max=rows_max,
        )


def _metadata(table: LakeTable, instant: Instant) -> Mapping[str, str]:
    return table.hoodie_table.commits.read(instant).extra_metadata
