"""Write settings: every `hoodie.*` name the write path reads, typed, with Hudi's defaults.

Two defaults differ from Hudi's: base files are snappy rather than gzip; failed writes of others are
rolled back lazily (by heartbeat) unless the table is declared single-writer by
`hoodie.clean.failed.writes.policy=EAGER`. Choices Tideline cannot honour are refused by name.
"""

# ruff: noqa: RUF009 -- declared() makes a dataclass field
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tideline.errors import ConfigError
from tideline.heartbeat_limits import DEFAULT_LIMITS, HeartbeatLimits
from tideline.hudi.file_group.file_settings import (
    BloomSettings,
    FileSettings,
    LogSettings,
    ParquetSettings,
)
from tideline.hudi.index.index_settings import IndexSettings
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.partition_rules import EXPRESSIONS, RULE_TYPE, PartitionRules
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.metadata_table.config import KEEP_AS_IT_IS, MetadataTableConfig
from tideline.hudi.placement.upsert_partitioner import Sizing
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.settings import Settings, declared
from tideline.lock_timing import DEFAULT_TIMING, LockTiming
from tideline.settings.small_engine import SmallEngine

NULLS_MISSING_COLUMNS = "hoodie.write.set.null.for.missing.columns"


class FailedWritesPolicy(Enum):
    """Who rolls back what a dead writer left: the next writer, heartbeats, or no one."""

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class SortMode(Enum):
    """How `bulk_insert` orders rows before writing."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"


class InsertDuplicates(Enum):
    """What an insert does with a key that is stored already.

    NONE does not look: the row is stored again, or merged. DROP leaves the row out. FAIL refuses
    the write. Source: Hudi's `hoodie.datasource.insert.dup.policy`.
    """

    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


class OverwriteMode(Enum):
    """What `insert_overwrite` replaces: the partitions that get rows, or the whole table."""

    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"


class ClusteringUpdates(Enum):
    """What becomes of a write that touches file groups which a pending clustering will replace.

    The value is the name of Hudi's strategy class. REJECT refuses the write. ALLOW lets it commit,
    and the clustering finds out when it wants to.
    """

    REJECT = "SparkRejectUpdateStrategy"
    ALLOW = "SparkAllowUpdateStrategy"


@dataclass(frozen=True, slots=True)
class DeleteMarker:
    """Incoming rows with this text in this column delete their key."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class WriteConfig:
    """All settings of one write.

    A writer waits for the table lock as `lock_timing` says. What became of a commit whose reply was
    lost it asks for up to `settle_s`. `withdraws_clustering`: with updates allowed, a pending
    clustering in their way is rolled back for good.
    """

    sizing: Sizing = field(default_factory=Sizing)
    parquet: ParquetSettings = field(default_factory=ParquetSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    bloom: BloomSettings = field(default_factory=BloomSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    lock_timing: LockTiming = DEFAULT_TIMING
    settle_s: float = 60.0
    conflict_retries: int = declared("hoodie.write.num.retries.on.conflict.failures")
    heartbeat: HeartbeatLimits = DEFAULT_LIMITS
    failed_writes_policy: FailedWritesPolicy = declared(
        "hoodie.clean.failed.writes.policy", FailedWritesPolicy
    )
    combine_before_insert: bool = declared("hoodie.combine.before.insert")
    combine_before_upsert: bool = declared("hoodie.combine.before.upsert")
    combine_before_delete: bool = declared("hoodie.combine.before.delete")
    allows_duplicate_inserts: bool = declared("hoodie.merge.allow.duplicate.on.inserts")
    allows_empty_commit: bool = declared("hoodie.allow.empty.commit")
    bulk_insert_sort_mode: SortMode = declared("hoodie.bulkinsert.sort.mode", SortMode)
    commit_metadata_key_prefix: str = declared("hoodie.datasource.write.commitmeta.key.prefix")
    partial_update_columns: tuple[str, ...] | None = None
    insert_duplicates: InsertDuplicates = InsertDuplicates.NONE
    overwrite_mode: OverwriteMode | None = None
    missing_columns: MissingColumns = MissingColumns.OPTIONAL_ARE_NULL
    bulk_insert_tasks: int = declared("hoodie.bulkinsert.shuffle.parallelism")
    clustering_updates: ClusteringUpdates = declared(
        "hoodie.clustering.updates.strategy", ClusteringUpdates
    )
    withdraws_clustering: bool = declared(
        "hoodie.clustering.rollback.pending.replacecommit.on.conflict"
    )
    delete_marker: DeleteMarker | None = None
    metadata_table: MetadataTableConfig = KEEP_AS_IT_IS
    small_engine: SmallEngine = declared("tideline.engine.small", SmallEngine)

    @property
    def files(self) -> FileSettings:
        """How files are written."""
        size = self.sizing.record_size_estimate_bytes
        return FileSettings(self.parquet, self.logs, self.bloom, size)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> WriteConfig:
        """Typed settings from `hoodie.*` names; names of other concerns are left alone.

        Raises ConfigError naming the setting and its value when it cannot be read or honoured.
        """
        read = Settings(properties)
        return cls(
            **read.declared(cls),
            sizing=Sizing(**read.declared(Sizing)),
            parquet=ParquetSettings(**read.declared(ParquetSettings)),
            logs=_logs(read),
            bloom=_bloom(read),
            index=_index(read),
            lock_timing=read.lock_timing(),
            settle_s=read.integer("tideline.commit.settle.timeout.ms") / 1000,
            heartbeat=read.heartbeat_limits(),
            partial_update_columns=read.names("tideline.write.partial.update.columns") or None,
            insert_duplicates=_insert_duplicates(read),
            overwrite_mode=_overwrite_mode(read),
            missing_columns=_missing_columns(read),
            delete_marker=_delete_marker(read),
            metadata_table=MetadataTableConfig.from_settings(read),
        )


def refusing_missing_columns(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options of a strict write: input that lacks a column of the table is refused.

    Raises ConfigError where they say the opposite.
    """
    given = dict(options or {})
    said = given.setdefault(NULLS_MISSING_COLUMNS, "false")
    if said.strip().lower() != "false":
        raise ConfigError(f"{NULLS_MISSING_COLUMNS} contradicts a strict write", value=said)
    return given


def _missing_columns(read: Settings) -> MissingColumns:
    if read.is_set(NULLS_MISSING_COLUMNS):
        is_null = read.boolean(NULLS_MISSING_COLUMNS)
        return MissingColumns.NULL if is_null else MissingColumns.REFUSED
    if read.boolean("hoodie.datasource.write.reconcile.schema"):
        return MissingColumns.NULL
    return MissingColumns.OPTIONAL_ARE_NULL


def _logs(read: Settings) -> LogSettings:
    block_format = LogFormat.parse(read.text("hoodie.logfile.data.block.format"))
    return LogSettings(**read.declared(LogSettings), format=block_format)


def _insert_duplicates(read: Settings) -> InsertDuplicates:
    policy = read.member("hoodie.datasource.insert.dup.policy", InsertDuplicates)
    drops = read.boolean("hoodie.datasource.write.insert.drop.duplicates")
    if drops and policy is InsertDuplicates.FAIL:
        raise ConfigError(
            "hoodie.datasource.write.insert.drop.duplicates and "
            "hoodie.datasource.insert.dup.policy contradict each other; set the second alone",
            value=policy.value,
        )
    return InsertDuplicates.DROP if drops else policy


def _overwrite_mode(read: Settings) -> OverwriteMode | None:
    name = "hoodie.datasource.overwrite.mode"
    return read.member(name, OverwriteMode) if read.is_set(name) else None


def _delete_marker(read: Settings) -> DeleteMarker | None:
    field_name, marker_name = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
    column, text = read.text(field_name), read.text(marker_name)
    if bool(column) != bool(text):
        raise ConfigError(
            f"{field_name} and {marker_name} are set together or not at all", value=column or text
        )
    return DeleteMarker(column, text) if column else None


def _bloom(read: Settings) -> BloomSettings:
    kind = read.text("hoodie.bloom.index.filter.type")
    if kind != "DYNAMIC_V0":
        raise ConfigError(
            "only DYNAMIC_V0 is written for hoodie.bloom.index.filter.type", value=kind
        )
    wanted = read.boolean("hoodie.parquet.bloom.filter.enabled")
    return BloomSettings(
        **read.declared(BloomSettings),
        is_written=wanted or IndexType.parse(read.text("hoodie.index.type")).reads_bloom_filters,
    )


def _index(read: Settings) -> IndexSettings:
    kind = IndexType.parse(read.text("hoodie.index.type"))
    moves = kind.traits.moves_setting
    engine = read.text("hoodie.index.bucket.engine")
    if kind.places_by_hash and engine != "SIMPLE":
        raise ConfigError("only SIMPLE is supported for hoodie.index.bucket.engine", value=engine)
    return IndexSettings(
        **read.declared(IndexSettings),
        type=kind,
        updates_partition_path=bool(moves) and read.boolean(moves),
        partition_rules=PartitionRules.parse(read.text(EXPRESSIONS), read.text(RULE_TYPE)),
    )
