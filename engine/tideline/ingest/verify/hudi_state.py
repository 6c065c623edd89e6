"""A Hudi table at one moment: a read of it, with the checkpoints of the same timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideline.errors import ConfigError, ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.ingest.execute.hudi_table import NAMES_KEPT_MAX, HudiIngestTable
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.verify.hudi_rows import HudiRows
from tideline.ingest.verify.keyed_rows import KeyedRows
from tideline.lake_table import LakeTable

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class HudiState:
    """See `TableState`."""

    table: HudiIngestTable
    lake: LakeTable
    scan: TableScan
    checkpoints: Mapping[str, Checkpoint]
    names_kept_max: int = NAMES_KEPT_MAX

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> HudiState:
        """See `read_state`."""
        target = operations[0].table
        lake = open_table(target)
        if lake is None:
            raise ConfigError("there is no table yet", table=target.location.uri)
        for _ in range(_ATTEMPTS):
            before = _checkpoints(lake, operations)
            scan = plan_snapshot(lake.hoodie_table)
            after = _checkpoints(lake, operations)
            if before == after:
                return cls(HudiIngestTable(target, lake=lake), lake, scan, after)
        raise ConflictError("the table changed each time it was looked at", table=lake.uri)

    @property
    def uri(self) -> str:
        return self.lake.uri

    @property
    def newest(self) -> str:
        newest = self.scan.timeline.completed().of(*COMMIT_ACTIONS).last()
        return "" if newest is None else str(newest.time)

    def keyed(self, operation: Operation) -> KeyedRows:
        return HudiRows.of(self.lake, self.scan.schema, operation)

    def rows(self, keyed: KeyedRows) -> Iterator[pa.Table]:
        assert isinstance(keyed, HudiRows)
        stored = ArrowScan.of(self.lake.hoodie_table, self.scan, keyed.read_columns)
        return map(keyed.of_table, stored.batches())

    def commits(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for instant in reversed(self.scan.timeline.completed().of(*COMMIT_ACTIONS).instants):
            yield str(instant.time), self.lake.hoodie_table.commits.read(instant).extra_metadata

    def archived_commits(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        if not self.scan.timeline.has_archive:
            return
        archive = self.lake.hoodie_table.commits.archive()
        try:
            for file in archive.files():
                for entry in archive.read(file).entries:
                    if entry.instant.is_completed and entry.instant.action in COMMIT_ACTIONS:
                        yield str(entry.instant.time), entry.extra_metadata()
        except (CorruptTableError, ObjectNotFoundError):
            return  # damaged, or merged meanwhile: what comes before is not known


def _checkpoints(table: LakeTable, operations: Sequence[Operation]) -> dict[str, Checkpoint]:
    found = {}
    for work in (operation.ingest for operation in operations):
        names = work.name, work.former_name
        checkpoint = newest_of(current_checkpoints(table, *names), *names)
        if checkpoint is not None:
            found[work.name] = checkpoint
    return found
