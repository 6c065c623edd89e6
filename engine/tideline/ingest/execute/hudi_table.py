"""A Hudi table as ingests see it: the extra metadata of a commit of rows has the checkpoint.

Another driver of the same ingest that has committed since the plan is found under the table lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, ConflictError
from tideline.hudi.index.declaration import keep_unique
from tideline.hudi.index.uniqueness import IN_TABLE
from tideline.hudi.table.meta_column import COMMIT_TIME
from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.in_process import why_spark
from tideline.ingest.execute.ingest_table import FILES_KEY, TakenRange
from tideline.ingest.execute.table_access import create_declared_table, open_table
from tideline.ingest.execute.table_checkpoints import (
    current_checkpoints,
    other_ingests,
    require_generation,
)
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, TableTarget
from tideline.ingest.sources.checkpoint import INGEST_KEY, Checkpoint, checkpoint_metadata
from tideline.ingest.sources.kinds import kind_named
from tideline.ingest.sources.source import Shape, Sweep
from tideline.lake_table import LakeTable
from tideline.wording import counted
from tideline.write_and_serve import delete_found

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

OPERATION_KEY = "tideline.operation"
NAMES_KEPT_MAX = 1_000
_REPLACE = "insert_overwrite_table"


@dataclass(frozen=True, slots=True)
class HudiIngestTable:
    """See `IngestTable`; `lake` is None where the table was not there when this was opened."""

    target: TableTarget
    writer: str = ""
    lake: LakeTable | None = None

    @classmethod
    def open(cls, target: TableTarget, writer: str) -> HudiIngestTable:
        """Raises as `open_table`."""
        return cls(target, writer, open_table(target, writer))

    @property
    def uri(self) -> str:
        return self.target.location.uri

    @property
    def exists(self) -> bool:
        return self.lake is not None

    @property
    def record_key(self) -> tuple[str, ...]:
        return self._lake.hoodie_table.config.record_key_fields

    @property
    def ordering(self) -> tuple[str, ...]:
        return self._lake.hoodie_table.config.ordering_fields

    def columns(self) -> pa.Schema | None:
        table = self.lake
        return None if table is None else table.hoodie_table.schemas.newest(table.timeline())

    def checkpoints(self, work: IngestRange) -> dict[str, Checkpoint]:
        return current_checkpoints(self.lake, work.name, work.former_name, work.source)

    def other_ingests(self, work: IngestRange) -> list[str]:
        table = self._lake
        return other_ingests(table, table.timeline(), work)

    def shape(self, shape: Shape) -> Shape:
        return replace(shape, unavailable=self._unavailable, newest_instant=self._newest_instant)

    def on_spark(self, shape: Shape, *, deletes: bool) -> Shape:
        if self.lake is None:
            return shape
        hoodie = self.lake.hoodie_table
        return replace(
            shape,
            stated=shape.stated | hoodie.config.declared_columns,
            keys=key_generator(hoodie),
            ordering=() if deletes else hoodie.config.ordering_fields,
        )

    def why_spark(self, work: IngestRange, size_bytes: int = 0) -> str | None:
        kind = WriteOperation.parse(work.write_operation)
        return why_spark(self.lake, kind, self.target.write_properties, size_bytes)

    def created(self) -> HudiIngestTable:
        lake = self.found().lake or create_declared_table(self.target, self.writer)
        return replace(self, lake=lake)

    def upgraded(self) -> None:
        """A Hudi table keeps its version until `tideline upgrade`."""

    def found(self) -> HudiIngestTable:
        return self if self.exists else HudiIngestTable.open(self.target, self.writer)

    def stand_in(self) -> HudiIngestTable:
        """A table in memory, which says of what keys are made."""
        if self.exists:
            return self
        place = Location(f"memory://{uuid4().hex}")
        return replace(self, lake=create_declared_table(replace(self.target, location=place)))

    def count_keys(self, rows: DataFrame) -> tuple[int, int]:
        from tideline.spark.source_files.landed_rows import count_rows_and_keys

        return count_rows_and_keys(rows, key_generator(self._lake.hoodie_table))

    def try_rows(self, rows: DataFrame, work: IngestRange) -> None:
        from tideline.spark.write.run import try_write

        if self.lake is None:
            rows.write.format("noop").mode("overwrite").save()
            return
        config = self.lake.writer.config_for_rows(self.target.write_properties)
        kind = WriteOperation.parse(work.write_operation)
        try_write(rows, self.lake.hoodie_table, kind, config)

    def write(self, rows: Any, taken: TakenRange) -> CommitReport:
        return self._written(rows, taken, taken.work.write_operation, lambda _: None)

    def write_all(self, rows: Any, taken: TakenRange) -> CommitReport:
        def require(now: ActiveTimeline) -> None:
            if others := other_ingests(self._lake, now, taken.work):
                message = f"ingest {others[0]!r} has committed since this one began"
                raise ConflictError(message, table=self.uri)

        return self._written(rows, taken, _REPLACE, require)

    def begin_again(self, rows: pa.Table, taken: TakenRange) -> CommitReport:
        return self.write(rows, taken)

    def sweep(
        self,
        wanted: Sweep,
        bytes_max: int,
        taken: Callable[[bool], TakenRange],
        progress: Callable[[str], None],
    ) -> CommitReport:
        from tideline.hudi.read.matching_rows import matching_rows

        table, where = self._lake, f"{COMMIT_TIME} <= '{wanted.until}'"
        found = matching_rows(table.hoodie_table, where, bytes_max, wanted.rows_max)
        if found is None:
            raise ConfigError("rows of this table are only deleted by Spark", table=self.uri)
        done = taken(found.are_all)
        if not len(found.rows):
            schema = self.columns()
            assert schema is not None, "the table has rows"
            return self.write(schema.empty_table(), done)
        progress(f"deleting {counted(len(found.rows), 'row')}")
        return delete_found(
            table.writer,
            found,
            self.target.write_properties,
            self._metadata(done),
            lambda now: require_generation(table, now, done.work),
        )

    def _metadata(self, taken: TakenRange) -> dict[str, str]:
        """What a commit says of the ingest."""
        work, checkpoint = taken.work, taken.checkpoint
        layout = self._lake.hoodie_table.config.layout
        others = kind_named(work.source.kind).metadata_for_others
        names = taken.names[:NAMES_KEPT_MAX]
        return {
            **others(work.source, checkpoint.position, layout.properties.streamer_checkpoint),
            **checkpoint_metadata({**taken.before, work.name: checkpoint}),
            INGEST_KEY: work.name,
            OPERATION_KEY: taken.operation_id,
            FILES_KEY: json.dumps(names, ensure_ascii=False, separators=(",", ":")),
        }

    def _written(
        self,
        rows: Any,
        taken: TakenRange,
        operation: str,
        require: Callable[[ActiveTimeline], None],
    ) -> CommitReport:
        table = self._lake

        def require_all(now: ActiveTimeline) -> None:
            """Asked under the table lock."""
            require_generation(table, now, taken.work)
            require(now)

        notes = self._keep_uniqueness(operation) if self.target.unique_in_table else ()
        report = table.write(
            rows,
            operation=operation,
            extra_metadata=self._metadata(taken),
            options=self.target.write_properties,
            require=require_all,
        )
        return replace(report, notes=(*notes, *report.notes))

    def _keep_uniqueness(self, operation: str) -> tuple[str, ...]:
        """Have the table say what the spec does, once the settings of the write are accepted.

        Before the write, so that a death in between leaves no rows without that statement; writers
        under way that look for keys in partitions conflict, and are safe to repeat.
        """
        table = self._lake
        _, config = table.writer.planned_write(operation, self.target.write_properties)
        kind = config.index.type
        if not keep_unique(table.hoodie_table, kind, config.lock_timing):
            return ()
        return (f"the table now states that its keys are {IN_TABLE} ({kind})",)

    @property
    def _lake(self) -> LakeTable:
        assert self.lake is not None, "the table is there"
        return self.lake

    @property
    def _newest_instant(self) -> str:
        """Empty where there is none, or no row says which commit it is of."""
        if self.lake is None or not self.lake.hoodie_table.config.populate_meta_fields:
            return ""
        newest = self.lake.timeline().writes().completed().last()
        return "" if newest is None else str(newest.time)

    @property
    def _unavailable(self) -> str:
        """The marker of values that the table fills up from stored rows; empty without one."""
        if self.lake is not None:
            updates = self.lake.hoodie_table.config.partial_updates
            return (updates.unavailable or "") if updates is not None else ""
        properties = self.target.creation_properties
        return properties.get(UNAVAILABLE_PROPERTY, "") if PARTIAL_UPDATE_MODE in properties else ""
