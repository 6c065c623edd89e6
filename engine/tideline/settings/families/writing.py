"""What a write does with the rows it is given."""

from __future__ import annotations

from tideline.settings.entries import (
    OFF,
    decimal,
    flag,
    harmless,
    integer,
    names,
    refused,
    text,
    word,
)
from tideline.settings.setting import SettingPlace

_SORT_MODES = ("NONE", "GLOBAL_SORT", "PARTITION_SORT")
_OF_A_WRITE = frozenset({SettingPlace.WRITE})
SETTINGS = (
    text(
        "hoodie.datasource.write.operation",
        "upsert",
        "the operation, unless `operation` names it: then both must agree",
        aliases=("write.operation",),
        places=_OF_A_WRITE,
    ),
    flag(
        "hoodie.combine.before.insert",
        "false",
        "keep one row per key of an insert",
        aliases=("write.insert.combine",),
    ),
    flag("hoodie.combine.before.upsert", "true", "keep one row per key of an upsert"),
    flag("hoodie.combine.before.delete", "true", "delete a key once, however often it is given"),
    word(
        "hoodie.datasource.insert.dup.policy",
        "none",
        ("none", "drop", "fail"),
        "an insert of a stored key: `none` stores it again or merges, as "
        "`hoodie.merge.allow.duplicate.on.inserts` says; `drop` leaves the row out; `fail` "
        "refuses the write. Not on tables with a bucket index",
    ),
    flag(
        "hoodie.datasource.write.insert.drop.duplicates",
        "false",
        "the same as `hoodie.datasource.insert.dup.policy=drop`",
        aliases=("write.insert.drop.duplicates",),
    ),
    flag("hoodie.merge.allow.duplicate.on.inserts", "true", "an insert may repeat a stored key"),
    word(
        "hoodie.datasource.overwrite.mode",
        "",
        ("STATIC", "DYNAMIC"),
        "of insert_overwrite: DYNAMIC replaces the partitions that get rows, as without it; "
        "STATIC replaces the whole table",
    ),
    word(
        "hoodie.bulkinsert.sort.mode",
        "NONE",
        _SORT_MODES,
        "NONE, GLOBAL_SORT, PARTITION_SORT",
    ),
    integer(
        "hoodie.bulkinsert.shuffle.parallelism",
        0,
        "tasks that write a bulk insert, and so the most files of a partition; 0: as many as the "
        "frame has partitions",
    ),
    flag(
        "hoodie.write.set.null.for.missing.columns",
        "",
        "true: columns that the input lacks are null in its rows, and required ones become "
        "optional; false: such input is refused; without it optional columns are null, and input "
        "that lacks a required one is refused",
        hudi_default="false",
    ),
    flag(
        "hoodie.datasource.write.reconcile.schema",
        "false",
        "the table's columns stay, those that the input lacks are null in its rows",
    ),
    text(
        "hoodie.payload.delete.field",
        "",
        "rows with the marker in this column delete their key, as those with "
        "`_hoodie_is_deleted` do",
    ),
    text("hoodie.payload.delete.marker", "", "the text that marks them"),
    flag("hoodie.allow.empty.commit", "true", "commit a write of no rows"),
    text(
        "hoodie.datasource.write.commitmeta.key.prefix",
        "_",
        "extra metadata with this prefix is carried into the commit",
    ),
    integer(
        "hoodie.write.num.retries.on.conflict.failures",
        0,
        "times that a write is repeated after a conflict with another writer",
    ),
    names(
        "tideline.write.partial.update.columns",
        "update these columns only, keep the others; all, unless set",
    ),
    decimal(
        "hoodie.record.size.estimation.threshold",
        "1.0",
        "a commit counts for the size of rows when its files reach this share of the small file "
        "limit",
    ),
    *refused(
        "the frame's own columns are the schema; add, cast or rename them there",
        "hoodie.avro.schema",
        "hoodie.write.schema",
        "hoodie.avro.schema.external.transformation",
        "hoodie.internal.schema",
    ),
    *harmless(
        "every write is checked against the table's schema",
        "hoodie.avro.schema.validate",
    ),
    *refused(
        "columns are never dropped by a write; leave it out",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        unless=OFF,
    ),
    *harmless(
        "columns of a table that Hudi altered so are always found by their ids, and its history of "
        "the schema is carried on; a write adds and widens columns, and renames or drops none",
        "hoodie.schema.on.read.enable",
    ),
    *refused(
        "rows get no operation column; leave it out",
        "hoodie.allow.operation.metadata.field",
        unless=OFF,
    ),
    *refused(
        "a row that cannot be written fails the write; set bad ones aside with --on-bad-row",
        "hoodie.write.ignore.failed",
        unless=OFF,
    ),
    *refused(
        "give the partitions to delete_partitions(), or a frame of them to the operation",
        "hoodie.datasource.write.partitions.to.delete",
        "hoodie.static.overwrite.partition.paths",
    ),
    *refused(
        "give `tideline.write.partial.update.columns` the columns to update",
        "hoodie.write.partial.update.schema",
    ),
    *refused(
        "extra metadata is given with the write (extra_metadata); leave it out",
        "hoodie.write.track.event.time.watermark",
        "hoodie.payload.event.time.field",
        "hoodie.write.rolling.metadata.keys",
        unless=OFF,
    ),
    *harmless(
        "belongs to `hoodie.write.rolling.metadata.keys`, which is refused",
        "hoodie.write.rolling.metadata.timeline.lookback.commits",
    ),
    *refused(
        "an instant belongs to one write; leave it out",
        "_.hoodie.allow.multi.write.on.same.instant",
        unless=OFF,
    ),
    *refused(
        "sort by hoodie.bulkinsert.sort.mode, or arrange the frame yourself",
        "hoodie.bulkinsert.sort.suffix.record_key",
        unless=OFF,
    ),
    *refused(
        "names a Java class, and Tideline runs none; arrange the frame yourself",
        "hoodie.bulkinsert.user.defined.partitioner.class",
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
    ),
    *refused(
        "no such check is made; look with `tideline check`",
        "hoodie.merge.data.validation.enabled",
        "hoodie.precommit.validators",
        "hoodie.prewrite.validators",
        unless=OFF,
    ),
    *harmless(
        "belongs to `hoodie.precommit.validators`, which is refused",
        "hoodie.precommit.validators.*",
    ),
    *harmless(
        "how Hudi turns a frame into records; rows are Arrow here",
        "hoodie.datasource.write.row.writer.enable",
    ),
    *harmless(
        "how many tasks Hudi writes with; here the file groups decide, and Spark's own settings",
        "hoodie.insert.shuffle.parallelism",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
    ),
    *refused(
        "of Hudi's own insides; leave it out",
        "hoodie.internal.*",
        "hoodie.bulkinsert.overwrite.operation.type",
        "hoodie.bulkinsert.schema.ddl",
        "hoodie.bulkinsert.are.partitioner.records.sorted",
    ),
)
