"""A source of files as Spark reads it for one shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tideline.bad_input import BadInput
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.locate import locate
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.source import Measured, Range, Shape
from tideline.spark.source_files.bad_input import find_bad_input, misfits
from tideline.spark.source_files.column_inference import Roles
from tideline.spark.source_files.intake import Intake
from tideline.spark.source_files.landed_rows import known_types, struct_of
from tideline.spark.source_files.sources import SourceSettings, types_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class FilesOnSpark:
    """See `tideline.ingest.sources.source.SparkRows`."""

    intake: Intake
    is_typed: bool
    remembers_columns: bool

    @classmethod
    def of(
        cls,
        files: DeclaredFiles,
        session: SparkSession,
        shape: Shape,
        reading: SourceSettings | None,
    ) -> FilesOnSpark:
        """`reading` are the settings that bad rows were found with."""
        is_text = files.file_format.is_text
        # Text that is transformed keeps the types its first batch was read with.
        remembers = is_text and shape.transform is not None and not files.schema
        kept = None if reading is None else replace(reading, keeps_bad_rows=False)
        intake = Intake(
            session,
            kept or _settings(files, shape, remembers),
            shape.schema,
            transform=shape.transform,
            delete_when=shape.delete_when,
            fits=shape.fits,
            only_keys=shape.only_keys,
            keys=shape.keys,
            ordering=shape.ordering,
            required=shape.required,
            record_key=shape.record_key,
            left_out=shape.left_out,
        )
        return cls(intake, not is_text, remembers)

    def source(self, taken: Range) -> DataFrame:
        return self.intake.source(taken.names)

    def finished(self, source: DataFrame) -> DataFrame:
        return self.intake.finished(source)

    def misfits(self, taken: Range) -> BadInput:
        return BadInput(misfits(self.intake, taken.names))

    def find_bad(
        self, taken: Range, rows_max: int | None, try_rows: Callable[[DataFrame], None]
    ) -> BadInput:
        return find_bad_input(self.intake, taken.names, rows_max=rows_max, try_rows=try_rows)

    def measured(self, taken: Range) -> Measured:
        return Measured(taken)


def _settings(files: DeclaredFiles, shape: Shape, remembers: bool) -> SourceSettings:
    known = known_types(shape.columns) if remembers else types_of(shape.schema)
    declared = struct_of(arrow_schema(files.schema)) if files.schema else None
    return SourceSettings(
        locate(files.landing),
        files.file_format.value,
        files.options,
        declared,
        known,
        Roles.of(shape.record_key, shape.ordering_columns),
        inferred=frozenset(known.keys() - (frozenset() if remembers else shape.stated)),
    )
