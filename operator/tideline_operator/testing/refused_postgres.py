"""Sources of tables of Postgres that are wrong: see `refused_specs`."""

from __future__ import annotations

import textwrap

from tideline_operator.testing.refused_specs import RefusedSpec, without

_TABLE = "{format: postgres, table: public.orders, slot: orders"


def with_table(more: str = "", lines: str = "") -> str:
    """MINIMAL with a table as its source, and more fields there and in its ingest."""
    changed = without("{format: parquet, path: landing}", _TABLE + more + "}")
    return changed + textwrap.indent(lines, "    ") + "\n"


POSTGRES_REFUSALS = (
    RefusedSpec(
        with_table(", path: landing"),
        "spec.ingest[0].source.path: is required for files, and only for them",
        "spec.ingest[0].source.path",
        "is required for files",
    ),
    RefusedSpec(
        without("{format: parquet, path: landing}", "{format: postgres, table: orders}"),
        "spec.ingest[0].source.slot: is required for postgres, and only for it",
        "spec.ingest[0].source.slot",
        "is required for postgres",
    ),
    RefusedSpec(
        without("{format: parquet, path: landing}", "{format: postgres, slot: orders}"),
        "spec.ingest[0].source.table: is required for postgres, and with value: maxwell-json",
        "spec.ingest[0].source.table",
        "is required for postgres",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, publication: orders}"),
        "spec.ingest[0].source.publication: is of postgres, and the format is parquet",
        "spec.ingest[0].source",
        "publication, connectionVariable are of postgres",
    ),
    RefusedSpec(
        without("path: landing}", "path: landing, maxRecordsPerCommit: 5}"),
        "spec.ingest[0].source.maxRecordsPerCommit: is of kafka and postgres, and the format is",
        "spec.ingest[0].source",
        "maxRecordsPerCommit, setAside, onTruncate",
    ),
    RefusedSpec(
        with_table(", isolation: read_committed"),
        "spec.ingest[0].source.isolation: is of kafka, and the format is postgres",
        "spec.ingest[0].source",
        "isolation, onDataLoss",
    ),
    RefusedSpec(
        with_table(", publication: Orders"),
        "spec.ingest[0].source.publication: 'Orders'",
        "spec.ingest[0].source.publication",
        "small letters, digits and _",
    ),
    RefusedSpec(
        with_table(", connectionVariable: orders"),
        "spec.ingest[0].source.connectionVariable: ",
        "spec.ingest[0].source.connectionVariable",
        "the name of a variable in capitals",
    ),
    RefusedSpec(
        with_table(", connectionVariable: HOME, credentials: {secretName: database}"),
        "spec.ingest[0].source.connectionVariable: begins with POSTGRES_ where it is a key",
        "spec.ingest[0].source.connectionVariable",
        "begins with POSTGRES_",
    ),
    RefusedSpec(
        with_table(lines="operation: insert"),
        "spec.ingest[0].operation: changes of a table update and delete rows",
        "spec.ingest[0].operation",
        "the operation is upsert",
    ),
    RefusedSpec(
        with_table(lines="deleteWhen: id = 1"),
        "spec.ingest[0].deleteWhen: SQL is for files",
        "spec.ingest[0].transform",
        "SQL is for files",
    ),
)
