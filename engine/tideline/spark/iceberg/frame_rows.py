"""The rows of a Spark DataFrame for a write of an Iceberg table: see `GivenRows`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tideline.iceberg.write.keyed_change import ChangeByKey, KeyedWrite
from tideline.iceberg.write.new_files import NewFiles
from tideline.spark.iceberg.keyed_write import frame_by_key
from tideline.spark.iceberg.write import PrepareRows, write_frame


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Of rows with the same key the later one counts: by the column `arrival`, which is no column
    of the table, or in the order of the frame's partitions. Rows pass `prepare` first."""

    frame: DataFrame
    arrival: str | None = None
    prepare: PrepareRows | None = None

    def by_key(self, asked: KeyedWrite) -> AbstractContextManager[ChangeByKey]:
        return frame_by_key(self.frame, asked, self.arrival, self.prepare)

    def write_into(self, files: NewFiles) -> None:
        write_frame(self.frame, files, self.prepare)
