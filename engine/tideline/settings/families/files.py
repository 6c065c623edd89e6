"""Base files and log files: how large they get and how they are encoded."""

from __future__ import annotations

from tideline.settings.entries import OFF, decimal, flag, harmless, integer, refused, word

SETTINGS = (
    integer(
        "hoodie.parquet.max.file.size",
        125_829_120,
        "target size of a base file, bytes",
        at_least=1,
    ),
    integer("hoodie.parquet.small.file.limit", 104_857_600, "files below it take inserts, bytes"),
    decimal(
        "hoodie.parquet.compression.ratio",
        "0.1",
        "a new file may grow by this share beyond the maximum, so that no tiny one follows",
    ),
    integer(
        "hoodie.copyonwrite.record.size.estimate",
        1024,
        "bytes per row before there are commits to learn from",
        at_least=1,
    ),
    flag(
        "hoodie.copyonwrite.insert.auto.split",
        "true",
        "rows per new file follow from their size; else from the next setting",
    ),
    integer(
        "hoodie.copyonwrite.insert.split.size",
        500_000,
        "rows per new file without `insert.auto.split`",
        at_least=1,
    ),
    word(
        "hoodie.parquet.compression.codec",
        "snappy",
        ("snappy", "zstd", "gzip", "lz4_raw", "uncompressed"),
        "snappy, zstd, gzip, lz4_raw, uncompressed",
        hudi_default="gzip",
    ),
    integer("hoodie.parquet.block.size", 125_829_120, "row group, bytes", at_least=1),
    integer("hoodie.parquet.page.size", 1_048_576, "page, bytes", at_least=1),
    flag(
        "hoodie.parquet.dictionary.enabled",
        "true",
        "columns whose values repeat are stored with a dictionary",
    ),
    word(
        "hoodie.logfile.data.block.format",
        "parquet",
        ("parquet", "avro"),
        "merge-on-read: parquet or avro rows in log files",
        hudi_default="avro",
    ),
    integer("hoodie.logfile.max.size", 1_073_741_824, "where a log file ends, bytes", at_least=1),
    integer(
        "hoodie.logfile.data.block.max.size",
        268_435_456,
        "where a block in it ends, bytes",
        at_least=1,
    ),
    integer(
        "hoodie.merge.small.file.group.candidates.limit",
        1,
        "merge-on-read: so many small file groups of a partition are rewritten to take inserts",
    ),
    *refused(
        "base files are written in Parquet; leave it out",
        "hoodie.orc.*",
        "hoodie.hfile.*",
        "hoodie.lance.*",
    ),
    *refused(
        "timestamps are stored with the unit of the table's schema; leave it out",
        "hoodie.parquet.outputtimestamptype",
        unless=("TIMESTAMP_MICROS",),
    ),
    *refused(
        "base files are written in Parquet's present format; leave it out",
        "hoodie.parquet.writelegacyformat.enabled",
        "hoodie.parquet.field_id.write.enabled",
        unless=OFF,
    ),
    *refused(
        "timestamps are stored in UTC; leave it out",
        "hoodie.parquet.write.utc-timezone.enabled",
        unless=("true",),
    ),
    *refused(
        "log files count with their own size; leave it out",
        "hoodie.logfile.to.parquet.compression.ratio",
    ),
    *refused(
        "names a Java class, and Tideline runs none; leave it out",
        "hoodie.avro.write.support.class",
        "hoodie.parquet.flink.rowdata.write.support.class",
        "hoodie.parquet.spark.row.write.support.class",
        "hoodie.parquet.write.config.injector.class",
        "hoodie.fileid.prefix.provider.class",
        "hoodie.io.factory.class",
        "hoodie.storage.class",
        "hoodie.write.merge.handle.class",
        "hoodie.write.merge.handle.fallback",
        "hoodie.write.concat.handle.class",
        "hoodie.compact.merge.handle.class",
        "hoodie.writestatus.class",
        "hoodie.client.init.callback.classes",
        "hoodie.record.size.estimator.class",
    ),
    *refused(
        "the size of rows is learned from commits; set hoodie.copyonwrite.record.size.estimate",
        "_hoodie.record.size.estimator.max.commits",
        "hoodie.record.size.estimator.average.metadata.size",
    ),
    *refused(
        "blocks say no positions in tables of version 6; leave it out",
        "hoodie.write.record.positions",
        unless=OFF,
    ),
    *harmless(
        "a marker is always an object of its own, and all are gone after the commit",
        "hoodie.write.markers.type",
        words=("DIRECT", "TIMELINE_SERVER_BASED"),
    ),
    *harmless(
        "files that no task reported are always deleted before the commit",
        "hoodie.fail.job.on.duplicate.data.file.detection",
        "hoodie.block.writes.on.speculative.execution",
    ),
    *refused(
        "stores must be consistent at once, and are asked whether they are; leave it out",
        "hoodie.consistency.check.enabled",
        "_hoodie.optimistic.consistency.guard.enable",
        "hoodie.fs.atomic_creation.support",
        unless=OFF,
    ),
    *harmless(
        "belongs to checks of consistency, which are refused",
        "hoodie.consistency.check.initial_interval_ms",
        "hoodie.consistency.check.max_checks",
        "hoodie.consistency.check.max_interval_ms",
        "hoodie.optimistic.consistency.guard.sleep_time_ms",
    ),
)
