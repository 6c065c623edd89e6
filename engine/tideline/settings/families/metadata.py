"""Hudi's metadata table; Tideline keeps it (docs/decisions/0035, 0079, 0080, 0081, 0083)."""

from __future__ import annotations

from tideline.settings.entries import OFF, flag, harmless, integer, names, refused, word
from tideline.settings.setting import SettingPlace

_NONE = (
    "`tideline index create` makes the indexes of a metadata table, and every commit keeps them, "
    "but for expression indexes, which are dropped; leave it out"
)
_M = "hoodie.metadata."

SETTINGS = (
    word(
        f"{_M}enable",
        "",
        ("true", "false"),
        "true makes Hudi's metadata table, with the partition `files`, where there is none; false "
        "switches it off; without it the table stays as it is",
        aliases=("metadata.enabled",),
    ),
    integer(
        f"{_M}compact.max.delta.commits",
        10,
        "the metadata table is compacted when it has so many commits since its last compaction",
        at_least=1,
    ),
    flag(
        f"{_M}index.column.stats.enable",
        "false",
        "true: a metadata table that hoodie.metadata.enable=true makes with the first commit of a "
        "table has column_stats, and partition_stats where the table has partitions; of a table "
        "with rows tideline index makes them",
    ),
    names(
        f"{_M}index.column.stats.column.list",
        "the columns that statistics are made of; without it the first ones whose values have an "
        "order",
    ),
    integer(
        f"{_M}index.column.stats.max.columns.to.index",
        32,
        "how many columns statistics are made of where no list names them",
        at_least=1,
    ),
    names(
        "tideline.indexes",
        "the partitions of the metadata table that the service `indexing` makes where they are "
        "missing, as `tideline index create` takes them; a LakeTable says them in spec.indexes",
        places=frozenset({SettingPlace.SERVICE}),
    ),
    *refused(
        _NONE,
        f"{_M}bloom.filter.enable",
        f"{_M}global.record.level.index.enable",
        f"{_M}index.bloom.filter.enable",
        f"{_M}index.expression.enable",
        f"{_M}index.partition.stats.enable",
        f"{_M}index.secondary.enable",
        f"{_M}record.index.enable",
        f"{_M}record.level.index.enable",
        f"{_M}streaming.write.enabled",
        f"{_M}index.async",
        unless=OFF,
    ),
    *refused(
        _NONE,
        f"{_M}index.drop",
        f"{_M}index.secondary.column",
        f"{_M}index.expression.column",
    ),
    *harmless(
        "tunes Hudi's metadata table; what Tideline keeps of it, it keeps with Hudi's defaults",
        f"{_M}auto.delete.partitions",
        f"{_M}auto.initialize",
        f"{_M}bloom.filter.dynamic.max.entries",
        f"{_M}bloom.filter.fpp",
        f"{_M}bloom.filter.num.entries",
        f"{_M}bloom.filter.type",
        f"{_M}compact.max.delta.seconds",
        f"{_M}compact.trigger.strategy",
        f"{_M}derive.from.datatable.clean.policy",
        f"{_M}dir.filter.regex",
        f"{_M}fallback.enable",
        f"{_M}file.cache.max.size.mb",
        f"{_M}global.record.level.index.max.filegroup.count",
        f"{_M}global.record.level.index.min.filegroup.count",
        f"{_M}index.bloom.filter.column.list",
        f"{_M}index.bloom.filter.file.group.count",
        f"{_M}index.bloom.filter.parallelism",
        f"{_M}index.check.timeout.seconds",
        f"{_M}index.column.stats.file.group.count",
        f"{_M}index.column.stats.inMemory.projection.threshold",
        f"{_M}index.column.stats.parallelism",
        f"{_M}index.column.stats.processing.mode.override",
        f"{_M}index.expression.file.group.count",
        f"{_M}index.expression.options",
        f"{_M}index.expression.parallelism",
        f"{_M}index.partition.stats.file.group.count",
        f"{_M}index.partition.stats.parallelism",
        f"{_M}index.secondary.parallelism",
        f"{_M}log.compaction.blocks.threshold",
        f"{_M}log.compaction.enable",
        f"{_M}max.deltacommits.when_pending",
        f"{_M}max.init.parallelism",
        f"{_M}max.logfile.size",
        f"{_M}max.reader.buffer.size",
        f"{_M}max.reader.memory",
        f"{_M}metrics.enable",
        f"{_M}optimized.log.blocks.scan.enable",
        f"{_M}partitioned.record.index.max.filegroup.count",
        f"{_M}partitioned.record.index.min.filegroup.count",
        f"{_M}range.repartition.random.seed",
        f"{_M}range.repartition.sampling.fraction",
        f"{_M}range.repartition.target.records.per.partition",
        f"{_M}record.index.enable.validation.on.initialization",
        f"{_M}record.index.growth.factor",
        f"{_M}record.index.max.filegroup.count",
        f"{_M}record.index.max.filegroup.size",
        f"{_M}record.index.min.filegroup.count",
        f"{_M}record.level.index.defer.init",
        f"{_M}record.level.index.max.filegroup.count",
        f"{_M}record.level.index.min.filegroup.count",
        f"{_M}record.preparation.parallelism",
        f"{_M}repartition.default.partitions",
        f"{_M}repartition.min.partitions.threshold",
        f"{_M}spillable.map.path",
        f"{_M}streaming.write.datatable.write.statuses.coalesce.divisor",
        f"{_M}table.service.manager.actions",
        f"{_M}table.service.manager.enabled",
        f"{_M}write.concurrency.mode",
        f"{_M}write.fail.on.table.service.failures",
        "_hoodie.metadata.ignore.spurious.deletes",
    ),
)
