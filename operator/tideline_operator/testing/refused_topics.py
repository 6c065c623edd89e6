"""Sources of files and of topics that are wrong: see `refused_specs`."""

from __future__ import annotations

import textwrap

from tideline_operator.testing.refused_specs import RefusedSpec, without

_ANOTHER = """\
  - name: another
    source: {format: kafka, brokers: 'broker:9092', topics: [more], credentials: {secretName: two}}
"""
_TOPICS = "{format: kafka, brokers: 'broker:9092', topics: [orders]"


def with_topics(more: str = "", lines: str = "") -> str:
    """MINIMAL with topics as its source, and more fields there and in its ingest."""
    changed = without("{format: parquet, path: landing}", _TOPICS + more + "}")
    return changed + textwrap.indent(lines, "    ") + "\n"


TOPIC_REFUSALS = (
    RefusedSpec(
        with_topics(", path: landing"),
        "spec.ingest[0].source.path: is required for files, and only for them",
        "spec.ingest[0].source.path",
        "is required for files",
    ),
    RefusedSpec(
        without("{format: parquet, path: landing}", "{format: parquet}"),
        "spec.ingest[0].source.path: is required for files, and only for them",
        "spec.ingest[0].source.path",
        "is required for files",
    ),
    RefusedSpec(
        without("{format: parquet, path: landing}", "{format: kafka, topics: [orders]}"),
        "spec.ingest[0].source.brokers: is required for kafka, and only for it",
        "spec.ingest[0].source.brokers",
        "is required for kafka",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, topics: [orders]}"),
        "spec.ingest[0].source.topics: is required for kafka, and only for it",
        "spec.ingest[0].source.topics",
        "is required for kafka",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, isolation: read_committed}"),
        "spec.ingest[0].source.isolation: is of kafka, and the format is parquet",
        "spec.ingest[0].source",
        "isolation, onDataLoss",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, credentials: {secretName: broker}}"),
        "spec.ingest[0].source.credentials: is of kafka and postgres, and the format is parquet",
        "spec.ingest[0].source",
        "onTruncate, credentials",
    ),
    RefusedSpec(
        with_topics(", credentials: {secretName: one}") + _ANOTHER,
        "spec.ingest: the sources of one table must name the same Secret in credentials",
        "spec.ingest",
        "must name the same Secret",
    ),
    RefusedSpec(
        with_topics(", namesAscend: true"),
        "spec.ingest[0].source.namesAscend: is of files, and the format is kafka",
    ),
    RefusedSpec(
        with_topics(", options: {sep: ';'}"),
        "spec.ingest[0].source.options: is of files, and the format is kafka",
    ),
    RefusedSpec(
        with_topics(", taken: Remove"),
        "spec.ingest[0].source.taken: is of files, and the format is kafka",
    ),
    RefusedSpec(
        with_topics(", topics: ['a b']").replace("topics: [orders], ", ""),
        "spec.ingest[0].source.topics[0]: 'a b'",
        "spec.ingest[0].source.topics[0]",
        "allowed: letters, digits",
    ),
    RefusedSpec(
        with_topics(", pattern: 'orders-.*'"),
        "spec.ingest[0].source.pattern: give topics or pattern, not both",
        "spec.ingest[0].source.pattern",
        "give topics or pattern",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, pattern: 'orders-.*'}"),
        "spec.ingest[0].source.topics: is required for kafka, and only for it",
        "spec.ingest[0].source.topics",
        "is required for kafka",
    ),
    RefusedSpec(
        with_topics(", pattern: '(a+)+'").replace("topics: [orders], ", ""),
        "spec.ingest[0].source.pattern: '(a+)+'",
        "spec.ingest[0].source.pattern",
        "should match",
    ),
    RefusedSpec(
        with_topics(", pattern: '.*a.*a.*a.*'").replace("topics: [orders], ", ""),
        "spec.ingest[0].source.pattern: has more than 3 of *, + and ? in one alternative",
    ),
    RefusedSpec(
        with_topics(", pattern: '[z'").replace("topics: [orders], ", ""),
        "spec.ingest[0].source.pattern: is no regular expression",
    ),
    RefusedSpec(
        with_topics(", value: avro"),
        "spec.ingest[0].source.schemaRegistry: is required with value: avro or debezium-avro",
        "spec.ingest[0].source.schemaRegistry",
        "is required with value",
    ),
    RefusedSpec(
        with_topics(", value: avro, schemaRegistry: 'http://user:word@registry'"),
        "allowed: an address of http or https without credentials",
        "spec.ingest[0].source.schemaRegistry",
        "should match",
    ),
    RefusedSpec(
        with_topics(", value: raw, onTruncate: Ignore"),
        "spec.ingest[0].source.onTruncate: is of change events",
        "spec.ingest[0].source.onTruncate",
        "is of change events",
    ),
    RefusedSpec(
        with_topics(", value: debezium-json, onTruncate: Delete"),
        "spec.ingest[0].source.onTruncate: Delete is for postgres",
        "spec.ingest[0].source.onTruncate",
        "Delete is for postgres",
    ),
    RefusedSpec(
        with_topics(", recordFields: [_kafka_key, _event_lsn]"),
        "spec.ingest[0].source.recordFields[1]: is of change events",
    ),
    *(
        RefusedSpec(
            with_topics(given),
            "spec.ingest[0].source.table: is required for postgres, and with value: maxwell-json",
            "spec.ingest[0].source.table",
            "is required for postgres",
        )
        for given in (
            *(", value: maxwell-json", ", value: canal-json, table: orders"),
            *(", table: shop.orders", ", value: debezium-json, table: shop.orders"),
        )
    ),
    *(
        RefusedSpec(
            with_topics(f", value: {value}, table: shop.orders, recordFields: [{name}]"),
            f"spec.ingest[0].source.recordFields[0]: is nothing that events of {value} have",
        )
        for value, name in (
            *(("maxwell-json", "_event_lsn"), ("canal-json", "_event_seq")),
            ("canal-json", "_event_tx_id"),
        )
    ),
    RefusedSpec(
        with_topics(lines="transform: select * from source"),
        "spec.ingest[0].transform: SQL is for files: other sources are read without Spark",
        "spec.ingest[0].transform",
        "SQL is for files",
    ),
)
