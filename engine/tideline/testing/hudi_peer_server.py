"""What runs inside the Hudi peer's virtual environment: one JVM with Hudi's bundle, and hudi-rs.

Started as a script by `HudiPeer` with the bundle's path and a JSON object of Spark settings. It
must not import Tideline, which that environment does not hold. Rows travel as parquet files: a
reply names the file that holds the answer.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from json_line_server import (  # type: ignore[import-not-found]
    Handler,
    claim_standard_output,
    serve,
    serve_socket,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

HUDI_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


class HudiOperations:
    """The requests this process answers; every method is one."""

    def __init__(self, spark: SparkSession, answers: Path) -> None:
        self._spark = spark
        self._answers = answers
        self._held_lock: Any = None

    def read(self, uri: str, options: Mapping[str, str], columns: list[str] | None) -> str:
        """Rows of a table through Hudi's data source."""
        rows = self._load(uri, options)
        return self._answer(rows.select(*columns) if columns else rows)

    def write(self, uri: str, source: str, options: Mapping[str, str], mode: str) -> None:
        """Write the rows of a parquet file with Hudi's data source."""
        rows = self._spark.read.parquet(source)
        rows.write.format("hudi").options(**options).mode(mode).save(uri)

    def sql(self, statement: str, views: Mapping[str, str]) -> str:
        """Run a statement; each view is a table's rows as of now, under a name."""
        for name, uri in views.items():
            self._load(uri, {}).createOrReplaceTempView(name)
        return self._answer(self._spark.sql(statement))

    def aggregate(self, uri: str, options: Mapping[str, str], statement: str) -> list[Any]:
        """Run a statement over a table called `t` and return its rows as JSON values."""
        self._load(uri, options).createOrReplaceTempView("t")
        return [list(row) for row in self._spark.sql(statement).collect()]

    def timeline(self, uri: str) -> list[list[str]]:
        """The active timeline as Hudi loads it: time, action and state of every instant."""
        instants = self._meta_client(uri).getActiveTimeline().getInstants()
        return [
            [instant.requestedTime(), instant.getAction(), str(instant.getState())]
            for instant in instants
        ]

    def archived_timeline(self, uri: str) -> list[list[str]]:
        """Archived instants as Hudi loads them: time, action, state, file ids of its commits."""
        timeline = self._meta_client(uri).getArchivedTimeline()
        timeline.loadCompletedInstantDetailsInMemory()
        found = []
        for instant in timeline.getInstants():
            file_ids = ""
            if instant.getAction() in ("commit", "deltacommit", "replacecommit"):
                metadata = timeline.readCommitMetadata(instant)
                file_ids = ",".join(sorted(metadata.getFileIdAndRelativePaths().keySet()))
            found.append(
                [instant.requestedTime(), instant.getAction(), str(instant.getState()), file_ids]
            )
        return found

    def rollbacks(self, uri: str) -> list[list[list[str]]]:
        """Of every completed rollback: the instants it undid and the files it deleted."""
        timeline = self._meta_client(uri).getActiveTimeline()
        found = []
        for instant in timeline.getRollbackTimeline().filterCompletedInstants().getInstants():
            done = timeline.readRollbackMetadata(instant)
            partitions = done.getPartitionMetadata().values()
            deleted = [str(path) for item in partitions for path in item.getSuccessDeleteFiles()]
            found.append([list(done.getCommitsRollback()), deleted])
        return found

    def partition_paths(self, options: Mapping[str, str], values: list[Any]) -> list[str | None]:
        """What the timestamp-based key generator makes of values of the column `t`; None where it
        fails. A value of a type that JSON does not have is an array: date and days, timestamp
        and milliseconds, decimal and digits.
        """
        jvm: Any = self._spark._jvm
        settings = jvm.org.apache.hudi.common.config.TypedProperties()
        for name, value in options.items():
            settings.setProperty(name, value)
        keys = jvm.org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator(settings)
        kinds = {
            "date": jvm.java.time.LocalDate.ofEpochDay,
            "timestamp": jvm.java.sql.Timestamp,
            "decimal": jvm.java.math.BigDecimal,
        }
        found: list[str | None] = []
        for value in values:
            if isinstance(value, list):
                kind, given = value
                value = kinds[kind](given)
            elif value is None:
                value = keys.getDefaultPartitionVal()
            try:
                found.append(keys.getPartitionPath(value))
            except (Py4JJavaError, PySparkException):
                found.append(None)
        return found

    def key_texts(self, source: str, options: Mapping[str, str], generator: str) -> str:
        """Record keys and partition paths by a key generator, of the rows of a parquet file in
        order, made of Avro records (`avro_`) and of Spark's internal rows (`unsafe_`); None where
        it fails."""
        jvm: Any = self._spark._jvm
        settings = jvm.org.apache.hudi.common.config.TypedProperties()
        for name, value in options.items():
            settings.setProperty(name, value)
        keys = reduce(getattr, generator.split("."), jvm)(settings)
        rows = self._spark.read.parquet(source).coalesce(1)
        schema = rows._jdf.schema()
        none = jvm.org.apache.hudi.common.util.Option.empty()
        avro = jvm.org.apache.hudi.HoodieSparkUtils.createRdd(rows._jdf, "r", "n", False, none)
        kinds: dict[str, list[tuple[Any, ...]]] = {
            "avro": [(record,) for record in avro.collect()],
            "unsafe": [
                (row, schema) for row in rows._jdf.queryExecution().executedPlan().executeCollect()
            ],
        }
        found = {
            f"{form}_{part}": pa.array([_text(make, row) for row in many], pa.string())
            for form, many in kinds.items()
            for part, make in (("key", keys.getRecordKey), ("path", keys.getPartitionPath))
        }
        path = self._answer_path()
        pq.write_table(pa.table(found), path)
        return path

    def file_slices(self, uri: str, metadata_table: bool) -> list[list[Any]]:
        """What Hudi's view has of every file slice: partition, file id, base instant, names and
        sizes of its files; listed by its metadata table, or by its folders."""
        jvm: Any = self._spark._jvm
        client = self._meta_client(uri)
        spark = jvm.org.apache.spark.api.java.JavaSparkContext(self._spark._jsc.sc())
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(spark)
        config = jvm.org.apache.hudi.common.config.HoodieMetadataConfig.newBuilder()
        config = config.enable(metadata_table).build()
        views = jvm.org.apache.hudi.common.table.view.FileSystemViewManager
        partitions = jvm.org.apache.hudi.common.fs.FSUtils.getAllPartitionPaths(
            context, client, config
        )
        view = views.createInMemoryFileSystemView(context, client, config)
        found = []
        for partition in partitions:
            groups = view.getAllFileGroups(partition).collect(
                jvm.java.util.stream.Collectors.toList()
            )
            for group in groups:
                for file_slice in group.getAllFileSlices().collect(
                    jvm.java.util.stream.Collectors.toList()
                ):
                    base, files = file_slice.getBaseFile(), []
                    if base.isPresent():
                        files.append([base.get().getFileName(), base.get().getFileSize()])
                    logs = file_slice.getLogFiles().collect(
                        jvm.java.util.stream.Collectors.toList()
                    )
                    files += [[log.getFileName(), log.getFileSize()] for log in logs]
                    named = [partition, file_slice.getFileId(), file_slice.getBaseInstantTime()]
                    found.append([*named, sorted(files)])
        view.close()
        return sorted(found)

    def build_index(
        self, uri: str, options: Mapping[str, str], partitions: list[str], run: bool
    ) -> str:
        """Schedule a build of partitions of the metadata table, as HoodieIndexer does, and run it;
        its instant."""
        jvm: Any = self._spark._jvm
        spark = jvm.org.apache.spark.api.java.JavaSparkContext(self._spark._jsc.sc())
        meta_client = self._meta_client(uri)
        schemas = jvm.org.apache.hudi.common.table.TableSchemaResolver(meta_client)
        client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
            spark,
            schemas.getTableSchema().toString(),
            uri,
            meta_client.getTableConfig().getTableName(),
            jvm.java.util.HashMap(dict(options)),
        )
        kinds = jvm.org.apache.hudi.metadata.MetadataPartitionType
        try:
            types = [getattr(kinds, name.upper()) for name in partitions]
            time = client.scheduleIndexing(
                jvm.java.util.ArrayList(types), jvm.java.util.Collections.emptyList()
            ).get()
            if run:
                client.index(time)
        finally:
            client.close()
        return str(time)

    def hold_table_lock(self, uri: str, options: Mapping[str, str]) -> None:
        """Take the storage lock as a writer does, and renew it until `release_table_lock`."""
        jvm: Any = self._spark._jvm
        settings = jvm.org.apache.hudi.common.config.TypedProperties()
        for name, value in {**options, "hoodie.base.path": uri}.items():
            settings.setProperty(name, value)
        described = jvm.org.apache.hudi.common.config.LockConfiguration(settings)
        lock = jvm.org.apache.hudi.client.transaction.lock.StorageBasedLockProvider(
            described, self._storage_configuration()
        )
        if not lock.tryLock(60, jvm.java.util.concurrent.TimeUnit.SECONDS):
            raise TimeoutError("the table lock is taken")
        self._held_lock = lock

    def release_table_lock(self) -> None:
        """Give up what `hold_table_lock` took."""
        self._held_lock.close()

    def hudi_rs_read(self, uri: str, options: Mapping[str, str]) -> str:
        """Rows of a table through hudi-rs."""
        from hudi import HudiReadOptions, HudiTableBuilder  # type: ignore[import-not-found]

        table = HudiTableBuilder.from_base_uri(uri).build()
        batches = table.read(HudiReadOptions(hudi_options=dict(options)))
        schema = batches[0].schema if batches else table.get_schema_with_meta_fields()
        path = self._answer_path()
        pq.write_table(pa.Table.from_batches(batches, schema=schema), path)
        return path

    def _load(self, uri: str, options: Mapping[str, str]) -> DataFrame:
        return self._spark.read.format("hudi").options(**options).load(uri)

    def _meta_client(self, uri: str) -> Any:
        jvm: Any = self._spark._jvm
        builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self._storage_configuration()).setBasePath(uri).build()

    def _storage_configuration(self) -> Any:
        jvm: Any = self._spark._jvm
        return jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            self._spark._jsc.hadoopConfiguration()
        )

    def _answer(self, rows: DataFrame) -> str:
        path = self._answer_path()
        if rows.columns:
            rows.coalesce(1).write.parquet(path)
        else:
            # A statement that only does something; Spark writes no file without columns.
            pq.write_table(pa.table({}), path)
        return path

    def _answer_path(self) -> str:
        return str(self._answers / f"{uuid.uuid4()}.parquet")


def _text(make: Any, row: tuple[Any, ...]) -> str | None:
    try:
        return str(make(*row))
    except (Py4JJavaError, PySparkException):
        return None


def main() -> None:
    """Start Spark with the bundle and answer until standard input, or the last client, ends."""
    replies = claim_standard_output()
    bundle, settings = sys.argv[1], json.loads(sys.argv[2])
    builder = SparkSession.Builder().config("spark.jars", bundle)
    for name, value in {**HUDI_SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    spark, answers = builder.getOrCreate(), Path.cwd() / "answers"
    answers.mkdir(exist_ok=True)

    def handlers_of_a_client() -> dict[str, Handler]:
        session: Any = spark.newSession()
        # The data source asks for the session of the thread.
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
        operations = HudiOperations(session, answers)
        names = [name for name in dir(operations) if not name.startswith("_")]
        return {name: getattr(operations, name) for name in names}

    if len(sys.argv) > 3:
        serve_socket(handlers_of_a_client, sys.argv[3])
    else:
        serve(handlers_of_a_client(), replies)


if __name__ == "__main__":
    main()
