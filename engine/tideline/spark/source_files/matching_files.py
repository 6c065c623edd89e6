"""How many rows of source files match a condition, read as an ingest reads them.

Nothing is passed over in silence: files that cannot be read, rows that are not as long as others or
do not fit the columns asked for, and files without a column that the condition asks for come back
with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.read.query import silence_refusals
from tideline.spark.source_files.arrival import PARQUET_ROW_BITS, TEXT_PART_BITS, TEXT_ROW_BITS
from tideline.spark.source_files.sources import (
    BAD_RECORD,
    PARQUET,
    SPARK_FAILURES,
    SourceGroup,
    SourceSettings,
    UnreadableFilesError,
    failure_reason,
    read_groups,
    types_of,
)
from tideline.storage.location import StoreLocation
from tideline.wording import counted

_FILE = "_tideline_file"
_MATCHING = "_tideline_matching"
_BAD = "_tideline_bad"
_FILES_AT_ONCE = 5_000


@dataclass(slots=True)
class MatchingFiles:
    """Rows that match, by path, without files that have none; and why not all of a file counts."""

    rows: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def count_in_files(
    spark: SparkSession,
    location: StoreLocation,
    file_format: str,
    paths: Sequence[str],
    known: pa.Schema,
    where: str | Column,
) -> MatchingFiles:
    """Count in the files `paths` of a folder; columns of text have the types of `known`.

    Raises ConfigError for a condition that Spark cannot parse.
    """
    silence_refusals()
    settings = SourceSettings(location, file_format, known=types_of(known), keeps_bad_rows=True)
    found = MatchingFiles()
    for start in range(0, len(paths), _FILES_AT_ONCE):
        part = _readable(spark, paths[start : start + _FILES_AT_ONCE], settings, found)
        for group in read_groups(spark, part, settings) if part else ():
            _count_group(spark, group, part, settings, where, found)
    return found


def _readable(
    spark: SparkSession, paths: Sequence[str], settings: SourceSettings, found: MatchingFiles
) -> list[str]:
    """The files that footers and headers say nothing against."""
    left = list(paths)
    while left:
        try:
            read_groups(spark, left, settings)
        except UnreadableFilesError as error:
            found.unread |= error.reasons
            left = [path for path in left if path not in error.reasons]
        except SPARK_FAILURES as error:
            if len(left) == 1:
                found.unread[left[0]] = failure_reason(error)
                return []
            return [uri for path in left for uri in _readable(spark, [path], settings, found)]
        else:
            return left
    return []


def _count_group(
    spark: SparkSession,
    group: SourceGroup,
    paths: Sequence[str],
    settings: SourceSettings,
    where: str | Column,
    found: MatchingFiles,
) -> None:
    try:
        counts = list(_counts(group, settings, where))
    except AnalysisException:
        lacks = "the condition asks for a column that it lacks, or that is of another type there"
        found.unread |= dict.fromkeys(group.paths, lacks)
        return
    except SPARK_FAILURES as error:
        if len(group.paths) == 1:
            found.unread[group.paths[0]] = failure_reason(error)
            return
        for path in group.paths:
            (alone,) = read_groups(spark, [path], settings)
            _count_group(spark, alone, [path], settings, where, found)
        return
    for file, matching, bad in counts:
        if matching:
            found.rows[paths[file]] = matching
        if bad:
            found.unread[paths[file]] = f"{counted(bad, 'row')} that cannot be read"


def _counts(
    group: SourceGroup, settings: SourceSettings, where: str | Column
) -> Iterator[tuple[int, int, int]]:
    """The number of a file, of its rows that match and of its bad ones."""
    is_text = settings.file_format != PARQUET
    bits = TEXT_PART_BITS + TEXT_ROW_BITS if is_text else PARQUET_ROW_BITS
    condition = F.expr(where) if isinstance(where, str) else where
    bad = F.count(BAD_RECORD) if BAD_RECORD in group.frame.columns else F.lit(0)
    counted_rows = group.frame.groupBy(F.shiftright(ARRIVAL, bits).alias(_FILE)).agg(
        F.count_if(condition).alias(_MATCHING), bad.alias(_BAD)
    )
    for row in counted_rows.collect():
        yield row[_FILE], row[_MATCHING], row[_BAD]
