"""Which engine moves rows, and memory, threads, caches and retries of Hudi's own, which is not at
work here."""

from __future__ import annotations

from tideline.settings.entries import OFF, harmless, refused, word

SETTINGS = (
    word(
        "tideline.engine.small",
        "in_process",
        ("in_process", "spark"),
        "which engine does small work: `in_process` moves its rows in this process, without "
        "Spark's tasks; `spark` leaves all work to them",
    ),
    *harmless(
        "memory and threads of Hudi's own engine; give memory to Spark",
        "hoodie.memory.*",
        "hoodie.common.spillable.diskmap.type",
        "hoodie.common.diskmap.compression.enabled",
        "hoodie.cdc.file.group.iterator.memory.spill.bytes",
        "hoodie.write.buffer.limit.bytes",
        "hoodie.write.buffer.record.cache.limit",
        "hoodie.write.buffer.record.sampling.rate",
        "hoodie.write.executor.type",
        "hoodie.write.executor.disruptor.buffer.limit.bytes",
        "hoodie.write.executor.disruptor.wait.strategy",
        "hoodie.write.status.storage.level",
        "hoodie.write.tagged.record.storage.level",
        "hoodie.release.resource.on.completion.enable",
        "hoodie.finalize.write.parallelism",
        "hoodie.markers.delete.parallelism",
        "hoodie.markers.timeline_server_based.batch.interval_ms",
        "hoodie.markers.timeline_server_based.batch.num_threads",
        "hoodie.rollback.parallelism",
        "hoodie.file.listing.parallelism",
    ),
    *harmless(
        "Hudi's driver serves its timeline to its tasks; tasks here get what they need with "
        "their work",
        "hoodie.embed.timeline.server",
        "hoodie.embed.timeline.server.*",
        "hoodie.filesystem.view.*",
        "hoodie.filesystem.remote.backup.view.enable",
    ),
    *harmless(
        "requests to the store are always retried, with growing pauses",
        "hoodie.filesystem.operation.retry.*",
    ),
    *refused(
        "there is no server that keeps tables' metadata; leave it out",
        "hoodie.metaserver.enabled",
        unless=OFF,
    ),
    *harmless(
        "belongs to a server that is refused",
        "hoodie.metaserver.*",
        "hoodie.table.service.manager.*",
    ),
    *harmless("says what Hudi hides in its logs", "hoodie.sensitive.config.keys"),
    *harmless("names the writing application in Hudi's logs", "hoodie.write.application.id"),
)
