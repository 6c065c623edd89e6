"""Iceberg tables that are refused, as in refused_specs.py."""

from __future__ import annotations

from tideline_operator.testing.refused_specs import (
    RefusedSpec,
    with_iceberg,
    with_spec,
    without_from_iceberg,
)

ONLY_HUDI = "is for Hudi tables"
HUDI_SERVICE = "is a service of Hudi tables; Iceberg tables have rewriteDataFiles"
ICEBERG_SERVICE = "is a service of Iceberg tables (spec.format: Iceberg)"
ONE_PLACE = "give one of location (the folder of a table that no catalog keeps) and catalog"


def _of_hudi(line: str, field: str, words: str = ONLY_HUDI) -> RefusedSpec:
    """A field that an Iceberg table does not have."""
    return RefusedSpec(with_iceberg(line), f"spec.{field}: {words}", f"spec.{field}", words)


def _of_iceberg(line: str, field: str, words: str = ICEBERG_SERVICE) -> RefusedSpec:
    """A field that a Hudi table does not have."""
    return RefusedSpec(with_spec(line), f"spec.{field}: {words}", f"spec.{field}", words)


def _of_hive(kind: str, uri: str) -> RefusedSpec:
    """An address of another kind of catalog."""
    place = f"catalog: {{type: {kind}, uri: '{uri}', table: a.b}}"
    words = "a Hive metastore, and nothing else, has an address as thrift://host:9083"
    return RefusedSpec(
        with_iceberg("").replace("location: table", place),
        f"spec.catalog.uri: {words}",
        "spec.catalog.uri",
        words,
    )


ICEBERG_REFUSALS = (
    _of_hudi("type: MERGE_ON_READ", "type"),
    _of_hudi("tableVersion: 6", "tableVersion"),
    _of_hudi(
        "partitionBy: ['day:SIMPLE']",
        "partitionBy",
        "has no :SIMPLE and :TIMESTAMP in an Iceberg table, but day(...) and the like",
    ),
    _of_iceberg(
        "partitionBy: [day(ts)]",
        "partitionBy",
        "names columns of a Hudi table; day(...) and the like are Iceberg's",
    ),
    _of_hudi("index: {type: BLOOM}", "index"),
    _of_hudi("indexes: [column_stats]", "indexes"),
    _of_hudi("keyGenerator: {hiveStyle: true}", "keyGenerator"),
    _of_hudi('properties: {hoodie.x: "1"}', "properties"),
    _of_hudi("savepoints: [{name: a}]", "savepoints"),
    _of_hudi("restoreTo: a", "restoreTo"),
    _of_hudi(
        "services: {compaction: {trigger: {deltaCommits: 3}}}", "services.compaction", HUDI_SERVICE
    ),
    _of_hudi("services: {logCompaction: {enabled: true}}", "services.logCompaction", HUDI_SERVICE),
    _of_hudi("services: {clustering: {enabled: true}}", "services.clustering", HUDI_SERVICE),
    _of_hudi("services: {cleaning: {retain: 3}}", "services.cleaning", HUDI_SERVICE),
    _of_hudi("services: {archiving: {enabled: false}}", "services.archiving", HUDI_SERVICE),
    _of_hudi("services: {partitionTtl: {days: 3}}", "services.partitionTtl", HUDI_SERVICE),
    _of_hudi(
        "deletionPolicy: Delete",
        "deletionPolicy",
        "Delete is for Hudi tables; the files of an Iceberg table stay",
    ),
    _of_hudi(
        "ingest: [{name: a, source: {format: csv, path: in}}]",
        "recordKey",
        "is required for an ingest that upserts or deletes: the columns that identify a row",
    ),
    _of_hudi("catalog: {type: rest, uri: 'http://c', table: a.b}", "location", ONE_PLACE),
    RefusedSpec(
        without_from_iceberg("  location: table"),
        f"spec.location: {ONE_PLACE}",
        "spec.location",
        ONE_PLACE,
    ),
    _of_iceberg("formatVersion: 3", "formatVersion", "is for Iceberg tables"),
    RefusedSpec(
        with_iceberg("formatVersion: 1"),
        "spec.formatVersion: 1; allowed: a whole number from 2 to 3",
        "spec.formatVersion",
        "should be greater than or equal to 2",
    ),
    _of_iceberg("services: {rewriteDataFiles: {}}", "services.rewriteDataFiles"),
    _of_iceberg("services: {rewritePositionDeletes: {}}", "services.rewritePositionDeletes"),
    _of_iceberg("services: {rewriteManifests: {}}", "services.rewriteManifests"),
    _of_iceberg("services: {expireSnapshots: {retainLast: 2}}", "services.expireSnapshots"),
    _of_iceberg("services: {removeOrphanFiles: {mode: Auto}}", "services.removeOrphanFiles"),
    _of_iceberg(
        "services: {quietFor: 5m}",
        "services.quietFor",
        "is for Iceberg tables (spec.format: Iceberg)",
    ),
    _of_iceberg(
        "catalog: {type: rest, uri: 'http://c', table: a.b}",
        "catalog",
        "is for Iceberg tables (format: Iceberg) and for Hudi tables that are published in it",
    ),
    RefusedSpec(
        with_iceberg("rerun: {compaction: 1}"),
        "spec.rerun.compaction: unknown name; allowed: expireSnapshots, removeOrphanFiles",
        "spec.rerun",
        "allowed: rewriteDataFiles, rewritePositionDeletes, rewriteManifests",
    ),
    RefusedSpec(
        with_spec("rerun: {rewriteDataFiles: 1}"),
        "spec.rerun.rewriteDataFiles: unknown name; allowed: archiving, cleaning",
        "spec.rerun",
        "allowed: compaction, logCompaction",
    ),
    RefusedSpec(
        with_iceberg("storeRef: minio").replace("location: table", "catalog: {type: rest}"),
        "spec.catalog.table: is required",
        "spec.catalog.table",
        "Required value",
    ),
    RefusedSpec(
        with_iceberg("").replace(
            "location: table", "catalog: {type: sql, uri: 'postgresql://a:b@c/d', table: a.b}"
        ),
        "spec.catalog.uri: credentials belong in the environment or in a Secret",
        "spec.catalog.uri",
        "credentials belong in a Secret",
    ),
    _of_hive("hive", "https://metastore:9083"),
    _of_hive("hive", "thrift+ssl://metastore:9083"),
    _of_hive("hive", "thrift://metastore:9083/path"),
    _of_hive("hive", "thrift://metastore:9083, thrift://other:9083"),
    _of_hive("rest", "thrift://metastore:9083"),
    RefusedSpec(
        with_iceberg("").replace("location: table", "catalog: {type: rest, table: orders}"),
        "spec.catalog.table: 'orders'; allowed: the namespace, a dot and the name",
        "spec.catalog.table",
    ),
    RefusedSpec(
        with_iceberg("services: {rewriteDataFiles: {strategy: ZOrder, sortBy: [a]}}"),
        "spec.services.rewriteDataFiles.sortBy: is required for ZOrder: at least two columns",
        "spec.services.rewriteDataFiles.sortBy",
        "is required for ZOrder: at least two columns",
    ),
    RefusedSpec(
        with_iceberg("services: {rewriteDataFiles: {strategy: ZOrder, sortBy: [a desc, b]}}"),
        "spec.services.rewriteDataFiles.sortBy: Binpack takes no columns, and ZOrder only",
        "spec.services.rewriteDataFiles.sortBy",
        "Binpack takes no columns, and ZOrder only",
    ),
    RefusedSpec(
        with_iceberg("services: {rewriteDataFiles: {sortBy: [a]}}"),
        "spec.services.rewriteDataFiles.sortBy: Binpack takes no columns",
        "spec.services.rewriteDataFiles.sortBy",
        "Binpack takes no columns, and ZOrder only",
    ),
    RefusedSpec(
        with_iceberg("services: {rewriteDataFiles: {targetFileSize: big}}"),
        "spec.services.rewriteDataFiles.targetFileSize: 'big'; allowed: a size such as 512Mi",
        "spec.services.rewriteDataFiles.targetFileSize",
        "allowed: a size such as 512Mi",
    ),
    RefusedSpec(
        with_iceberg("services: {rewriteDataFiles: {options: {s3.secret-access-key: x}}}"),
        "options.s3.secret-access-key: credentials belong in the environment or in a Secret",
        "spec.services.rewriteDataFiles.options",
        "credentials belong in a Secret",
    ),
    RefusedSpec(
        with_iceberg("services: {removeOrphanFiles: {olderThan: 23h}}"),
        "spec.services.removeOrphanFiles.olderThan: '23h'; allowed: at least 24h",
    ),
    RefusedSpec(
        with_iceberg("services: {expireSnapshots: {retainLast: 0}}"),
        "spec.services.expireSnapshots.retainLast: 0; allowed: a whole number from 1",
        "spec.services.expireSnapshots.retainLast",
        "should be greater than or equal to 1",
    ),
)
