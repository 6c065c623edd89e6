"""How the file group of a key is found. What places rows is fixed when the table is created."""

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

_INDEXES = (
    "SIMPLE",
    "BLOOM",
    "GLOBAL_SIMPLE",
    "GLOBAL_BLOOM",
    "BUCKET",
    "RECORD_INDEX",
    "GLOBAL_RECORD_LEVEL_INDEX",
)

SETTINGS = (
    word(
        "hoodie.index.type",
        "SIMPLE",
        _INDEXES,
        "SIMPLE, BLOOM, GLOBAL_SIMPLE, GLOBAL_BLOOM, BUCKET, RECORD_INDEX (also called "
        "GLOBAL_RECORD_LEVEL_INDEX; keys are found in the files); BUCKET is fixed for the table's "
        "life",
        aliases=("index.type",),
    ),
    word(
        "tideline.index.type",
        "",
        _INDEXES,
        "the index that every writer of the table uses; kept from `hoodie.index.type` at creation, "
        "or declared (`tideline declare --index`)",
    ),
    integer(
        "hoodie.bucket.index.num.buckets",
        256,
        "buckets per partition; fixed for the table's life",
        at_least=1,
    ),
    names(
        "hoodie.bucket.index.hash.field",
        "record key columns to hash; all, unless set",
        aliases=("hoodie.index.bucket.hash.field",),
    ),
    text(
        "hoodie.bucket.index.partition.expressions",
        "",
        "`regex,buckets;regex,buckets`: partitions with another number of buckets, the first "
        "expression found in the path deciding; regular expressions that Java may read otherwise "
        "are refused",
    ),
    word(
        "hoodie.bucket.index.partition.rule.type",
        "REGEX",
        ("REGEX",),
        "how these expressions are written",
    ),
    word(
        "hoodie.index.bucket.engine",
        "SIMPLE",
        ("SIMPLE", "CONSISTENT_HASHING"),
        "the kind of bucket index; CONSISTENT_HASHING is for tables that Hudi made so",
    ),
    flag(
        "hoodie.simple.index.update.partition.path",
        "true",
        "GLOBAL_SIMPLE moves a row whose partition changed",
    ),
    flag(
        "hoodie.bloom.index.update.partition.path",
        "true",
        "GLOBAL_BLOOM moves a row whose partition changed",
    ),
    flag(
        "hoodie.record.index.update.partition.path",
        "false",
        "RECORD_INDEX moves a row whose partition changed",
    ),
    flag(
        "hoodie.bloom.index.prune.by.ranges",
        "true",
        "pass over files whose range of keys does not hold the key",
    ),
    integer(
        "hoodie.index.bloom.num_entries",
        60_000,
        "keys that the bloom filter of a base file is made for at most",
        at_least=1,
    ),
    decimal("hoodie.index.bloom.fpp", "1e-9", "share of other keys that the filter lets through"),
    word(
        "hoodie.bloom.index.filter.type",
        "DYNAMIC_V0",
        ("DYNAMIC_V0",),
        "the filter's kind; only DYNAMIC_V0 is written",
    ),
    integer(
        "hoodie.bloom.index.filter.dynamic.max.entries",
        100_000,
        "keys up to which a filter grows",
    ),
    flag(
        "hoodie.parquet.bloom.filter.enabled",
        "true",
        "write bloom filters of keys to base files; with a bloom index they always are, and Hudi "
        "needs them for one",
    ),
    *refused(
        "the bucket count of a table is one number, fixed at its creation: set "
        "hoodie.bucket.index.num.buckets then",
        "hoodie.bucket.index.max.num.buckets",
        "hoodie.bucket.index.min.num.buckets",
        "hoodie.bucket.index.merge.threshold",
        "hoodie.bucket.index.split.threshold",
    ),
    *refused(
        "it follows from hoodie.index.type; leave it out",
        "hoodie.storage.layout.type",
        unless=("DEFAULT",),
    ),
    *refused(
        "names a Java class, and Tideline runs none; choose by hoodie.index.type",
        "hoodie.index.class",
        "hoodie.storage.layout.partitioner.class",
    ),
    *refused(
        "keys are looked up in the footers of base files; leave it out",
        "hoodie.bloom.index.use.metadata",
        unless=OFF,
    ),
    *refused(
        "indexes made by SQL are kept in a metadata table, which Tideline does not have",
        "hoodie.index.name",
        "hoodie.expression.index.*",
    ),
    *harmless(
        "speed of Hudi's own lookup; Spark decides here how keys are looked up in parallel",
        "hoodie.bloom.index.bucketized.checking",
        "hoodie.bloom.index.bucketized.checking.enable.dynamic.parallelism",
        "hoodie.bloom.index.fileid.key.sorting.enable",
        "hoodie.bloom.index.input.storage.level",
        "hoodie.bloom.index.keys.per.bucket",
        "hoodie.bloom.index.parallelism",
        "hoodie.bloom.index.use.caching",
        "hoodie.bloom.index.use.treebased.filter",
        "hoodie.bucket.index.query.pruning",
        "hoodie.bucket.index.remote.partitioner.enable",
        "hoodie.global.index.reconcile.parallelism",
        "hoodie.global.simple.index.parallelism",
        "hoodie.record.index.input.storage.level",
        "hoodie.record.index.use.caching",
        "hoodie.simple.index.input.storage.level",
        "hoodie.simple.index.parallelism",
        "hoodie.simple.index.use.caching",
    ),
)
