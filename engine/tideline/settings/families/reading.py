"""Settings of readers, which a write or a service has no use for."""

from __future__ import annotations

from tideline.settings.entries import harmless, refused

_READ = (
    "is for reading: use snapshot(spark, as_of), incremental(spark, after, until) or "
    "read_optimized(spark)"
)

SETTINGS = (
    *refused(
        _READ,
        "as.of.instant",
        "hoodie.datasource.query.*",
        "hoodie.datasource.read.*",
        "hoodie.datasource.view.type",
        "hoodie.datasource.streaming.startOffset",
        "hoodie.datasource.merge.type",
        "hoodie.incremental.use.database",
        "hoodie.query.as.ro.table",
        "hoodie.read.timeline.holes.resolution.policy",
        "hoodie.read.blob.inline.mode",
        "hoodie.realtime.merge.skip",
        "hoodie.schema.internal.querySchema",
        "read.*",
    ),
    *harmless(
        "speed of Hudi's own reader; rows read are the same",
        "hoodie.enable.data.skipping",
        "hoodie.fileIndex.dataSkippingFailureMode",
        "hoodie.file.index.*",
        "hoodie.file.group.reader.enabled",
        "hoodie.merge.use.record.positions",
        "hoodie.spark.polaris.catalog.class",
    ),
)
