"""Services that follow a commit, and what all services share."""

from __future__ import annotations

from tideline.settings.entries import OFF, decimal, flag, names, refused, text, word

SETTINGS = (
    flag(
        "hoodie.table.services.enabled",
        "true",
        "false: no service follows a commit, regardless of the other settings",
    ),
    flag("hoodie.clean.automatic", "true", "clean after a commit"),
    flag(
        "hoodie.clean.async.enabled",
        "false",
        "clean concurrently with the write, in Hudi; here the write cleans after its commit "
        "either way",
        aliases=("hoodie.clean.async", "clean.async.enabled"),
    ),
    flag("hoodie.archive.automatic", "true", "archive after a commit"),
    flag(
        "hoodie.archive.async",
        "false",
        "archive concurrently with the write, in Hudi; here the write archives after its commit "
        "either way",
    ),
    flag(
        "hoodie.compact.inline",
        "",
        "run pending compactions and what is due; true for rows written to merge-on-read tables, "
        "as in Hudi, unless set",
    ),
    flag(
        "hoodie.compact.schedule.inline",
        "false",
        "only write the plan, for another process to run",
        aliases=("compaction.schedule.enabled",),
    ),
    flag(
        "hoodie.datasource.compaction.async.enable",
        "false",
        "another process schedules and runs compactions",
        hudi_default="true",
    ),
    flag("hoodie.log.compaction.inline", "false", "compact logs after a commit"),
    flag(
        "hoodie.clustering.inline",
        "false",
        "run pending clusterings and what is due",
        aliases=("hoodie.datasource.clustering.inline.enable",),
    ),
    flag(
        "hoodie.clustering.schedule.inline",
        "false",
        "only write the plan",
        aliases=("clustering.schedule.enabled",),
    ),
    flag(
        "hoodie.clustering.async.enabled",
        "false",
        "only write the plan, as well",
        aliases=("hoodie.datasource.clustering.async.enable",),
    ),
    flag("hoodie.partition.ttl.inline", "false", "drop partitions that outlived their time"),
    flag(
        "hoodie.fail.writes.on.inline.table.service.exception",
        "false",
        "raise what fails after the commit; otherwise it is logged and named in the report: a "
        "write that took place does not look failed",
        hudi_default="true",
    ),
    decimal(
        "tideline.service.timeout.seconds",
        "",
        "give a run up after this long, its plan stays; no limit, unless set",
    ),
    word(
        "tideline.publish",
        "",
        ("iceberg",),
        "publish every commit as Iceberg metadata over the same files; not done unless set",
    ),
    flag(
        "tideline.publish.merge",
        "false",
        "publish merge-on-read tables with what their logs hold, not as of the newest compaction",
    ),
    text(
        "tideline.publish.identifier",
        "",
        "`namespace.name` of the published table in a catalog; in the table's folder unless set",
    ),
    text(
        "tideline.publish.catalog",
        "",
        "the catalog's name in PyIceberg's configuration and environment; `default` unless set",
    ),
    word(
        "tideline.publish.catalog.type",
        "",
        ("rest", "sql", "glue", "hive"),
        "the kind of catalog; follows from its address unless set",
    ),
    text(
        "tideline.publish.catalog.uri",
        "",
        "the catalog's address, without a password; it must be that of PyIceberg's configuration",
    ),
    text("tideline.publish.catalog.warehouse", "", "the catalog's warehouse"),
    names(
        "tideline.sync",
        "metastores that every commit is registered in: `hive`, `glue`; in none unless set",
    ),
    text(
        "tideline.sync.hive.uri",
        "",
        "the address of Hive's metastore, `thrift://host:9083`, or several; that of the "
        "environment, `TIDELINE_HIVE_URI`, unless given; one that a table stores is not followed",
    ),
    text(
        "tideline.sync.hive.database",
        "",
        "the database in it; `hoodie.database.name`, or `default`, unless set",
    ),
    text("tideline.sync.hive.name", "", "the table's name in it; `hoodie.table.name` unless set"),
    text(
        "tideline.sync.glue.uri",
        "",
        "the region of a Glue catalog, or its address; that of the environment, "
        "`TIDELINE_GLUE_URI`, unless given; one that a table stores is not followed",
    ),
    text(
        "tideline.sync.glue.database",
        "",
        "the database in it; `hoodie.database.name`, or `default`, unless set",
    ),
    text("tideline.sync.glue.name", "", "the table's name in it; `hoodie.table.name` unless set"),
    flag(
        "hoodie.table.services.incremental.enabled",
        "true",
        "compaction and clustering look only at partitions written to since the last run",
    ),
    *refused(
        "what happens when a service after a commit fails is set with "
        "hoodie.fail.writes.on.inline.table.service.exception",
        "hoodie.write.can.ignore.post.commit.failures",
        unless=("true",),
        aliases=("hoodie.post.commit.failures.ignored",),
    ),
    *refused(
        "what happens when a service after a commit fails is set with "
        "hoodie.fail.writes.on.inline.table.service.exception",
        "hoodie.fail.on.timeline.archiving",
        unless=OFF,
    ),
    *refused(
        "a clean that is due follows the commit; to roll back dead writers first set "
        "hoodie.clean.failed.writes.policy",
        "hoodie.prewrite.cleaner.policy",
        unless=("NONE",),
    ),
    *refused(
        "services are run by writers, `tideline execute` or the operator; leave it out",
        "hoodie.table.service.manager.enabled",
        unless=OFF,
    ),
)
