"""Specs that are wrong, and what the parser and the Kubernetes API server say about each.

One table for both, so that a rule which only one of them knows shows.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from tideline_operator.testing.resource_examples import ICEBERG_MINIMAL, MINIMAL


@dataclass(frozen=True, slots=True)
class RefusedSpec:
    """A LakeTable that is refused, and parts of what the parser and the API server say about it.

    What schemas and CEL cannot say the operator finds when it reads the spec; without a `field` the
    server takes it.
    """

    text: str
    parser: str
    field: str = ""
    words: str = ""

    def __str__(self) -> str:
        return self.parser[:60]


def with_spec(lines: str) -> str:
    """MINIMAL with more fields in its spec."""
    return MINIMAL + textwrap.indent(textwrap.dedent(lines).strip(), "  ") + "\n"


def with_iceberg(lines: str) -> str:
    """ICEBERG_MINIMAL with more fields in its spec."""
    return ICEBERG_MINIMAL + textwrap.indent(textwrap.dedent(lines).strip(), "  ") + "\n"


def with_ingest(lines: str) -> str:
    """MINIMAL with more fields in its ingest."""
    return MINIMAL + textwrap.indent(textwrap.dedent(lines).strip(), "    ") + "\n"


def without(part: str, put: str = "") -> str:
    """MINIMAL with `part` replaced."""
    assert part in MINIMAL
    return MINIMAL.replace(part, put)


def without_from_iceberg(part: str) -> str:
    """ICEBERG_MINIMAL without `part`."""
    assert part in ICEBERG_MINIMAL
    return ICEBERG_MINIMAL.replace(part, "")


_KEYS_AMONG_SETTINGS = (
    (with_spec("properties: {hoodie.aws.secret.key: x}"), "spec.properties", "aws.secret.key"),
    (without("landing}", "landing, options: {fs.s3a.Access.Key: x}}"),
     "spec.ingest[0].source.options", "fs.s3a.Access.Key"),
    (with_spec("engine: {sparkConf: {spark.hadoop.fs.azure.account.key.own.net: x}}"),
     "spec.engine.sparkConf", "account.key.own.net"),
)  # fmt: skip
REFUSALS = (
    RefusedSpec(
        with_spec("timezone: Middle/Earth"),
        "spec.timezone: no time zone of this name",
    ),
    RefusedSpec(
        with_spec("uniqueness: Table\nindex: {type: BUCKET, buckets: 4}"),
        "spec.uniqueness: Table does not work with a BUCKET index",
        "spec.uniqueness",
        "Table does not work with a BUCKET index",
    ),
    RefusedSpec(
        with_spec("uniqueness: Partition\nindex: {type: GLOBAL_BLOOM}"),
        "spec.uniqueness: Partition contradicts a global index",
        "spec.uniqueness",
        "Partition contradicts a global index",
    ),
    RefusedSpec(
        with_spec("uniqueness: Table\nproperties: {hoodie.index.type: SIMPLE}"),
        "spec.properties: give the index as spec.index",
        "spec.properties",
        "give the index as spec.index",
    ),
    RefusedSpec(
        with_ingest("trigger: {every: 30 sec}"),
        "laketable.yaml, document 1, line 11: spec.ingest[0].trigger.every: '30 sec'; "
        "allowed: a whole number and ms, s, m, h or d, such as 30s or 5m",
        "spec.ingest[0].trigger.every",
        "allowed: a whole number and ms, s, m, h or d, such as 30s or 5m",
    ),
    RefusedSpec(
        with_ingest("trigger: {every: 30}"),
        "trigger.every: 30 is read as a number; allowed: a",
        "spec.ingest[0].trigger.every",
        "must be of type string",
    ),
    RefusedSpec(
        with_ingest("trigger: {every: 0s}"),
        "trigger.every: '0s'; allowed: a duration greater than zero",
        "spec.ingest[0].trigger.every",
        "allowed: a duration greater than zero",
    ),
    RefusedSpec(
        with_ingest("trigger: {cron: '61 * * * *'}"),
        "trigger.cron: '61 * * * *'; '61': allowed",
    ),
    RefusedSpec(
        with_ingest("trigger: {cron: hourly}"),
        "trigger.cron: 'hourly'; allowed: five fields",
        "spec.ingest[0].trigger.cron",
        "allowed: five fields, minute hour",
    ),
    RefusedSpec(
        with_ingest("trigger: {every: 1m, once: true}"),
        "spec.ingest[0].trigger: give exactly one of every, cron and once",
        "spec.ingest[0].trigger",
        "give exactly one of every, cron and once",
    ),
    RefusedSpec(
        with_ingest("trigger: {}"),
        "spec.ingest[0].trigger: give exactly one of every, cron",
        "spec.ingest[0].trigger",
        "give exactly one of every, cron and once",
    ),
    RefusedSpec(
        with_ingest("operation: merge"),
        "spec.ingest[0].operation: 'merge'; allowed: upsert, insert, bulk_insert, delete",
        "spec.ingest[0].operation",
        'Unsupported value: "merge": supported values: "upsert", "insert"',
    ),
    RefusedSpec(
        with_ingest("operation: Upsert"),
        "'Upsert'; allowed: upsert, insert, bulk_insert, delete, did you mean upsert?",
        "spec.ingest[0].operation",
        'Unsupported value: "Upsert"',
    ),
    RefusedSpec(
        with_ingest("onBadFile: skip"),
        "spec.ingest[0].onBadFile: 'skip'; allowed: Quarantine, F",
        "spec.ingest[0].onBadFile",
        'Unsupported value: "skip": supported values: "Quarantine", "Fail"',
    ),
    RefusedSpec(
        with_ingest("maxFilesPerCommit: 0"),
        "maxFilesPerCommit: 0; allowed: a whole number from 1",
        "spec.ingest[0].maxFilesPerCommit",
        "should be greater than or equal to 1",
    ),
    RefusedSpec(
        with_ingest("maxFilesPerCommit: many"),
        "maxFilesPerCommit: 'many'; allowed: a whole numb",
        "spec.ingest[0].maxFilesPerCommit",
        "must be of type integer",
    ),
    RefusedSpec(
        with_ingest("maxFilesPerCommit: true"),
        "true is read as true or false; allowed: a whole",
        "spec.ingest[0].maxFilesPerCommit",
        "must be of type integer",
    ),
    RefusedSpec(
        with_ingest("maxFilePerCommit: 3"),
        "maxFilePerCommit: no such field, did you mean maxFil",
        "spec.ingest[0].maxFilePerCommit",
        "unknown field",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, taken: Move}"),
        "spec.ingest[0].source.movedTo: is required with taken: Move, and only then allowed",
        "spec.ingest[0].source.movedTo",
        "is required with taken: Move",
    ),
    RefusedSpec(
        with_ingest("operation: delete\ndeleteWhen: gone"),
        "spec.ingest[0].deleteWhen: only the operation upsert can delete some of its rows",
        "spec.ingest[0].deleteWhen",
        "only the operation upsert can delete some of its rows",
    ),
    RefusedSpec(
        with_spec("recordkey: [id]"),
        "spec.recordkey: no such field, did you mean recordKey?",
        "spec.recordkey",
        "unknown field",
    ),
    RefusedSpec(
        with_spec("type: COW"),
        "spec.type: 'COW'; allowed: COPY_ON_WRITE, MERGE_ON_READ",
        "spec.type",
        'Unsupported value: "COW": supported values: "COPY_ON_WRITE", "MERGE_ON_READ"',
    ),
    RefusedSpec(
        with_spec("partitionBy: month"),
        "spec.partitionBy: 'month'; allowed: a list",
        "spec.partitionBy",
        "must be of type array",
    ),
    RefusedSpec(
        with_spec("partitionBy: [a, a]"),
        "spec.partitionBy[1]: 'a' appears twice",
        "spec.partitionBy",
        "lists a column twice",
    ),
    RefusedSpec(
        with_spec("ordering: [a, b, a]"),
        "spec.ordering[2]: 'a' appears twice",
        "spec.ordering",
        "lists a column twice",
    ),
    RefusedSpec(
        without("[id]", "[id, id]"),
        "spec.recordKey[1]: 'id' appears twice",
        "spec.recordKey",
        "lists a column twice",
    ),
    RefusedSpec(
        with_spec("ordering: ['not a column']"),
        "spec.ordering[0]: 'not a column'; allowed: a col",
        "spec.ordering[0]",
        "allowed: a column name",
    ),
    RefusedSpec(
        with_spec("ordering: ['']"),
        "spec.ordering[0]: is empty",
        "spec.ordering[0]",
        "allowed: a column name",
    ),
    RefusedSpec(
        with_spec("ordering: [a, b, c, d, e, f, g, h, i]"),
        "spec.ordering: has 9 items; allowed: at most 8",
        "spec.ordering",
        "Too many: 9: must have at most 8 items",
    ),
    RefusedSpec(
        with_spec(f"restoreTo: {'x' * 64}"),
        "spec.restoreTo: has 64 characters; allowed: at most 63",
        "spec.restoreTo",
        "Too long: may not be more than 63",
    ),
    RefusedSpec(
        with_spec("suspend: perhaps"),
        "spec.suspend: 'perhaps'; allowed: true or false",
        "spec.suspend",
        "must be of type boolean",
    ),
    RefusedSpec(
        with_spec("index: {type: HASH}"),
        "spec.index.type: 'HASH'; allowed: SIMPLE, BLOOM, GLOBAL_",
        "spec.index.type",
        'Unsupported value: "HASH": supported values: "SIMPLE", "BLOOM"',
    ),
    RefusedSpec(
        with_spec("index: {type: BLOOM, buckets: 4}"),
        "spec.index.buckets: only a BUCKET index has",
        "spec.index.buckets",
        "only a BUCKET index has buckets",
    ),
    RefusedSpec(
        with_spec("index: {type: BLOOM, updatePartitionPath: true}"),
        "spec.index.updatePartitionPath: only a global index",
        "spec.index.updatePartitionPath",
        "only a global index moves rows",
    ),
    RefusedSpec(
        with_spec("index: {}"),
        "spec.index.type: is required",
        "spec.index.type",
        "Required value",
    ),
    RefusedSpec(
        with_spec("services: {mode: Off}"),
        'mode: Off is read as true or false; write "Off" in quo',
        "spec.services.mode",
        "must be of type string",
    ),
    RefusedSpec(
        with_spec("services: {archiving: {minCommits: 30, maxCommits: 30}}"),
        "spec.services.archiving.minCommits: must be less than maxCommits (30)",
        "spec.services.archiving.minCommits",
        "must be less than maxCommits",
    ),
    RefusedSpec(
        with_spec("services: {cleaning: {retain: 25}}"),
        "spec.services.archiving.minCommits: must be greater than cleaning.retain (25)",
        "spec.services.archiving.minCommits",
        "must be greater than cleaning.retain",
    ),
    RefusedSpec(
        with_spec("services: {clustering: {enabled: true, everyCommits: 21}}"),
        "spec.services.archiving.minCommits: must be at least clustering.everyCommits (21)",
        "spec.services.archiving.minCommits",
        "must be at least clustering.everyCommits",
    ),
    RefusedSpec(
        with_spec("services: {compaction: {trigger: {elapsed: 0h}}}"),
        "spec.services.compaction.trigger.elapsed: '0h'; allowed: a duration greater",
        "spec.services.compaction.trigger.elapsed",
        "allowed: a duration greater than zero",
    ),
    RefusedSpec(
        with_spec("services: {maintenanceWindow: nightly}"),
        "maintenanceWindow: 'nightly'; allowed",
        "spec.services.maintenanceWindow",
        "allowed: five fields, minute hour",
    ),
    RefusedSpec(
        with_spec("resources: {driver: {memory: 2GB}}"),
        "driver.memory: '2GB'; allowed: a Kubernetes",
        "spec.resources.driver.memory",
        "allowed: a Kubernetes quantity such as 500m or 2Gi",
    ),
    RefusedSpec(
        with_spec("resources: {executor: {min: 3, max: 2}}"),
        "executor.min: must not be greater than",
        "spec.resources.executor.min",
        "must not be greater than max",
    ),
    RefusedSpec(
        with_spec("rerun: {compactoin: 1}"),
        "spec.rerun.compactoin: unknown name; allowed",
        "spec.rerun",
        "allowed: compaction, logCompaction, clustering, cleaning, archiving, partitionTtl and "
        "the names of ingests",
    ),
    RefusedSpec(
        with_spec("rerun: {compaction: '1'}"),
        "spec.rerun.compaction: '1'; allowed: a whole number",
        "spec.rerun.compaction",
        "must be of type integer",
    ),
    RefusedSpec(
        with_spec("properties: {hoodie.a.b: 5}"),
        "spec.properties.hoodie.a.b: 5 is read as a number",
        "spec.properties.hoodie.a.b",
        "must be of type string",
    ),
    RefusedSpec(
        with_spec("properties: {spark.x: y}"),
        "spec.properties.spark.x: only hoodie.* and tideline.*",
        "spec.properties",
        "only hoodie.* and tideline.* properties are passed on",
    ),
    RefusedSpec(
        with_spec("properties: {hoodie.record.merge.mode: EVENT_TIME_ORDERING}"),
        "spec.ordering: is required for hoodie.record.merge.mode: EVENT_TIME",
        "spec.ordering",
        "is required for hoodie.record.merge.mode: EVENT_TIME_ORDERING",
    ),
    *(
        RefusedSpec(text, f"{name}: credentials belong in", field, "credentials belong in a Secret")
        for text, field, name in _KEYS_AMONG_SETTINGS
    ),
    RefusedSpec(
        with_spec("keyGenerator: {type: TIMESTAMP}"),
        "keyGenerator.timestamp: is required for type TIM",
        "spec.keyGenerator.timestamp",
        "is required for type TIMESTAMP",
    ),
    RefusedSpec(
        with_spec("keyGenerator: {timestamp: {type: EPOCHMILLISECONDS, outputFormat: yyyy}}"),
        "keyGenerator.timestamp: requires type TIMESTAMP or CUSTOM",
        "spec.keyGenerator.timestamp",
        "requires type TIMESTAMP or CUSTOM",
    ),
    RefusedSpec(
        with_spec("keyGenerator: {type: TIMESTAMP, timestamp: {type: MIXED, outputFormat: yyyy}}"),
        "keyGenerator.timestamp.inputFormat: is required for type MIXED",
        "spec.keyGenerator.timestamp.inputFormat",
        "is required for types DATE_STRING and MIXED",
    ),
    RefusedSpec(
        with_spec("keyGenerator: {type: CUSTOM, timestamp: {type: SCALAR, outputFormat: yyyy}}"),
        "keyGenerator.timestamp.scalarUnit: is required for type SCALAR",
        "spec.keyGenerator.timestamp.scalarUnit",
        "is required for type SCALAR",
    ),
    RefusedSpec(
        with_spec("podTemplate: [a]"),
        "spec.podTemplate: a list; allowed: a mapping",
        "spec.podTemplate",
        "must be of type object",
    ),
    RefusedSpec(
        with_spec("schema: [{name: id, type: text}]"),
        "spec.schema[0].type: 'text'; 'text' is not a col",
        "spec.schema[0].type",
        "should match",
    ),
    RefusedSpec(
        with_spec("schema: [{name: id, type: 'decimal(60,2)'}]"),
        "spec.schema[0].type: 'decimal(60,2)'; decimal(p,s) needs",
    ),
    RefusedSpec(
        with_spec("schema: [{name: x, type: int}]"),
        "spec.recordKey[0]: spec.schema has no column 'id'",
        "spec.recordKey",
        "spec.schema has no such column: id",
    ),
    RefusedSpec(
        with_spec("partitionBy: [month:SIMPLE]\nschema: [{name: id, type: int}]"),
        "spec.partitionBy[0]: spec.schema has no column 'month'",
        "spec.partitionBy",
        "spec.schema has no such column: month:SIMPLE",
    ),
    RefusedSpec(
        with_spec("ordering: [a.b]\nschema: [{name: ID, type: int}]"),
        "spec.ordering[0]: spec.schema has no column 'a'",
        "spec.ordering",
        "spec.schema has no such column: a.b",
    ),
    RefusedSpec(
        with_spec("services: {clustering: {sortBy: [id, town]}}\nschema: [{name: id, type: int}]"),
        "spec.services.clustering.sortBy[1]: spec.schema has no column 'town'",
        "spec.services.clustering.sortBy",
        "spec.schema has no such column: town",
    ),
    RefusedSpec(
        with_spec("schema: [{name: id, type: int}, {name: id, type: int}]"),
        "spec.schema[1]: 'id' appears twice",
        "spec.schema[1]",
        "Duplicate value",
    ),
    RefusedSpec(
        with_spec("schema: [{name: id, type: int}, {name: ID, type: int}]"),
        "spec.schema[1]: 'id' appears twice",
    ),
    RefusedSpec(
        with_spec("savepoints: [{name: a}, {name: a}]"),
        "spec.savepoints[1]: 'a' appears twice",
        "spec.savepoints[1]",
        "Duplicate value",
    ),
    RefusedSpec(
        with_spec("savepoints: [{name: A}]"),
        "spec.savepoints[0].name: 'A'; allowed: lower-case",
        "spec.savepoints[0].name",
        "allowed: lower-case letters, digits and '-'",
    ),
    *(
        RefusedSpec(
            without("location: table", f"location: {place}"),
            "spec.storeRef: is required for a location in a store",
            "spec.storeRef",
            "is required for a location in a store such as s3://: name a LakeStore",
        )
        for place in ("s3://b/t", "gs://b/t", "abfss://lake@acct.dfs.core.windows.net/t")
    ),
    RefusedSpec(
        with_spec("tableVersion: 7"),
        "spec.tableVersion: must be one of 6, 8, 9",
        "spec.tableVersion",
        "must be one of 6, 8, 9",
    ),
    RefusedSpec(
        without("recordKey: [id]"),
        "spec.recordKey: is required: the columns that identify",
        "spec.recordKey",
        "is required: the columns that identify a row",
    ),
    RefusedSpec(
        without("  location: table"),
        "spec.location: is required: where the table",
        "spec.location",
        "is required: where the table lives",
    ),
    RefusedSpec(
        without("name: people", "name: People"),
        "metadata.name: 'People'; allowed: lower-ca",
        "metadata.name",
        'Invalid value: "People"',
    ),
    RefusedSpec(
        without("name: people", "name: a.b"),
        "metadata.name: 'a.b'; allowed: lower-ca",
        "metadata.name",
        "allowed: at most 63 characters, and no dot",
    ),
    RefusedSpec(
        without("name: people", f"name: {'p' * 64}"),
        "metadata.name: has 64 characters",
        "metadata.name",
        "allowed: at most 63 characters, and no dot",
    ),
    RefusedSpec(
        without("{name: people}", "{}"),
        "metadata.name: is required",
        "name",
        "name or generateName is required",
    ),
    RefusedSpec(
        without("landing}", "landing, options: [x]}"),
        "source.options: a list; allowed: a map",
        "spec.ingest[0].source.options",
        "must be of type object",
    ),
)
