"""Read options are those that Spark has; a misspelled one is refused with the one that is meant."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConfigError
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.read_options import READ_OPTIONS, require_known, unknown_option

_CLASSES = {
    FileFormat.CSV: "org.apache.spark.sql.catalyst.csv.CSVOptions$",
    FileFormat.JSON: "org.apache.spark.sql.catalyst.json.JSONOptions$",
    FileFormat.PARQUET: "org.apache.spark.sql.execution.datasources.parquet.ParquetOptions$",
}


@pytest.mark.parametrize(
    ("file_format", "name", "said"),
    [
        (FileFormat.CSV, "seperator", "seperator is no read option of csv, did you mean sep?"),
        (FileFormat.CSV, "headers", "headers is no read option of csv, did you mean header?"),
        (FileFormat.CSV, "foo", "foo is no read option of csv"),
        (FileFormat.JSON, "sep", "sep is a read option of csv, not of json"),
        (FileFormat.CSV, "TIMESTAMPFORMAT", None),
        (FileFormat.PARQUET, "pathGlobFilter", None),
    ],
)
def test_names(file_format: FileFormat, name: str, said: str | None) -> None:
    assert unknown_option(file_format, name) == said


def test_the_first_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean nullValue"):
        require_known(FileFormat.CSV, ["sep", "nulvalue"])


@pytest.mark.spark
@pytest.mark.parametrize("file_format", list(FileFormat))
def test_spark_has_these_and_no_others(spark: SparkSession, file_format: FileFormat) -> None:
    jvm: Any = spark._jvm
    options = jvm.java.lang.Class.forName(_CLASSES[file_format]).getField("MODULE$").get(None)
    names = options.getAllOptions().iterator()
    found = set()
    while names.hasNext():
        found.add(names.next())
    own = set(READ_OPTIONS[file_format])
    files = set.intersection(*(set(names) for names in READ_OPTIONS.values()))
    assert own - files - {"compression"} == found - {"compression"}
