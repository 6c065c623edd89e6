"""An Iceberg table as what source files are written into through Spark: see `WriteTarget`.

Text is cast to the types of the table's columns, which are known by their names whatever the case.
A column that the table lacks is refused, as it is in parquet files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.clock import SystemClock
from tideline.commit_report import CommitReport
from tideline.errors import InvalidDataError
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.iceberg_writing import write_given
from tideline.ingest.execute.named_columns import NamedRows
from tideline.ingest.execute.write_files import SourceWrite
from tideline.spark.iceberg.frame_rows import FrameRows
from tideline.spark.source_files.column_inference import Roles
from tideline.spark.source_files.intake import Intake
from tideline.spark.source_files.landed_rows import computed_columns, once_computed
from tideline.spark.source_files.sources import SourceSettings, types_of
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """See `WriteTarget`."""

    table: IcebergTable
    write_asked: IcebergWrite

    @property
    def uri(self) -> str:
        return self.table.metadata.location

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return IcebergLakeTable(self.table).schema

    def intake(self, spark: SparkSession, wanted: SourceWrite, folder: StoreLocation) -> Intake:
        schema, key = self.schema, self._key
        deletes = self.write_asked.operation is IcebergOperation.DELETE
        known = types_of(schema)
        must_have = () if deletes else [item.name for item in schema if not item.nullable]
        return Intake(
            spark,
            SourceSettings(
                folder,
                wanted.file_format,
                wanted.reading,
                known=known,
                roles=Roles.of(key, ()),
                inferred=frozenset(known),
            ),
            schema,
            fits=not deletes,
            only_keys=deletes,
            required=tuple(dict.fromkeys((*key, *must_have))),
        )

    def try_rows(self, rows: DataFrame) -> None:
        self._require_known(computed_columns(rows.drop(ARRIVAL)))

    def write(self, rows: DataFrame) -> CommitReport:
        operation = self.write_asked.operation
        with once_computed(rows) as (computed, columns):
            self._require_known(columns)
            frame = computed if operation.is_keyed else computed.drop(ARRIVAL)
            given = FrameRows(frame, ARRIVAL, NamedRows(self.schema))
            return write_given(self.table, given, self.write_asked, SystemClock())

    @property
    def _key(self) -> tuple[str, ...]:
        """What rows are found by, for writes that look for them."""
        if not self.write_asked.operation.is_keyed:
            return ()
        schema = self.table.metadata.schema()
        named = [schema.name_of(number) or "" for number in schema.identifier_field_ids]
        return self.write_asked.key or tuple(named)

    def _require_known(self, columns: pa.Schema) -> None:
        """Raise InvalidDataError for a column that the table lacks."""
        if self.write_asked.operation is IcebergOperation.DELETE:
            return
        known = {name.casefold() for name in self.schema.names}
        for name in columns.names:
            if name != ARRIVAL and name.casefold() not in known:
                message = "the table has no such column: add it with `tideline iceberg alter`"
                raise InvalidDataError(message, table=self.uri, value=name)
