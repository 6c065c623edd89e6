"""What runs inside the Iceberg peer's virtual environment: Iceberg's runtime and PyIceberg.

Started as a script by `IcebergPeer` with the runtime jar's path and a JSON object of Spark
settings. It must not import Tideline, which that environment does not hold. Rows travel as parquet
files: a reply names the file that holds the answer. A table is named by its folder, or by its
metadata file where PyIceberg reads it.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from json_line_server import (  # type: ignore[import-not-found]
    Handler,
    claim_standard_output,
    serve,
    serve_socket,
)
from pyspark.sql import DataFrame, SparkSession

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
ICEBERG_SETTINGS = {
    "spark.sql.extensions": EXTENSIONS,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


class IcebergOperations:
    """The requests this process answers; every method is one."""

    def __init__(self, spark: SparkSession, answers: Path) -> None:
        self._spark = spark
        self._answers = answers
        self._expressions: dict[tuple[str, str], Any] = {}

    def add_catalog(self, name: str, properties: Mapping[str, str]) -> None:
        """A catalog of Iceberg tables for SQL; nothing about its tables is remembered."""
        prefix = f"spark.sql.catalog.{name}"
        self._spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for key, value in {"cache-enabled": "false", **properties}.items():
            self._spark.conf.set(f"{prefix}.{key}", value)

    def sql(self, statement: str, views: Mapping[str, str]) -> str:
        """Run a statement; each view is the rows of a parquet file or folder, under a name."""
        for name, source in views.items():
            self._spark.read.parquet(source).createOrReplaceTempView(name)
        return self._answer(self._spark.sql(statement))

    def run(self, statements: Sequence[str]) -> None:
        """Run statements for what they do."""
        for statement in statements:
            self._spark.sql(statement).collect()

    def read(self, uri: str, options: Mapping[str, str]) -> str:
        """Rows of a table, or with `uri#files` and the like of one of its metadata tables."""
        return self._answer(self._spark.read.format("iceberg").options(**options).load(uri))

    def append(self, uri: str, source: str, options: Mapping[str, str]) -> None:
        """Append the rows of a parquet file."""
        rows = self._spark.read.parquet(source)
        rows.write.format("iceberg").options(**options).mode("append").save(uri)

    def plan(self, uri: str, where: str | None) -> list[list[Any]]:
        """Of every file of a scan: its path and sequence number, its delete files' paths."""
        scan = self._table(uri).newScan()
        if where is not None:
            scan = scan.filter(self._expression(uri, where))
        found = []
        files = scan.planFiles()
        try:
            for task in _each(files.iterator()):
                deletes = sorted(str(delete.location()) for delete in task.deletes())
                sequence_number = task.file().dataSequenceNumber()
                found.append([str(task.file().location()), sequence_number, deletes])
        finally:
            files.close()
        return found

    def plan_rewrite(
        self, uri: str, options: Mapping[str, str], where: str | None
    ) -> list[dict[str, Any]]:
        """The file groups of Iceberg's own bin-pack planner, in its order."""
        jvm: Any = self._spark._jvm
        expressions = jvm.org.apache.iceberg.expressions.Expressions
        filtering = self._expression(uri, where) if where else expressions.alwaysTrue()
        actions = jvm.org.apache.iceberg.actions
        planner = actions.BinPackRewriteFilePlanner(self._table(uri), filtering)
        planner.init(jvm.java.util.HashMap(dict(options)))
        groups = planner.plan().groups().iterator()
        return [self._group(group) for group in _each(groups)]

    def add_deletes(self, uri: str, deletes: Sequence[Mapping[str, Any]]) -> None:
        """Commit delete files that lie there already, as one row delta.

        Of each: path, size_bytes, record_count, spec_id, partition (its path, as `a=1/b=x`, or
        ""), and equality_ids, or none of those for position deletes.
        """
        table = self._table(uri)
        delta = table.newRowDelta()
        for delete in deletes:
            delta.addDeletes(self._delete_file(table, delete))
        delta.commit()

    def create_table(self, uri: str, schema: str, spec: str, properties: Mapping[str, str]) -> None:
        """A table by Iceberg's JSON of its schema and partition spec: SQL lacks some types."""
        iceberg: Any = self._spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        parsed = iceberg.SchemaParser.fromJson(schema)
        tables = iceberg.hadoop.HadoopTables(self._spark._jsc.hadoopConfiguration())
        jvm: Any = self._spark._jvm
        given = jvm.java.util.HashMap(dict(properties))
        tables.create(parsed, iceberg.PartitionSpecParser.fromJson(parsed, spec), given, uri)

    def append_files(self, uri: str, files: Sequence[Mapping[str, Any]]) -> None:
        """Commit data files that lie there already: path, size_bytes, record_count, partition."""
        jvm: Any = self._spark._jvm
        table = self._table(uri)
        append = table.newAppend()
        for file in files:
            builder = jvm.org.apache.iceberg.DataFiles.builder(table.spec())
            if file["partition"]:
                builder = builder.withPartitionPath(file["partition"])
            builder = builder.withPath(file["path"]).withRecordCount(file["record_count"])
            append.appendFile(builder.withFileSizeInBytes(file["size_bytes"]).build())
        append.commit()

    def data_location(self, uri: str, below: str) -> str:
        """Where the table's location provider puts a file of this partition path and name."""
        return str(self._table(uri).locationProvider().newDataLocation(below))

    def pyiceberg_plan(self, metadata_file: str, where: str | None) -> list[list[Any]]:
        """As `plan`, by PyIceberg's scan."""
        scan = _static_table(metadata_file).scan(**({"row_filter": where} if where else {}))
        return [
            [task.file.file_path, sorted(delete.file_path for delete in task.delete_files)]
            for task in scan.plan_files()
        ]

    def pyiceberg_read(self, metadata_file: str, where: str | None) -> str:
        """Rows of a table through PyIceberg."""
        scan = _static_table(metadata_file).scan(**({"row_filter": where} if where else {}))
        path = self._answer_path()
        pq.write_table(scan.to_arrow(), path)
        return path

    def _table(self, uri: str) -> Any:
        jvm: Any = self._spark._jvm
        tables = jvm.org.apache.iceberg.hadoop.HadoopTables(self._spark._jsc.hadoopConfiguration())
        return tables.load(uri)

    def _expression(self, uri: str, where: str) -> Any:
        """A SQL condition as Spark hands it to Iceberg; analysed once for tables of one schema."""
        rows = self._spark.read.format("iceberg").load(uri)
        key = (rows.schema.json(), where)
        if key not in self._expressions:
            self._expressions[key] = self._analysed(rows, where)
        return self._expressions[key]

    def _analysed(self, rows: DataFrame, where: str) -> Any:
        jvm: Any = self._spark._jvm
        view = f"filtered_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        converter = jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
        condition = converter.collectResolvedSparkExpression(
            self._spark._jsparkSession, view, where
        )
        self._spark.catalog.dropTempView(view)
        return converter.convertToIcebergExpression(condition)

    def _group(self, group: Any) -> dict[str, Any]:
        return {
            "files": [str(task.file().location()) for task in group.fileScanTasks()],
            "partition": str(group.info().partition()),
            "input_bytes": group.inputFilesSizeInBytes(),
            "split_size_bytes": group.inputSplitSize(),
            "outputs_expected": group.expectedOutputFiles(),
            "write_size_bytes_max": group.maxOutputFileSize(),
            "output_spec_id": group.outputSpecId(),
        }

    def _delete_file(self, table: Any, delete: Mapping[str, Any]) -> Any:
        jvm: Any = self._spark._jvm
        spec = table.specs().get(delete["spec_id"])
        builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec)
        if delete.get("equality_ids"):
            gateway: Any = self._spark._sc._gateway
            ids = gateway.new_array(jvm.int, len(delete["equality_ids"]))
            for position, field_id in enumerate(delete["equality_ids"]):
                ids[position] = field_id
            builder = builder.ofEqualityDeletes(ids)
        else:
            builder = builder.ofPositionDeletes()
        if delete["partition"]:
            builder = builder.withPartitionPath(delete["partition"])
        builder = builder.withPath(delete["path"]).withRecordCount(delete["record_count"])
        format_of = jvm.org.apache.iceberg.FileFormat.valueOf
        suffix = delete["path"].rpartition(".")[2].upper()
        return (
            builder.withFileSizeInBytes(delete["size_bytes"]).withFormat(format_of(suffix)).build()
        )

    def _answer(self, rows: DataFrame) -> str:
        path = self._answer_path()
        rows.coalesce(1).write.parquet(path)
        return path

    def _answer_path(self) -> str:
        return str(self._answers / f"{uuid.uuid4()}.parquet")


def _each(iterator: Any) -> list[Any]:
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _static_table(metadata_file: str) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(metadata_file)


def main() -> None:
    """Start Spark with the runtime and answer until standard input, or the last client, ends."""
    replies = claim_standard_output()
    jar, settings = sys.argv[1], json.loads(sys.argv[2])
    builder = SparkSession.Builder().config("spark.jars", jar)
    for name, value in {**ICEBERG_SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    spark, answers = builder.getOrCreate(), Path.cwd() / "answers"
    answers.mkdir(exist_ok=True)

    def handlers_of_a_client() -> dict[str, Handler]:
        session: Any = spark.newSession()
        # The data source asks for the session of the thread.
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(
            session._jsparkSession
        )
        operations = IcebergOperations(session, answers)
        names = [name for name in dir(operations) if not name.startswith("_")]
        return {name: getattr(operations, name) for name in names}

    if len(sys.argv) > 3:
        serve_socket(handlers_of_a_client, sys.argv[3])
    else:
        serve(handlers_of_a_client(), replies)


if __name__ == "__main__":
    main()
