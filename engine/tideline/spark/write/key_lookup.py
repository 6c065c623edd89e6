"""Index lookup on Spark: which file slice holds each incoming key.

1. The candidates (latest file slices) are cut into chunks, each within one partition unless the
   index is global, so that a big partition is looked up by several tasks.
2. Incoming keys go to every chunk of their partition; the rows themselves do not move.
3. A task looks them up in the candidates of its chunk
   (`tideline.hudi.file_group.stored_key_lookup`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tideline.formats.gathered_rows import gathered
from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.stored_key_lookup import (
    IS_GONE,
    LOCATED_FILE,
    LookupSettings,
    StoredKeyLookup,
    lookup_chunks,
)
from tideline.hudi.file_group.wanted_keys import WantedKeys
from tideline.spark.task_errors import carried_errors
from tideline.spark.write.batch import PARTITION_PATH
from tideline.spark.write.tasks import split_runs
from tideline.storage.location import StoreLocation

CHUNK = "_tideline_chunk"
_TASKS_MAX = 1_000
_SLAB_ROWS_MAX = 2_000_000
"""Incoming keys a task holds at once; more are looked up slab by slab."""


def locate_keys(
    spark: SparkSession,
    location: StoreLocation,
    incoming: DataFrame,
    candidates: Sequence[LookupCandidate],
    settings: LookupSettings,
    *,
    by_key_only: bool,
    ordering: T.StructType,
) -> DataFrame:
    """(`RECORD_KEY`, `PARTITION_PATH`, `LOCATED_FILE`, `IS_GONE`, ordering columns) of stored keys.

    `LOCATED_FILE` numbers `candidates`. Keys match within their partition, or anywhere for a
    global index (`by_key_only`). `ordering` names stored columns to return as well.
    """
    parallelism = spark.sparkContext.defaultParallelism
    chunks = lookup_chunks(candidates, parallelism, by_key_only)
    keys = incoming.select(RECORD_KEY, PARTITION_PATH)
    numbers = pa.table({CHUNK: pa.array(range(len(chunks)), pa.int32())})
    if by_key_only:
        routed = keys.crossJoin(F.broadcast(spark.createDataFrame(numbers)))
    else:
        partitions = pa.array([candidates[chunk[0]].partition for chunk in chunks], pa.string())
        routes = spark.createDataFrame(numbers.append_column(PARTITION_PATH, partitions))
        routed = keys.join(F.broadcast(routes), PARTITION_PATH)
    tasks = min(len(chunks), _TASKS_MAX)
    routed = routed.select(CHUNK, RECORD_KEY, PARTITION_PATH).repartitionById(tasks, F.col(CHUNK))
    if tasks < len(chunks):
        routed = routed.sortWithinPartitions(CHUNK)
    answer = T.StructType(
        [
            T.StructField(RECORD_KEY, T.StringType()),
            T.StructField(PARTITION_PATH, T.StringType()),
            T.StructField(LOCATED_FILE, T.IntegerType()),
            T.StructField(IS_GONE, T.BooleanType()),
            *ordering.fields,
        ]
    )
    columns = to_arrow_schema(answer, timezone="UTC")
    lookup = StoredKeyLookup(tuple(candidates), settings, columns)
    return routed.mapInArrow(LookUpKeys(location, lookup, chunks), answer)


@dataclass(frozen=True, slots=True)
class LookUpKeys:
    """Task function: (chunk, key, partition) grouped by chunk -> the located keys."""

    location: StoreLocation
    lookup: StoredKeyLookup
    chunks: tuple[tuple[int, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        with carried_errors():
            for chunk, rows in split_runs(batches, CHUNK):
                for slab in gathered(rows, _SLAB_ROWS_MAX, len):
                    keys, partitions = (slab.column(n) for n in (RECORD_KEY, PARTITION_PATH))
                    numbers = self.chunks[chunk]
                    wanted = WantedKeys.of(
                        keys.combine_chunks(), partitions.combine_chunks(), len(numbers)
                    )
                    for number in numbers:
                        yield from self.lookup.look_up(store, number, wanted)
