"""Spark's own vectorised Parquet reader over an explicit list of base files.

`spark.read.parquet` either takes folders, which hold older versions of every file, or a list of
files, for which it knows no partitions and asks the store file by file. Here Spark gets its native
file index with everything a file-system view knows already: names, sizes and the values of the
partition columns. Partitions are pruned and columns read natively; no row goes through Python.

Which of the files may hold the rows of a query a `FileChooser` says once Spark has planned it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tideline.errors import ObjectNotFoundError
from tideline.hudi.read.partition_values import PartitionLayout, split_by_certainty
from tideline.hudi.table.file_group import BaseFile
from tideline.spark.quoting import quoted
from tideline.spark.session.store_connection import connect_store
from tideline.storage.local.regular_file import native_file
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import checked_path

_compiled: dict[tuple[int, str], Any] = {}
_compiling = Lock()


def read_base_files(
    spark: SparkSession,
    location: StoreLocation,
    files: Iterable[BaseFile],
    schema: T.StructType,
    layout: PartitionLayout | None = None,
    chooser: FileChooser | None = None,
) -> DataFrame:
    """The rows of the files, with the columns of `schema` in its order.

    `schema` has the types the files store, or ones that Spark's reader widens them to; a column
    that a file lacks is null. With `layout` filters on partition columns skip files; files of
    partitions whose values are uncertain are read as any other. `chooser` leaves out more of them.
    """
    connect_store(spark, location)
    files = list(files)
    store = location.open()
    for file in files:
        # Java opens whatever is there: a fifo for ever, a link to anywhere. One that is gone it
        # reports itself.
        with suppress(ObjectNotFoundError):
            native_file(store, checked_path(file.path))
    by_partition: dict[str, list[BaseFile]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    certain, uncertain = split_by_certainty(by_partition, layout)
    frames = []
    if layout is not None and certain:
        names = set(layout.schema.names)
        columns = T.StructType([field for field in schema.fields if field.name in names])
        order = [layout.schema.names.index(field.name) for field in columns.fields]
        values = {
            partition: [texts[position] for position in order]
            for partition, texts in certain.items()
        }
        frames.append(_frame(spark, location, by_partition, values, columns, schema, chooser))
    if uncertain:
        no_values: dict[str, Sequence[str | None]] = dict.fromkeys(uncertain, ())
        frames.append(
            _frame(spark, location, by_partition, no_values, T.StructType(), schema, chooser)
        )
    if not frames:
        return spark.createDataFrame([], schema)
    first, *others = [frame.select(*_quoted(schema)) for frame in frames]
    for other in others:
        first = first.unionAll(other)
    return first


def _frame(
    spark: SparkSession,
    location: StoreLocation,
    files: Mapping[str, Sequence[BaseFile]],
    values: Mapping[str, Sequence[str | None]],
    partition_schema: T.StructType,
    schema: T.StructType,
    chooser: FileChooser | None,
) -> DataFrame:
    """One native relation over the partitions that `values` names."""
    directories = [
        {
            "path": location.spark_uri(partition),
            "values": list(texts),
            "files": [(file.name, file.size_bytes) for file in files[partition]],
        }
        for partition, texts in values.items()
    ]
    jvm: Any = spark._jvm
    as_java_type = jvm.org.apache.spark.sql.types.DataType.fromJson
    relation = compiled_relation(spark, "BaseFileRelation")
    frame = relation.frame(
        spark._jsparkSession,
        json.dumps(directories),
        as_java_type(partition_schema.json()),
        as_java_type(schema.json()),
        java_map(jvm, location.hadoop_settings()),
        *asked_of(spark, chooser),
    )
    return DataFrame(frame, spark)


class FileChooser(Protocol):
    """Says which files may hold rows. Java calls it while it plans a query."""

    def apply(self, filters: str) -> str | None:
        """The names of these files as JSON, None for all, by filters that `PlannedFilters` printed.
        Raises nothing: Java would not say so."""


def asked_of(spark: SparkSession, chooser: FileChooser | None) -> tuple[Any, Any]:
    """What an index is given to ask: what prints filters, and whom it asks."""
    if chooser is None:
        return None, None
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    return compiled_relation(spark, "PlannedFilters"), chooser


def compiled_relation(spark: SparkSession, name: str) -> Any:
    """A new object of the class in `<name>.java` here, compiled once per Java process.

    Only the driver has the class: no task may carry an object of it.
    """
    gateway: Any = spark.sparkContext._gateway
    with _compiling:
        if (id(gateway), name) not in _compiled:
            compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
            thread = gateway.jvm.java.lang.Thread.currentThread()
            compiler.setParentClassLoader(thread.getContextClassLoader())
            compiler.cook(Path(__file__).with_name(f"{name}.java").read_text("utf-8"))
            loaded = compiler.getClassLoader().loadClass(f"tideline.{name}")
            no_types = gateway.new_array(gateway.jvm.java.lang.Class, 0)
            no_arguments = gateway.new_array(gateway.jvm.java.lang.Object, 0)
            _compiled[id(gateway), name] = loaded.getConstructor(no_types).newInstance(no_arguments)
        return _compiled[id(gateway), name]


def java_map(jvm: Any, settings: Mapping[str, Any]) -> Any:
    """A Java map with these entries."""
    made = jvm.java.util.HashMap()
    for name, text in settings.items():
        made.put(name, text)
    return made


def _quoted(schema: T.StructType) -> list[str]:
    return [quoted(name) for name in schema.names]
