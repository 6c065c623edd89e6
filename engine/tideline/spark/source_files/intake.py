"""From source files to the rows a table takes: read, transform, mark deletes, fit the columns.

While all is well nothing is read twice. When a batch fails, `find_bad_input` finds the files or
rows at fault (`tideline.spark.source_files.bad_input`), and the batch is read again without them:
rows are left out by their content, so that none goes missing that was not found bad before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.key_text import TWO_TEXTS
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.spark.source_files.bad_rows import RowFault, any_fault, record_text
from tideline.spark.source_files.landed_rows import (
    cast_faults,
    cast_text,
    mark_deletes,
    transform_rows,
)
from tideline.spark.source_files.sources import BAD_RECORD, PARQUET, SourceSettings, read_files
from tideline.spark.write.keys import (
    column_of,
    partition_path_column,
    record_key_column,
    with_two_texts,
)

FaultsOf = Callable[[DataFrame], list[RowFault]]


@dataclass(frozen=True, slots=True)
class Intake:
    """How files become rows.

    `schema` is the table's, None where the first batch decides it. With `fits` text is cast to its
    types; with `only_keys` (a delete) columns that are no keys do not matter. `keys`, `ordering`
    and `required` say what a row must have; `keys` is None where there is no table yet, or none of
    Hudi. One that deletes needs what is in the `record_key` of these alone. `left_out` are the
    digests of rows that are set aside.
    """

    session: SparkSession
    settings: SourceSettings
    schema: pa.Schema | None = None
    transform: str | None = None
    delete_when: str | None = None
    fits: bool = True
    only_keys: bool = False
    keys: KeyGenerator | None = None
    ordering: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    record_key: tuple[str, ...] = ()
    left_out: frozenset[int] = frozenset()

    @property
    def is_text(self) -> bool:
        return self.settings.file_format != PARQUET

    def without(self, digests: frozenset[int], settings: SourceSettings) -> Intake:
        """The same without these rows, read as they were when they were found."""
        kept = replace(settings, keeps_bad_rows=False)
        return replace(self, settings=kept, left_out=self.left_out | digests)

    def rows(self, paths: Sequence[str]) -> DataFrame:
        """The rows of the files, in the shape of the table. Raises as `read_files` does."""
        return self.finished(self.source(paths))

    def source(self, paths: Sequence[str]) -> DataFrame:
        """The rows as they are in the files, without those that are set aside unread."""
        if not self.left_out or not self.settings.is_strict_text:
            return read_files(self.session, paths, self.settings)
        source = read_files(self.session, paths, replace(self.settings, keeps_bad_rows=True))
        record = F.col(BAD_RECORD)
        unknown = F.raise_error(F.lit("a row that was not found bad before cannot be read"))
        kept = F.when(record.isNull(), True).when(
            F.xxhash64(record).isin(list(self.left_out)), False
        )
        return source.where(kept.otherwise(unknown.cast("boolean"))).drop(BAD_RECORD)

    def finished(self, source: DataFrame) -> DataFrame:
        """Source rows in the shape of the table, without those that are set aside."""
        shaped = self._without_faulty(self.shaped(source), self.cast_faults)
        return self._without_faulty(self.fitted(shaped), self.value_faults)

    def shaped(self, source: DataFrame) -> DataFrame:
        """Source rows, transformed and marked."""
        rows = source
        if self.transform is not None:
            rows = transform_rows(self.session, rows, self.transform)
        if self.delete_when is not None:
            rows = mark_deletes(rows, self.delete_when)
        return rows

    def fitted(self, shaped: DataFrame) -> DataFrame:
        """Shaped rows in the types of the table."""
        if self.schema is None or not self.fits or not self.is_text:
            return shaped
        return cast_text(shaped, self.schema)

    def cast_faults(self, shaped: DataFrame) -> list[RowFault]:
        """What no column of the table can hold, in shaped rows."""
        if self.schema is None or not self.fits or not self.is_text:
            return []
        return cast_faults(shaped, self.schema)

    def value_faults(self, fitted: DataFrame) -> list[RowFault]:
        """What no row may lack, in rows of the table's columns."""
        own = {name.lower() for name in fitted.columns}
        stays = ~_deletes(fitted)
        faults = []
        for name in self.required:
            if name.split(".")[0].lower() in own:
                lacks = column_of(name).isNull()
                lacks = lacks if name in self.record_key else lacks & stays
                faults.append(RowFault(lacks, name, "it has no value, and the table requires one"))
        for name in self.ordering:
            lacks = column_of(name).isNull() & stays
            faults.append(RowFault(lacks, name, "the ordering value is null"))
        keys = self.keys
        if keys is None:
            return faults
        made_of = ", ".join((*keys.record_fields, *keys.plain_partition_fields))
        two_texts = with_two_texts(keys, fitted.schema)
        names = ", ".join(keys.record_fields)
        no_key = record_key_column(keys, fitted.schema).isNull() & ~two_texts
        key_faults = [
            RowFault(two_texts, made_of, TWO_TEXTS),
            RowFault(no_key, names, "the record key is null or empty"),
        ]
        if keys.partition_fields:
            names = ", ".join(part.field for part in keys.partition_fields)
            no_path = partition_path_column(keys, fitted.schema).isNull() & ~two_texts
            faults.append(RowFault(no_path, names, "the partition value cannot be read as a time"))
        return [*key_faults, *faults]

    def _without_faulty(self, rows: DataFrame, faults_of: FaultsOf) -> DataFrame:
        faults = faults_of(rows) if self.left_out else []
        if not faults:
            return rows
        is_known = F.xxhash64(record_text(rows)).isin(list(self.left_out))
        return rows.where(F.when(any_fault(faults), ~is_known).otherwise(True))


def _deletes(rows: DataFrame) -> Column:
    flagged = F.col(DELETED_FLAG) if DELETED_FLAG in rows.columns else F.lit(False)
    return F.coalesce(flagged.cast("boolean"), F.lit(False))


def has_places(rows: DataFrame) -> bool:
    """Whether the rows still say where in the files they were."""
    return ARRIVAL in rows.columns
