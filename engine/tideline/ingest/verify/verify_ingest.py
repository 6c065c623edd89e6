"""Comparing a table with the source of an ingest, at the position that the table has read to.

1. Plan a read of the table, with the checkpoint of the same moment.
2. Read the source again from where it begins to that position, range by range, and put its rows
   into buckets by the hashes of their keys; the table's rows likewise.
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
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.execute.in_process import batch_bytes_max
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.table_access import Progress, open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.locate import locate
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.kinds import SourceKind, kind_named
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.replay import Replay, ReplayOf
from tideline.ingest.sources.source import ForSpark, Lost, Shape, Source
from tideline.ingest.verify.certain_commits import certain_commits, first_position
from tideline.ingest.verify.compare import Rules, compare_bucket
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

    Raises ConfigError for what cannot be compared: sources that are not read again, tables that
    fill rows up, a source that is no longer the one the table has read; ConflictError where writers
    never rest; StorageUnavailableError.
    """
    declared = work.source
    kind = kind_named(declared.kind)
    replay_of = _replay_of(kind, work)
    table = open_table(operation.table)
    if table is None:
        raise ConfigError("there is no table yet", table=operation.table.location.uri)
    scan, checkpoints = _planned(table, work)
    checkpoint = newest_of(checkpoints, work.name, work.former_name)
    assert checkpoint is not None
    # Without a position a look says where the table began.
    available = declared.positions(own_reach(lambda place: locate(place).open()), None)
    first = first_position(scan.timeline, partial(_metadata, table), work)
    replay = replay_of(declared, available, checkpoint.position, first)
    if isinstance(replay, Lost):
        raise ConfigError(f"{replay.what}: {replay.remedy}", path=declared.uri)
    left = declared.no_range()
    batch = IngestBatch(operation, work, left, table, checkpoints, available, progress)
    shape = batch.shape(frozenset())
    keyed = KeyedRows.of(table, scan.schema, operation, work)
    with TemporaryDirectory(prefix="tideline-verify-") as folder:
        sides = _Sides(table, scan, keyed, kind.open(declared), shape, replay, work)
        found = sides.compare(Path(folder), progress, rows_max)
    newest = scan.timeline.completed().of(*COMMIT_ACTIONS).last()
    return Verification(
        table=table.uri,
        ingest=work.name,
        source=declared.uri,
        position=str(checkpoint.position),
        instant="" if newest is None else str(newest.time),
        records=sides.records,
        bad=sides.bad,
        rows=sides.rows,
        gone=replay.gone,
        found=found,
    )


def _replay_of(kind: SourceKind, work: IngestRange) -> ReplayOf:
    if kind.replay is None:
        declared = work.source
        raise ConfigError(
            f"{declared.content} that {declared.whereabouts} had are not read again; topics of "
            "Kafka are",
            path=declared.uri,
        )
    return kind.replay


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
    source: Source
    shape: Shape
    replay: Replay
    work: IngestRange
    records: int = 0
    bad: int = 0
    rows: int = 0
    orders_deletes: bool = False

    def compare(self, folder: Path, progress: Progress, rows_max: int) -> Differences:
        count = bucket_count(self.replay.rows)
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
        parts: dict[str, int] = {}
        for taken in self.replay.ranges:
            progress(f"reading the source: {counted(self.records, 'record')}")
            found = self.source.read(taken, self.shape, batch_bytes_max())
            if isinstance(found, ForSpark):
                raise ConfigError(f"the source cannot be compared: {found.reason}")
            self.records += found.records
            self.bad += len(found.bad.files) + sum(map(len, found.bad.rows.values()))
            part = parts.setdefault(taken.names[0], len(parts))
            if found.table.num_rows:
                rows = self.keyed.of_source(found.table, part)
                self.orders_deletes |= self.keyed.has_ordered_deletes(rows)
                into.add(rows)

    def _rules(self, rows_max: int) -> Rules:
        has_gaps = self.records < self.replay.rows
        lost_early = bool(self.replay.gone)
        certain: frozenset[str] = frozenset()
        if has_gaps or lost_early:
            certain = certain_commits(
                self.scan.timeline,
                partial(_metadata, self.table),
                self.work,
                self.replay,
                has_gaps=has_gaps,
            )
        return Rules(
            columns=tuple(self.keyed.schema.names),
            ordering=self.keyed.ordering,
            is_bag=self.keyed.is_bag,
            is_unique_in_table=self.keyed.config.index.type.is_global,
            has_gaps=has_gaps,
            lost_early=lost_early,
            orders_deletes=self.orders_deletes,
            certain=certain,
            partial=self.keyed.partial,
            rows_max=rows_max,
        )


def _metadata(table: LakeTable, instant: Instant) -> Mapping[str, str]:
    return table.hoodie_table.commits.read(instant).extra_metadata
