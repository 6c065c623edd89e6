"""A range of a source as one commit: what it is written with, whatever reads the rows.

Rows and checkpoint become visible together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.execute.ingest_table import IngestTable, TakenRange
from tideline.ingest.execute.table_access import Progress
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.source import Available, Range, Shape, Sweep
from tideline.wording import counted

UPSERT = "upsert"
DELETE = "delete"
_PARTIAL_UPDATE = "tideline.write.partial.update.columns"


class NoTableYetError(InvalidDataError):
    """The batch is no start for a table; nothing of it is at fault."""


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """The `range` to write as one commit, of a source that holds what is `available`."""

    operation: Operation
    work: IngestRange
    range: Range
    table: IngestTable
    checkpoints: Mapping[str, Checkpoint]
    available: Available | None
    progress: Progress

    @property
    def words(self) -> str:
        """What it reads, for people."""
        return counted(len(self.range.names), self.work.source.part)

    @property
    def deletes(self) -> bool:
        """Whether the operation is a delete, for which only keys matter."""
        return self.work.write_operation == DELETE

    @property
    def fits(self) -> bool:
        """Whether text is cast to the types of the table."""
        return not self.deletes and _PARTIAL_UPDATE not in self.operation.table.write_properties

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What was taken in before, also under the ingest's former name."""
        return newest_of(self.checkpoints, self.work.name, self.work.former_name)

    def table_schema(self) -> pa.Schema | None:
        """The table's columns, else those declared; None where this batch decides them."""
        schema = self.table.columns()
        if schema is not None:
            return schema
        declared = self.operation.table.schema
        return arrow_schema(declared) if declared else None

    def shape(self, left_out: frozenset[int]) -> Shape:
        """What its rows are read for, without those that were set aside."""
        target, work = self.operation.table, self.work
        shape = Shape(
            self.table_schema(),
            target.record_key,
            target.ordering,
            columns=self.checkpoint.columns if self.checkpoint else (),
            transform=work.transform,
            delete_when=work.delete_when,
            fits=self.fits,
            only_keys=self.deletes,
            can_delete=work.write_operation in (UPSERT, DELETE),
            left_out=left_out,
            is_dry=work.is_dry,
        )
        return self.table.shape(shape)

    def replace_all(
        self, rows: pa.Table, columns: tuple[tuple[str, str], ...] = ()
    ) -> CommitReport:
        """Write the rows, of each key the last one, in place of all that the table has.

        Raises as `write`, and ConfigError where other ingests have rows in it.
        """
        done = replace(self, table=self.table.created())
        others = done.table.other_ingests(self.work)
        if others:
            raise ConfigError(
                f"the source was emptied, and the table has rows of {', '.join(others)} too: "
                "delete those of this ingest, and set source.onTruncate: Ignore",
                path=self.work.source.uri,
            )
        left = _last_rows(rows, self.operation.table.record_key)
        self.progress(f"writing {self.words}")
        return done.table.write_all(left, done._taken(columns))

    def write(self, rows: Any, columns: tuple[tuple[str, str], ...] = ()) -> CommitReport:
        """Write the rows and the new checkpoint, which remembers `columns` where there are any.

        Creates the table where there is none. Raises as `IngestTable.write` does.
        """
        table = self.table.created()
        self.progress(f"writing {self.words}")
        return table.write(rows, self._taken(columns))

    def begin_again(
        self, rows: pa.Table, columns: tuple[tuple[str, str], ...] = ()
    ) -> CommitReport:
        """Commit that all rows are copied again, without any yet. Raises as `write`, and
        ConfigError where other ingests have rows in the table."""
        table = self.table.created()
        if others := table.other_ingests(self.work):
            raise ConfigError(
                f"the table has rows of {', '.join(others)} too, which are not in this source",
                path=self.work.source.uri,
            )
        return table.begin_again(rows, self._taken(columns))

    def sweep(self, wanted: Sweep, bytes_max: int) -> CommitReport:
        """Delete rows that were last written before, with the new checkpoint. Raises as
        `IngestTable.sweep`."""
        self.progress("looking for rows that the source has no more")

        def taken(are_all: bool) -> TakenRange:
            return (replace(self, range=wanted.finished) if are_all else self)._taken(())

        return self.table.created().sweep(wanted, bytes_max, taken, self.progress)

    def _taken(self, columns: tuple[tuple[str, str], ...]) -> TakenRange:
        work = self.work
        before, available = self.checkpoint, self.available
        assert available is not None, "a rehearsal writes nothing"
        position = available.advance(None if before is None else before.position, self.range)
        advanced = replace(
            before or Checkpoint(0, position),
            generation=(before.generation if before else 0) + 1,
            position=position,
            address=work.source.address(self.operation.table.location.uri),
            took_over=self._took_over,
            look_after=available.look_after(position),
        )
        if columns:
            advanced = replace(advanced, columns=columns)
        if work.again_number is not None:
            advanced = replace(advanced, again=work.again_number, drained=None)
        if work.once_number is not None and available.is_drained(position):
            advanced = replace(advanced, drained=work.once_number)
        return TakenRange(self.operation.id, work, self.range.names, advanced, self.checkpoints)

    @property
    def _took_over(self) -> str:
        own = self.checkpoints.get(self.work.name)
        if self.checkpoint is not own:
            return self.work.former_name
        return own.took_over if own is not None else ""


def _last_rows(rows: pa.Table, record_key: Sequence[str]) -> pa.Table:
    """The last row of each key in the order of arrival, unless it deletes: a table that had none
    before has these."""
    if ARRIVAL not in rows.column_names:
        return rows
    last = rows.group_by(list(record_key)).aggregate([(ARRIVAL, "max")]).column(f"{ARRIVAL}_max")
    found = rows.filter(pc.is_in(rows.column(ARRIVAL), value_set=last.combine_chunks()))
    if DELETED_FLAG in found.column_names:
        found = found.filter(pc.invert(found.column(DELETED_FLAG))).drop_columns([DELETED_FLAG])
    return found
