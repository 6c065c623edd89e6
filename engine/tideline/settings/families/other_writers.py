"""Settings of Hudi's other front ends: Spark SQL, streams, Hudi Streamer, Flink."""

from __future__ import annotations

from tideline.settings.entries import OFF, harmless, refused

SETTINGS = (
    *refused(
        "is of Spark SQL's statements: name the operation with `operation`",
        "hoodie.spark.sql.*",
        "hoodie.sql.*",
    ),
    *refused(
        "there is no streaming sink: write each batch with foreachBatch, and a token",
        "hoodie.datasource.write.streaming.*",
    ),
    *refused(
        "is of Hudi Streamer: describe landing files in a LakeTable",
        "hoodie.deltastreamer.*",
        "hoodie.streamer.*",
    ),
    *refused(
        "Flink compacts in the writing job: say hoodie.compact.inline, or "
        "hoodie.compact.schedule.inline for another process to run it",
        "compaction.async.enabled",
        unless=OFF,
    ),
    *refused(
        "Flink clusters in the writing job: say hoodie.clustering.inline, or "
        "hoodie.clustering.schedule.inline for another process to run it",
        "clustering.async.enabled",
        unless=OFF,
    ),
    *refused(
        "Flink counts megabytes: say hoodie.clustering.plan.strategy.small.file.limit, in bytes",
        "clustering.plan.strategy.small.file.limit",
    ),
    *refused(
        "Flink counts megabytes: say hoodie.parquet.max.file.size, in bytes",
        "write.parquet.max.file.size",
    ),
    *refused(
        "Flink counts megabytes: say hoodie.parquet.block.size, in bytes",
        "write.parquet.block.size",
    ),
    *refused(
        "Flink counts megabytes: say hoodie.parquet.page.size, in bytes",
        "write.parquet.page.size",
    ),
    *refused(
        "Flink counts megabytes: say hoodie.logfile.max.size, in bytes",
        "write.log.max.size",
    ),
    *refused(
        "Flink counts megabytes: say hoodie.logfile.data.block.max.size, in bytes",
        "write.log_block.size",
    ),
    *refused(
        "a run is given up by tideline.service.timeout.seconds, and its plan stays",
        "compaction.timeout.seconds",
    ),
    *refused(
        "names a Java class, and Tideline runs none; choose by "
        "hoodie.clustering.plan.partition.filter.mode",
        "clustering.plan.strategy.class",
    ),
    *refused("changes are not kept; leave it out", "changelog.enabled", unless=OFF),
    *harmless(
        "parallelism and buffers of Flink's operators; give memory to Spark",
        "write.tasks",
        "write.bucket_assign.tasks",
        "write.index_bootstrap.tasks",
        "write.task.max.size",
        "write.batch.size",
        "write.merge.max_memory",
        "write.sort.memory",
        "compaction.tasks",
        "compaction.max_memory",
        "clustering.tasks",
    ),
)
