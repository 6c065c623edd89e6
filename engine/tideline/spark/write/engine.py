"""The write engine on Spark: shuffles and joins in Spark, files in Arrow tasks.

1. `profile`: keys alone are looked up in the stored files; where each is found is kept.
2. `write`: rows are joined with their locations, numbered by bucket, shuffled so that a bucket
   is in one task, sorted by (bucket, key, ordering, arrival), and written by `write_tasks`.

The batch is read in each of these steps, so it has to give the same rows every time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import InvalidDataError
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.row_fold import row_fold
from tideline.hudi.file_group.stored_key_lookup import IS_GONE, LOCATED_FILE, LookupSettings
from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.index.hash_ring import RingHash
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.placement.targets import BucketPlacement, KeyHash, Target
from tideline.hudi.placement.upsert_partitioner import BucketPlan
from tideline.hudi.placement.workload_profile import WorkloadProfile, located_profile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.table.schema import stored_schema
from tideline.hudi.table.schema_change import SchemaChange
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.hudi.write.config import SortMode, WriteConfig
from tideline.hudi.write.matched_rows import MatchedRows
from tideline.hudi.write.unique_keys import stored_twice
from tideline.spark.quoting import column_named
from tideline.spark.task_errors import raised_errors
from tideline.spark.write.batch import PARTITION_PATH, BatchFacts, PreparedBatch
from tideline.spark.write.bucket_hash import with_bucket_id, with_ring_bucket
from tideline.spark.write.bulk_insert import bulk_insert
from tideline.spark.write.folded_rows import filled_from_stored
from tideline.spark.write.key_lookup import locate_keys
from tideline.spark.write.keys import column_of, field_type
from tideline.spark.write.tasks import BUCKET, ROWS_READ, SPARK_STAT_SCHEMA, WriteBuckets
from tideline.wording import counted

HASH_BUCKET = "_tideline_hash_bucket"
BROADCAST_ROWS_MAX = 2_000_000
"""Up to this many located keys go to every executor; more and they are shuffled."""
TASKS_MAX = 2_000


class SparkWriteEngine:
    """See `tideline.hudi.write.engine.WriteEngine`. Call `release` when the write is over."""

    def __init__(
        self,
        spark: SparkSession,
        table: HoodieTable,
        keys: KeyGenerator,
        config: WriteConfig,
        batch: PreparedBatch,
        *,
        facts: BatchFacts | None = None,
        inserts_rows: bool = True,
        matched: MatchedRows | None = None,
    ) -> None:
        self.matched = matched
        self._spark = spark
        self._table = table
        self._keys = keys
        self._config = config
        self._batch = batch
        self._facts = facts
        self._inserts_rows = inserts_rows
        self._candidates: tuple[LookupCandidate, ...] = ()
        self._rows = batch.rows
        self._located: DataFrame | None = None
        self._kept: list[DataFrame] = []

    @property
    def schema(self) -> pa.Schema:
        return self._batch.schema.schema

    @property
    def schema_change(self) -> SchemaChange:
        return self._batch.schema.change

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(self._counts.rows_per_partition))

    @property
    def _counts(self) -> BatchFacts:
        assert self._facts is not None, "only a bulk insert runs without inspecting its batch"
        return self._facts

    def release(self) -> None:
        """Drop what was kept in Spark's cache."""
        for frame in self._kept:
            frame.unpersist()

    @property
    def row_count(self) -> int:
        return self._counts.rows

    def keys_by_partition(self, count_max: int | None = None) -> Mapping[str, Sequence[str]]:
        keys = self._rows.select(PARTITION_PATH, RECORD_KEY)
        if count_max is not None and self.row_count > count_max:
            keys = keys.sample(fraction=count_max / self.row_count, seed=0)
        with raised_errors():
            found = keys.toArrow()
        by_partition = found.group_by(PARTITION_PATH).aggregate([(RECORD_KEY, "list")])
        listed = by_partition[f"{RECORD_KEY}_list"].to_pylist()
        return dict(zip(by_partition[PARTITION_PATH].to_pylist(), listed, strict=True))

    def leave_out_stored(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> int:
        if not candidates:
            return 0
        located = self._locate(candidates, timeline)
        stored = located.where(~F.col(IS_GONE)).select(RECORD_KEY, PARTITION_PATH)
        remaining = self.keep(self._rows.join(stored, [RECORD_KEY, PARTITION_PATH], "left_anti"))
        with raised_errors():
            counted = remaining.groupBy(PARTITION_PATH).count().collect()
        facts = BatchFacts({row[PARTITION_PATH]: row["count"] for row in counted})
        left_out = self._counts.rows - facts.rows
        self._rows, self._facts = remaining, facts
        return left_out

    def _locate(self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline) -> DataFrame:
        """Where the stored ones of the incoming keys are; see `locate_keys`."""
        index = self._config.index
        has_logs = any(candidate.has_logs for candidate in candidates)
        reading = self._reading(timeline) if has_logs else None
        settings = LookupSettings.of(self._table.config, index, self._keys, reading)
        return locate_keys(
            self._spark,
            self._table.location,
            self._rows,
            candidates,
            settings,
            by_key_only=index.type.is_global,
            ordering=self._stored_ordering_fields(),
        )

    def profile(
        self, candidates: Sequence[LookupCandidate], timeline: ActiveTimeline
    ) -> WorkloadProfile:
        self._candidates = tuple(candidates)
        located: dict[tuple[str, int], int] = {}
        if candidates:
            self._located = self.keep(self._locate(candidates, timeline))
            self._fill_rows_found_elsewhere(timeline)
            located, has_gone = self._count_located()
            if has_gone:
                self._located = self.keep(_without_needless(self._located))
                located, _ = self._count_located()
        known = self._known_keys()
        if self._config.index.type is IndexType.RECORD_INDEX:
            self._require_one_partition(sum(located.values()) - sum(known.values()))
        return located_profile(
            self._counts.rows_per_partition,
            located,
            self._candidates,
            distinct_located=known,
            moves_rows=self._config.index.updates_partition_path,
        )

    def _fill_rows_found_elsewhere(self, timeline: ActiveTimeline) -> None:
        """Merge rows that may move with the stored ones, where rows fill each other up."""
        fold = row_fold(self._table.config, self.schema)
        if fold is None or not self._inserts_rows or not self._config.index.updates_partition_path:
            return
        assert self._located is not None, "asked once keys are located"
        home = F.get(self._homes(), F.col(LOCATED_FILE))
        away = self._located.where(~F.col(IS_GONE) & (home != F.col(PARTITION_PATH)))
        with raised_errors():
            files = [row[0] for row in away.select(LOCATED_FILE).distinct().collect()]
        if not files:
            return
        reading = SliceContext.of(self._table, timeline, stored_schema(self.schema))
        slices = [self._candidates[number].whole for number in sorted(files)]
        found = away.select(RECORD_KEY).distinct()
        location = self._table.location
        filled = filled_from_stored(self._rows, found, fold, self._keys, slices, reading, location)
        self._rows = self.keep(filled)
        with raised_errors():
            counted = self._rows.groupBy(PARTITION_PATH).count().collect()
        self._facts = BatchFacts({row[PARTITION_PATH]: row["count"] for row in counted})
        self._located = self.keep(self._locate(self._candidates, timeline))

    def _require_one_partition(self, copies: int) -> None:
        """Raise CorruptTableError when any incoming key is stored in two partitions.

        A record index has one place for each key. Where it is wrong, the rows of such a key may be
        different things, and updating all of them would make them one.
        """
        if not copies:
            return
        assert self._located is not None, "there are none without it"
        home = F.get(self._homes(), F.col(LOCATED_FILE))
        homes = F.collect_set(home).alias("homes")
        doubled = self._located.groupBy(RECORD_KEY).agg(homes).where(F.size("homes") > 1)
        for key, places in doubled.orderBy(RECORD_KEY).limit(1).collect():
            raise stored_twice(key, places, self._table.location.uri)

    def _homes(self) -> Column:
        """The partitions of the candidates, by number."""
        return F.lit(np.array([file.partition for file in self._candidates]))

    def _count_located(self) -> tuple[dict[tuple[str, int], int], bool]:
        """Located keys by partition and file, and whether logs deleted any of them."""
        assert self._located is not None, "asked once keys are located"
        counts = F.count("*").alias("rows"), F.count_if(IS_GONE).alias("gone")
        with raised_errors():
            found = self._located.groupBy(PARTITION_PATH, LOCATED_FILE).agg(*counts).collect()
        located = {(row[PARTITION_PATH], row[LOCATED_FILE]): row["rows"] for row in found}
        return located, any(row["gone"] for row in found)

    def profile_by_hash(self, hashed: KeyHash) -> Mapping[tuple[str, int], int]:
        rows = self._with_hash(self._rows, hashed)
        counted = rows.groupBy(PARTITION_PATH, HASH_BUCKET).count().collect()
        return {(row[PARTITION_PATH], row[HASH_BUCKET]): row["count"] for row in counted}

    def write(
        self,
        plan: BucketPlan,
        targets: Mapping[int, Target],
        context: HandleContext,
        *,
        drops_duplicates: bool,
        placement: BucketPlacement | None = None,
    ) -> Sequence[WriteStat]:
        if not plan.buckets:
            return ()
        routed = self._route_by_hash(placement) if placement is not None else self._route(plan)
        key = self._batch.sources.key
        order = [F.col(BUCKET)]
        if context.partial is not None:
            # Rows of a key are merged in the order of their arrival.
            order += [column_named(key), F.col(ARRIVAL)]
        elif drops_duplicates:
            order += [column_named(key), *map(column_of, context.ordering_fields), F.col(ARRIVAL)]
        computed = [key] if key == RECORD_KEY else []
        shuffled = (
            routed.where(F.col(BUCKET).isNotNull())
            .repartitionById(min(len(plan.buckets), TASKS_MAX), F.col(BUCKET))
            .sortWithinPartitions(*order)
            .select(BUCKET, *computed, *self._flag_columns(), *_quoted(context.schema.names))
        )
        task = WriteBuckets(self._table.location, context, targets, drops_duplicates, key)
        with raised_errors():
            answers = shuffled.mapInArrow(task, SPARK_STAT_SCHEMA).collect()
        reports = [json.loads(row[0]) for row in answers]
        self._check_rows_read(sum(report.get(ROWS_READ, 0) for report in reports), plan)
        return [WriteStat.from_report(report) for report in reports if ROWS_READ not in report]

    def bulk_insert(self, context: HandleContext, sort_mode: SortMode) -> Sequence[WriteStat]:
        tasks = self._config.bulk_insert_tasks
        return bulk_insert(self._table, self._batch, context, sort_mode, tasks)

    def keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def _reading(self, timeline: ActiveTimeline) -> SliceContext:
        """How to read slices whose logs show which keys they have."""
        schema = self._table.schemas.newest(timeline)
        return SliceContext.of(self._table, timeline, schema or stored_schema(self.schema))

    def _known_keys(self) -> Mapping[str, int]:
        """Stored keys by incoming partition, where counting their copies would not do.

        A global index may find all of a partition's keys elsewhere. Then no update bucket is there
        to take a new key that stored duplicates made the profile overlook.
        """
        if self._located is None or not self._config.index.type.is_global:
            return {}
        keys = F.count_distinct(RECORD_KEY).alias("keys")
        found = self._located.groupBy(PARTITION_PATH).agg(keys).collect()
        return {row[PARTITION_PATH]: row["keys"] for row in found}

    def _with_location(self, rows: DataFrame) -> DataFrame:
        """Rows with `LOCATED_FILE`, null where the key is not stored."""
        if self._located is None:
            return rows.withColumn(LOCATED_FILE, F.lit(None).cast("int"))
        ordering = self._stored_ordering_fields().names
        located = self._located.select(
            F.col(RECORD_KEY).alias("_k"),
            F.col(PARTITION_PATH).alias("_p"),
            LOCATED_FILE,
            *[column_named(name).alias(f"_stored_{name}") for name in ordering],
        )
        if self._counts.rows <= BROADCAST_ROWS_MAX:
            located = F.broadcast(located)
        matches = (rows[RECORD_KEY] == located["_k"]) & (rows[PARTITION_PATH] == located["_p"])
        tagged = rows.join(located, matches, "left").drop("_k", "_p")
        return self._move_rows(tagged) if self._config.index.type.is_global else tagged

    def _move_rows(self, tagged: DataFrame) -> DataFrame:
        """Rows of a global index whose key is stored under another partition path.

        Where the index follows the new path and the incoming row wins, it becomes a delete in the
        old partition and an insert in the new one; otherwise it goes to the old partition.
        Source: Hudi's HoodieIndexUtils.tagGlobalLocationBackToRecords.
        """
        tagged = tagged.withColumn("_home", F.get(self._homes(), F.col(LOCATED_FILE)))
        elsewhere = F.col("_home").isNotNull() & (F.col("_home") != F.col(PARTITION_PATH))
        moves = F.lit(False)
        if self._config.index.updates_partition_path:
            moves = elsewhere & ~self._is_delete() & self._wins()
        tagged = tagged.withColumn("_moves", moves).withColumn(IS_DELETE, self._is_delete())
        path = F.when(F.col("_moves"), F.col(PARTITION_PATH)).otherwise(
            F.coalesce("_home", PARTITION_PATH)
        )
        staying = tagged.withColumn(
            LOCATED_FILE, F.when(~F.col("_moves"), F.col(LOCATED_FILE))
        ).withColumn(PARTITION_PATH, path)
        leaving = (
            tagged.where(F.col("_moves"))
            .withColumn(PARTITION_PATH, F.col("_home"))
            .withColumn(IS_DELETE, F.lit(True))
        )
        stored = [f"_stored_{name}" for name in self._stored_ordering_fields().names]
        return staying.unionByName(leaving).drop("_home", "_moves", *stored)

    def _wins(self) -> Column:
        ordering = self._stored_ordering_fields().names
        if not ordering:
            return F.lit(True)
        incoming = F.struct(*[column_of(name).alias(name) for name in ordering])
        stored = F.struct(*[F.col(f"`_stored_{name}`").alias(name) for name in ordering])
        return F.coalesce(incoming >= stored, F.lit(True))

    def _is_delete(self) -> Column:
        return F.col(IS_DELETE) if self._batch.has_deletes else F.lit(False)

    def _stored_ordering_fields(self) -> T.StructType:
        """Ordering columns to read with the stored keys: only a global index compares them."""
        config = self._table.config
        fields = T.StructType()
        if self._config.index.type.is_global and config.merge_mode is MergeMode.EVENT_TIME_ORDERING:
            for name in config.ordering_fields:
                fields.add(name, field_type(self._rows.schema, name))
        return fields

    def _flag_columns(self) -> list[str]:
        moves_rows = self._located is not None and self._config.index.type.is_global
        return [IS_DELETE] if self._batch.has_deletes or moves_rows else []

    def _route(self, plan: BucketPlan) -> DataFrame:
        """Rows with their bucket's number: by location, else by the hash of the key."""
        rows = self._with_location(self._rows)
        bucket: Column = F.lit(None).cast("int")
        if self._located is not None:
            numbers = plan.update_numbers()
            by_file = np.array(
                [numbers.get((f.partition, f.file_id), -1) for f in self._candidates], np.int32
            )
            bucket = F.get(F.lit(by_file), F.col(LOCATED_FILE))
        routes = self._insert_routes(plan)
        if routes.num_rows:
            rows = self._join_small(rows, routes, PARTITION_PATH)
            bucket = F.when(F.col(LOCATED_FILE).isNull(), insert_bucket_column()).otherwise(bucket)
        return rows.withColumn(BUCKET, bucket)

    def _insert_routes(self, plan: BucketPlan) -> pa.Table:
        """Per partition how inserts choose their bucket."""
        routes = plan.insert_routes(inserts_rows=self._inserts_rows)
        totals = [max(1, plan.total_inserts.get(partition, 1)) for partition in routes]
        return pa.table(
            {
                PARTITION_PATH: pa.array(list(routes), pa.string()),
                "_total": pa.array(totals, pa.int64()),
                "_shares": pa.array(
                    [[share for share, _ in pairs] for pairs in routes.values()],
                    pa.list_(pa.float64()),
                ),
                "_numbers": pa.array(
                    [[number for _, number in pairs] for pairs in routes.values()],
                    pa.list_(pa.int32()),
                ),
            }
        )

    def _route_by_hash(self, placement: BucketPlacement) -> DataFrame:
        rows = self._with_hash(self._rows, placement.hashed)
        routes = pa.table(
            {
                PARTITION_PATH: [partition for partition, _ in placement.numbers],
                HASH_BUCKET: pa.array([bucket for _, bucket in placement.numbers], pa.int32()),
                BUCKET: pa.array(list(placement.numbers.values()), pa.int32()),
            }
        )
        return self._join_small(rows, routes, PARTITION_PATH, HASH_BUCKET)

    def _with_hash(self, rows: DataFrame, hashed: KeyHash) -> DataFrame:
        if isinstance(hashed, RingHash):
            return with_ring_bucket(rows, HASH_BUCKET, hashed)
        fields = hashed.fields or self._keys.record_fields
        return with_bucket_id(rows, HASH_BUCKET, fields, self._bucket_count(hashed))

    def _bucket_count(self, buckets: BucketHash) -> Column:
        """Number of buckets of each row's partition, where rules distinguish partitions."""
        partitions: dict[int, list[str]] = {}
        for partition in self.partitions if buckets.rules.rules else ():
            partitions.setdefault(buckets.count_in(partition), []).append(partition)
        count = F.lit(buckets.num_buckets)
        for number, names in partitions.items():
            count = F.when(F.col(PARTITION_PATH).isin(names), F.lit(number)).otherwise(count)
        return count

    def _join_small(self, rows: DataFrame, routes: pa.Table, *on: str) -> DataFrame:
        return rows.join(F.broadcast(self._spark.createDataFrame(routes)), list(on), "left")

    def _check_rows_read(self, rows_read: int, plan: BucketPlan) -> None:
        """An input that changes between two reads of it must not lose rows unnoticed."""
        if self._inserts_rows and rows_read < self._counts.rows:
            raise InvalidDataError(
                f"the input had {counted(self._counts.rows, 'row')} when inspected and "
                f"{rows_read:,} when written; it must not change during a write",
                table=self._table.location.uri,
                value=len(plan.buckets),
            )


def _without_needless(located: DataFrame) -> DataFrame:
    """Located keys, those that logs deleted only where nothing else has them, and in one place.

    A row of such a key goes back to where it was: Hudi's index, which looks into base files alone,
    finds it there.
    """
    key = [RECORD_KEY, PARTITION_PATH]
    stored = located.where(~F.col(IS_GONE))
    gone = located.where(IS_GONE).join(stored.select(*key).distinct(), key, "left_anti")
    places = gone.groupBy(*key).agg(F.min(LOCATED_FILE).alias(LOCATED_FILE))
    kept = gone.join(places, [*key, LOCATED_FILE], "left_semi")
    return stored.unionByName(kept)


def insert_bucket_column() -> Column:
    """The insert bucket of a row joined with `_insert_routes`; see upsert_partitioner.bucket_of.

    The hash is the first 8 bytes of the key's MD5, little endian: its hex is read byte by byte
    from the end.
    """
    digest = F.md5(F.col(RECORD_KEY).cast("binary"))
    reversed_hex = F.concat(*[F.substring(digest, position, 2) for position in range(15, 0, -2)])
    value = F.conv(reversed_hex, 16, -10).cast("bigint")
    point = F.pmod(value, F.col("_total")) / F.col("_total").cast("double")
    index = F.size(F.filter(F.col("_shares"), lambda share: share < point))
    chosen = F.get(F.col("_numbers"), index)
    # With one bucket there is nothing to hash for; the branch is taken per partition.
    return F.when(F.size("_numbers") == 1, F.get(F.col("_numbers"), F.lit(0))).otherwise(chosen)


def _quoted(names: Sequence[str]) -> list[Column]:
    return [column_named(name) for name in names]
