"""Several writers of one table: locks, heartbeats, conflicts, and what dead writers left."""

from __future__ import annotations

from tideline.settings.entries import OFF, flag, harmless, integer, refused, settles, text, word
from tideline.settings.setting import Kind, Risk

_LOCK = "hoodie.write.lock."
_OTHER_LOCKS = (
    "Tideline locks with Hudi's storage lock on S3 and with the kernel's on a folder; give every "
    "writer org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
)

SETTINGS = (
    word(
        "hoodie.clean.failed.writes.policy",
        "LAZY",
        ("EAGER", "LAZY", "NEVER"),
        "LAZY: roll back writers whose heartbeat is dead; EAGER: all pending writes, for a "
        "declared single writer; NEVER",
        hudi_default="EAGER",
        aliases=("hoodie.cleaner.policy.failed.writes",),
    ),
    text(
        "tideline.timezone",
        "",
        "the time zone of the instants, where `hoodie.table.timeline.timezone` is LOCAL: "
        "`America/Los_Angeles`, `+05:30`, `UTC`; as an option too",
    ),
    settles(
        "tideline.single.writer",
        "the table is declared to have one writer: EAGER, unless the policy is set",
        kind=Kind.FLAG,
        default="false",
    ),
    integer(
        "hoodie.client.heartbeat.interval_in_ms",
        60_000,
        "how often a writer shows that it lives",
        at_least=1,
    ),
    integer(
        "hoodie.client.heartbeat.tolerable.misses",
        10,
        "how many silences make it dead",
        hudi_default="2",
    ),
    integer(
        "hoodie.write.lock.wait_time_ms",
        60_000,
        "how long to wait for the table lock. Unless it is set, a lease that is no longer "
        "renewed, that of a killed writer, is waited for to its end",
    ),
    integer(
        "hoodie.write.lock.client.num_retries",
        0,
        "how many more times to wait as long",
        hudi_default="50",
    ),
    integer("hoodie.write.lock.client.wait_time_ms_between_retry", 5_000, "how long between them"),
    integer(
        "hoodie.write.lock.wait_time_ms_between_retry",
        1_000,
        "the longest pause between two looks at the lock",
        at_least=1,
    ),
    integer(
        "hoodie.write.lock.storage.validity.timeout.secs",
        60,
        "on S3: how long a lease of the lock lasts, and a killed holder blocks others; at least "
        "10 renewals",
        at_least=10,
        hudi_default="300",
    ),
    integer(
        "hoodie.write.lock.storage.renew.interval.secs",
        "",
        "how often it is renewed; a tenth of the lease, unless set",
        at_least=1,
        hudi_default="30",
        aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",),
    ),
    integer(
        "tideline.commit.settle.timeout.ms",
        60_000,
        "how long a write asks what became of its commit when the reply was lost, before it ends "
        "with an unknown outcome",
    ),
    word(
        "hoodie.clustering.updates.strategy",
        "SparkRejectUpdateStrategy",
        ("SparkRejectUpdateStrategy", "SparkAllowUpdateStrategy"),
        "a write meets a pending clustering: `…SparkRejectUpdateStrategy` refuses it, "
        "`…SparkAllowUpdateStrategy` lets it commit",
    ),
    flag(
        "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
        "false",
        "with updates allowed: the clustering is rolled back for good",
    ),
    *harmless(
        "Hudi's storage lock does not look at it either",
        f"{_LOCK}num_retries",
        f"{_LOCK}max_wait_time_ms_between_retry",
        f"{_LOCK}app_id",
    ),
    *harmless(
        "the lock is there without it",
        "hoodie.auto.adjust.lock.configs",
    ),
    *refused(
        _OTHER_LOCKS,
        f"{_LOCK}provider",
        unless=("StorageBasedLockProvider",),
        risk=Risk.LOCKING,
    ),
    *refused(
        _OTHER_LOCKS,
        f"{_LOCK}zookeeper.*",
        f"{_LOCK}hivemetastore.*",
        f"{_LOCK}dynamodb.*",
        f"{_LOCK}filesystem.*",
        f"{_LOCK}heartbeat_interval_ms",
    ),
    *refused(
        "writers never share a file group: use OPTIMISTIC_CONCURRENCY_CONTROL, which is what "
        "Tideline does",
        "hoodie.write.concurrency.mode",
        unless=("OPTIMISTIC_CONCURRENCY_CONTROL", "SINGLE_WRITER"),
        risk=Risk.LOCKING,
    ),
    *refused(
        "names a Java class, and Tideline runs none; writers conflict where they touch one file "
        "group",
        f"{_LOCK}conflict.resolution.strategy",
        unless=("SimpleConcurrentFileWritesConflictResolutionStrategy",),
        aliases=("hoodie.write.conflict.resolution.strategy",),
    ),
    *refused(
        "conflicts are found when a write commits; leave it out",
        "hoodie.write.concurrency.early.conflict.detection.enable",
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
        unless=OFF,
    ),
    *harmless(
        "belongs to early conflict detection, which is refused",
        "hoodie.write.concurrency.early.conflict.detection.strategy",
        "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
        "hoodie.write.concurrency.async.conflict.detector.period_ms",
    ),
    *refused(
        "schemas that changed at once are always looked at; leave it out",
        "hoodie.write.concurrency.schema.conflict.resolution.enable",
        unless=("true",),
    ),
    *refused(
        "a clustering that meets an ingest is settled by hoodie.clustering.updates.strategy",
        "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution",
        unless=OFF,
    ),
    *refused(
        "instant times continue from the timeline's newest, under the lock; leave it out",
        "hoodie.time.generator.*",
        "_hoodie.time.generator.reuse.enable",
    ),
    *refused(
        "what a rollback deletes is gone; make a savepoint of what you may need",
        "hoodie.rollback.instant.backup.enabled",
        unless=OFF,
    ),
    *harmless(
        "belongs to backups of rolled back instants, which are refused",
        "hoodie.rollback.instant.backup.dir",
    ),
    *harmless(
        "a rollback uses markers where there are any, else it looks at the files",
        "hoodie.rollback.using.markers",
    ),
    *harmless(
        "a rollback that is planned already is carried out, not planned again",
        "hoodie.rollback.avoid.duplicate.plan",
    ),
)
