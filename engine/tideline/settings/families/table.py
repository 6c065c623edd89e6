"""What a table is: said when it is created, kept in it, and repeated by writers at most."""

from __future__ import annotations

from tideline.settings.entries import OFF, harmless, refused, settles, stored
from tideline.settings.setting import STORED_ONLY, Kind

SETTINGS = (
    settles(
        "hoodie.table.name", "name of the table", aliases=("hoodie.datasource.write.table.name",)
    ),
    settles("hoodie.database.name", "database of the table"),
    settles(
        "hoodie.table.type",
        "COPY_ON_WRITE or MERGE_ON_READ",
        default="COPY_ON_WRITE",
        aliases=(
            "hoodie.datasource.write.table.type",
            "hoodie.datasource.write.storage.type",
            "table.type",
        ),
    ),
    settles("hoodie.table.version", "version of the table's format: 6, 8 or 9", default="6"),
    settles(
        "hoodie.timeline.layout.version",
        "layout of the timeline: 1, or 2 in versions 8 and 9",
        default="1",
    ),
    settles(
        "hoodie.table.recordkey.fields",
        "columns that identify a row",
        kind=Kind.NAMES,
        aliases=("hoodie.datasource.write.recordkey.field",),
    ),
    settles(
        "hoodie.table.partition.fields",
        "columns that decide a row's folder",
        kind=Kind.NAMES,
        aliases=("hoodie.datasource.write.partitionpath.field",),
    ),
    settles(
        "hoodie.table.ordering.fields",
        "columns whose higher value wins",
        kind=Kind.NAMES,
        aliases=(
            "hoodie.table.precombine.field",
            "hoodie.datasource.write.precombine.field",
            "hoodie.payload.ordering.field",
            "ordering.fields",
            "precombine.field",
            "write.precombine.field",
        ),
    ),
    settles(
        "hoodie.table.keygenerator.type",
        "SIMPLE, COMPLEX, NON_PARTITION, TIMESTAMP, CUSTOM",
        aliases=("hoodie.datasource.write.keygenerator.type",),
    ),
    settles(
        "hoodie.table.keygenerator.class",
        "the same as Hudi's class",
        aliases=("hoodie.datasource.write.keygenerator.class",),
    ),
    settles(
        "hoodie.record.merge.mode",
        "EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING; CUSTOM is refused",
        aliases=("hoodie.write.record.merge.mode",),
    ),
    settles(
        "hoodie.compaction.payload.class",
        "the same as a payload class: DefaultHoodieRecordPayload, EventTimeAvroPayload, "
        "OverwriteWithLatestAvroPayload; others are refused",
        aliases=("hoodie.datasource.write.payload.class",),
    ),
    settles(
        "hoodie.record.merge.strategy.id",
        "the same as a strategy's id",
        aliases=(
            "hoodie.write.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
            "hoodie.compaction.record.merger.strategy",
        ),
    ),
    settles(
        "hoodie.datasource.write.hive_style_partitioning",
        "partition paths as `column=value`",
        kind=Kind.FLAG,
        default="false",
        aliases=("hive_style_partitioning",),
    ),
    settles(
        "hoodie.datasource.write.partitionpath.urlencode",
        "percent-encode partition values",
        kind=Kind.FLAG,
        default="false",
    ),
    settles(
        "hoodie.datasource.write.drop.partition.columns",
        "leave partition columns out of the files; such tables are read, not written",
        kind=Kind.FLAG,
        default="false",
    ),
    settles(
        "hoodie.datasource.write.slash.separated.date.partitioning",
        "dates as folders of year, month and day; such tables are not written",
        kind=Kind.FLAG,
        default="false",
    ),
    settles(
        "hoodie.populate.meta.fields",
        "store Hudi's five columns with every row",
        kind=Kind.FLAG,
        default="true",
    ),
    settles(
        "hoodie.table.base.file.format",
        "PARQUET",
        default="PARQUET",
        aliases=("hoodie.base.file.format", "hoodie.table.ro.file.format"),
    ),
    settles(
        "hoodie.table.cdc.enabled",
        "keep a log of changes; such tables are read, not written",
        kind=Kind.FLAG,
        default="false",
    ),
    settles(
        "hoodie.table.multiple.base.file.formats.enable",
        "several base file formats in one table; refused",
        kind=Kind.FLAG,
        default="false",
    ),
    settles("hoodie.table.format", "`native`; other table formats are refused", default="native"),
    settles("hoodie.table.timeline.timezone", "whose digits instant times are: UTC or LOCAL"),
    settles("hoodie.archivelog.folder", "where archived instants are", default="archived"),
    stored(
        "hoodie.timeline.path",
        "the folder of instants in `.hoodie`, in tables of versions 8 and 9",
        default="timeline",
    ),
    stored(
        "hoodie.timeline.history.path",
        "the folder of archived instants below it",
        default="history",
    ),
    settles(
        "hoodie.partition.metafile.use.base.format",
        "partition metadata as a parquet file",
        kind=Kind.FLAG,
        default="false",
    ),
    stored("hoodie.table.checksum", "is computed from the table's name"),
    stored("hoodie.table.create.schema", "follows from the schema given at creation"),
    stored("hoodie.table.metadata.partitions", "says which partitions a metadata table has"),
    stored("hoodie.table.metadata.partitions.inflight", "says which are being built"),
    stored("hoodie.table.index.defs.path", "says where Hudi describes its indexes"),
    stored(
        "hoodie.bootstrap.base.path",
        "where the files are that a bootstrap made the table of; such tables are not changed",
    ),
    stored("hoodie.table.initial.version", "the version that the table was created with"),
    stored(
        "hoodie.table.legacy.payload.class", "what an earlier version of the table merged rows by"
    ),
    *harmless(
        "Hudi keeps it in the table; nothing here depends on it",
        "hoodie.table.secondary.indexes.metadata",
        "hoodie.table.partition_extractor_class",
        "hoodie.table.cdc.supplemental.logging.mode",
        "hoodie.bootstrap.index.class",
        "hoodie.bootstrap.index.type",
        "hoodie.bootstrap.index.enable",
        places=STORED_ONLY,
    ),
    *refused(
        "log files are Hudi's; leave it out",
        "hoodie.table.log.file.format",
        unless=("HOODIE_LOG",),
        aliases=("hoodie.table.rt.file.format",),
    ),
    *refused(
        "a table keeps its version; a new one gets it from table_version=, --table-version or "
        "spec.tableVersion; leave it out",
        "hoodie.write.table.version",
        unless=("6", "8", "9"),
    ),
    *refused(
        "Tideline changes no version unasked (tideline upgrade); leave it out, and give it as "
        "false to writers of Hudi 1.x",
        "hoodie.write.auto.upgrade",
        unless=OFF,
    ),
    *refused(
        "open the table by its URI",
        "hoodie.base.path",
    ),
    *refused(
        "no table is bootstrapped here; create one and write the files to it",
        "hoodie.bootstrap.*",
    ),
)
