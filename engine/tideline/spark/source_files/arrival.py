"""The order of arrival of rows: by file, then by position in the file.

The number is one long, so that it can break ties without a sort:

- parquet: file (23 bits), row in the file (40 bits);
- text: file (16 bits), the part of the file a task reads, in units of 4 MiB (16 bits), row in the
  task's partition (31 bits). Spark never splits files more finely than that, one task reads the
  parts of its partition in order, and two parts of a file in different units never tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.quoting import column_named

TEXT_FILES_MAX = 1 << 16
TEXT_PART_BITS = 16
TEXT_ROW_BITS = 31
PARQUET_ROW_BITS = 40
_PATH = "_tideline_path"
_PLACE = "_tideline_place"
_POSITION = "_tideline_position"
_TEXT_UNIT_BITS = 22  # 4 MiB, Spark's spark.sql.files.openCostInBytes


def with_arrival(frame: DataFrame, uris: Sequence[str], places: Sequence[int]) -> DataFrame:
    """Add `_tideline_sequence` as the last column to a frame read straight from the files `uris`.

    `places` are the files' places among all files of the batch.
    """
    columns = [column_named(name) for name in frame.columns if name != ARRIVAL]
    is_parquet = "row_index" in _metadata_names(frame)
    position = F.col("_metadata.row_index") if is_parquet else _text_position()
    bits = PARQUET_ROW_BITS if is_parquet else TEXT_PART_BITS + TEXT_ROW_BITS
    if len(uris) == 1:
        sequence = F.shiftleft(F.lit(places[0]).cast("bigint"), bits).bitwiseOR(position)
        return frame.select(*columns, sequence.alias(ARRIVAL))
    located = frame.select(
        *columns, position.alias(_POSITION), F.col("_metadata.file_path").alias(_PATH)
    )
    sequence = F.shiftleft(F.col(_PLACE), bits).bitwiseOR(F.col(_POSITION))
    placed = located.join(F.broadcast(_places(frame.sparkSession, uris, places)), _PATH)
    return placed.select(*columns, sequence.alias(ARRIVAL))


def spelled_uri(session: SparkSession, uri: str) -> str:
    """A file's URI as Spark's metadata spells it."""
    # Spark's public API does not say how it percent-encodes a path.
    jvm: Any = session._jvm
    return str(jvm.org.apache.hadoop.fs.Path(uri).toUri().toString())


def _metadata_names(frame: DataFrame) -> list[str]:
    kind: Any = frame.select("_metadata").schema["_metadata"].dataType
    return list(kind.names)


def _text_position() -> Column:
    unit = F.shiftright(F.col("_metadata.file_block_start"), _TEXT_UNIT_BITS)
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << TEXT_ROW_BITS) - 1))
    return F.shiftleft(unit, TEXT_ROW_BITS).bitwiseOR(row)


def _places(session: SparkSession, uris: Sequence[str], places: Sequence[int]) -> DataFrame:
    """A small local relation from a file's path, spelled as Spark's metadata spells it."""
    spelled = [spelled_uri(session, uri) for uri in uris]
    return session.createDataFrame(
        pa.table({_PATH: pa.array(spelled), _PLACE: pa.array(places, pa.int64())})
    )
