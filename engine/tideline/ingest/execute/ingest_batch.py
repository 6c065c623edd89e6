"""A range of a source as one commit: what it is written with, whatever reads the rows.

Rows and checkpoint become visible together or not at all. Another driver of the same ingest that
has committed since the plan is found under the table lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, ConflictError, InvalidDataError
from tideline.hudi.index.declaration import keep_unique
from tideline.hudi.index.uniqueness import IN_TABLE
from tideline.hudi.table.meta_column import COMMIT_TIME
from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.execute.last_rows import last_rows
from tideline.ingest.execute.table_access import Progress, create_declared_table, open_table
from tideline.ingest.execute.table_checkpoints import (
    other_ingests,
    require_generation,
)
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import (
    INGEST_KEY,
    Checkpoint,
    checkpoint_metadata,
    newest_of,
)
from tideline.ingest.sources.kinds import kind_named
from tideline.ingest.sources.source import Available, Range, Shape, Sweep
from tideline.lake_table import LakeTable
from tideline.wording import counted
from tideline.write_and_serve import delete_found

if TYPE_CHECKING:
    import pyarrow as pa

OPERATION_KEY = "tideline.operation"
FILES_KEY = "tideline.ingest.files"
UPSERT = "upsert"
DELETE = "delete"
REPLACE = "insert_overwrite_table"
NAMES_KEPT_MAX = 1_000
_PARTIAL_UPDATE = "tideline.write.partial.update.columns"


class NoTableYetError(InvalidDataError):
    """The batch is no start for a table; nothing of it is at fault."""


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """The `range` to write as one commit, of a source that holds what is `available`. `table` is
    None where it was not there when this began."""

    operation: Operation
    work: IngestRange
    range: Range
    table: LakeTable | None
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
        if self.table is not None:
            schema = self.table.hoodie_table.schemas.newest(self.table.timeline())
            if schema is not None:
                return schema
        declared = self.operation.table.schema
        return arrow_schema(declared) if declared else None

    def shape(self, left_out: frozenset[int]) -> Shape:
        """What its rows are read for, without those that were set aside."""
        target, work = self.operation.table, self.work
        return Shape(
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
            unavailable=self._unavailable,
            newest_instant=self._newest_instant,
            is_dry=work.is_dry,
        )

    def replace_all(
        self, rows: pa.Table, columns: tuple[tuple[str, str], ...] = ()
    ) -> CommitReport:
        """Write the rows, of each key the last one, in place of all that the table has.

        Raises as `write`, and ConfigError where other ingests have rows in it.
        """
        table = self.declared_table()
        others = other_ingests(table, table.timeline(), self.work)
        if others:
            raise ConfigError(
                f"the source was emptied, and the table has rows of {', '.join(others)} too: "
                "delete those of this ingest, and set source.onTruncate: Ignore",
                path=self.work.source.uri,
            )
        left = last_rows(rows, self.operation.table.record_key)
        return replace(self, work=replace(self.work, write_operation=REPLACE)).write(left, columns)

    def write(self, rows: Any, columns: tuple[tuple[str, str], ...] = ()) -> CommitReport:
        """Write the rows and the new checkpoint, which remembers `columns` where there are any.

        Creates the table where there is none. Raises as `LakeTable.write` does.
        """
        work, target = self.work, self.operation.table
        table = self.declared_table()
        self.progress(f"writing {self.words}")
        notes = self._keep_uniqueness(table) if target.unique_in_table else ()
        report = table.write(
            rows,
            operation=work.write_operation,
            extra_metadata=self._metadata(table, columns),
            options=target.write_properties,
            require=lambda now: self._require(table, now),
        )
        return replace(report, notes=(*notes, *report.notes))

    def sweep(self, wanted: Sweep, bytes_max: int) -> CommitReport:
        """Delete rows that were last written before, with the new checkpoint.

        Raises as `LakeTable.delete`, and ConfigError where only Spark can.
        """
        from tideline.hudi.read.matching_rows import matching_rows

        table, properties = self.declared_table(), self.operation.table.write_properties
        self.progress("looking for rows that the source has no more")
        where = f"{COMMIT_TIME} <= '{wanted.until}'"
        found = matching_rows(table.hoodie_table, where, bytes_max, wanted.rows_max)
        if found is None:
            raise ConfigError("rows of this table are only deleted by Spark", table=table.uri)
        done = replace(self, range=wanted.finished) if found.are_all else self
        if not len(found.rows):
            schema = self.table_schema()
            assert schema is not None, "the table has rows"
            return done.write(schema.empty_table())
        self.progress(f"deleting {counted(len(found.rows), 'row')}")
        return delete_found(
            table.writer,
            found,
            properties,
            done._metadata(table, ()),
            lambda now: require_generation(table, now, self.work),
        )

    def _require(self, table: LakeTable, now: ActiveTimeline) -> None:
        """Asked under the table lock."""
        require_generation(table, now, self.work)
        if self.work.write_operation != REPLACE:
            return
        if others := other_ingests(table, now, self.work):
            message = f"ingest {others[0]!r} has committed since this one began"
            raise ConflictError(message, table=table.uri)

    @property
    def _newest_instant(self) -> str:
        """Empty where there is none, or no row says which commit it is of."""
        if self.table is None or not self.table.hoodie_table.config.populate_meta_fields:
            return ""
        newest = self.table.timeline().writes().completed().last()
        return "" if newest is None else str(newest.time)

    @property
    def _unavailable(self) -> str:
        """The marker of values that the table fills up from stored rows; empty without one."""
        if self.table is not None:
            updates = self.table.hoodie_table.config.partial_updates
            return (updates.unavailable or "") if updates is not None else ""
        properties = self.operation.table.creation_properties
        return properties.get(UNAVAILABLE_PROPERTY, "") if PARTIAL_UPDATE_MODE in properties else ""

    def declared_table(self) -> LakeTable:
        """The table, created as declared where there is none."""
        target, writer = self.operation.table, self.operation.writer
        return self.table or open_table(target, writer) or create_declared_table(target, writer)

    def _keep_uniqueness(self, table: LakeTable) -> tuple[str, ...]:
        """Have the table say what the spec does, once the settings of the write are accepted.

        Before the write, so that a death in between leaves no rows without that statement; writers
        under way that look for keys in partitions conflict, and are safe to repeat.
        """
        options = self.operation.table.write_properties
        _, config = table.writer.planned_write(self.work.write_operation, options)
        kind = config.index.type
        if not keep_unique(table.hoodie_table, kind, config.lock_timing):
            return ()
        return (f"the table now states that its keys are {IN_TABLE} ({kind})",)

    def _metadata(self, table: LakeTable, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
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
        layout = table.hoodie_table.config.layout
        others = kind_named(work.source.kind).metadata_for_others
        return {
            **others(work.source, position, layout.properties.streamer_checkpoint),
            **checkpoint_metadata({**self.checkpoints, work.name: advanced}),
            INGEST_KEY: work.name,
            OPERATION_KEY: self.operation.id,
            FILES_KEY: json.dumps(
                self.range.names[:NAMES_KEPT_MAX], ensure_ascii=False, separators=(",", ":")
            ),
        }

    @property
    def _took_over(self) -> str:
        own = self.checkpoints.get(self.work.name)
        if self.checkpoint is not own:
            return self.work.former_name
        return own.took_over if own is not None else ""
