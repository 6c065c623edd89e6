"""Lists of indexes that are refused, as in refused_specs.py."""

from __future__ import annotations

from tideline_operator.testing.refused_specs import RefusedSpec, with_spec

_KEYS = "indexes: [record_index, secondary_index_at]"
_OF_VERSION_6 = "tables of version 6 have bloom_filters, column_stats, record_index alone: create"
_UNIQUE = "record_index says that keys are unique in the whole table, and "
_LISTS = (
    (
        "indexes: [bloom_filters, bloom_filters]",
        "indexes[1]: 'bloom_filters' appears twice",
        "lists an index twice",
    ),
    (
        "partitionBy: [day]\nindexes: [partition_stats]",
        "indexes[0]: partition_stats is worth nothing without column_stats: list that as well",
        "partition_stats is worth nothing without column_stats: list that as well",
    ),
    (
        "indexes: [column_stats, partition_stats]",
        "indexes: partition_stats is for tables with partitionBy",
        "partition_stats is for tables with partitionBy",
    ),
    (
        "indexes: [secondary_index_city]",
        "indexes[0]: secondary_index_city is worth nothing without record_index: list that",
        "secondary_index_ is worth nothing without record_index: list that",
    ),
    (
        "tableVersion: 6\nindexes: [record_index, secondary_index_city]",
        f"indexes: {_OF_VERSION_6}",
        _OF_VERSION_6,
    ),
    (
        "properties: {hoodie.metadata.enable: 'false'}\nindexes: [column_stats]",
        "indexes: are partitions of the metadata table, which hoodie.metadata.enable: false",
        "are partitions of the metadata table, which hoodie.metadata.enable: false",
    ),
    (
        "uniqueness: Partition\nindexes: [record_index]",
        f"indexes: {_UNIQUE}uniqueness says Partition",
        f"{_UNIQUE}uniqueness says Partition",
    ),
    (
        "index: {type: BUCKET, buckets: 4}\nindexes: [record_index]",
        f"indexes: {_UNIQUE}a BUCKET index looks for a key in its partition only",
        f"{_UNIQUE}a BUCKET index looks for a key in its partition only",
    ),
)
"""The spec, what the parser says, what the API server says."""

INDEX_REFUSALS = (
    *(
        RefusedSpec(with_spec(spec), f"spec.{parser}", "spec.indexes", server)
        for spec, parser, server in _LISTS
    ),
    RefusedSpec(
        with_spec("indexes: [colum_stats]"),
        "spec.indexes[0]: 'colum_stats'; allowed: bloom_filters, column_stats, partition_stats, ",
        "spec.indexes[0]",
        "allowed: bloom_filters, column_stats, ",
    ),
    RefusedSpec(
        with_spec("indexes: [expr_index_a]"),
        "spec.indexes[0]: 'expr_index_a'; allowed: bloom_filters, ",
        "spec.indexes[0]",
        "allowed: bloom_filters, column_stats, ",
    ),
    RefusedSpec(
        with_spec(f"{_KEYS}\nschema: [{{name: id, type: int}}, {{name: at, type: timestamp}}]"),
        "spec.indexes[1]: at is of type timestamp: secondary indexes are of texts",
    ),
    RefusedSpec(
        with_spec(f"{_KEYS}\nschema: [{{name: id, type: int}}]"),
        "spec.indexes[1]: spec.schema has no column 'at'",
    ),
)
