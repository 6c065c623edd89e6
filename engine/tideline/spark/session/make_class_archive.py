"""Makes the archive of Spark's classes for this environment, once:

    python -m tideline.spark.session.make_class_archive

A session does some of everything, and Java writes the classes that it used when it ends (dynamic
class data sharing). That takes half a minute and 170 MB. Died in between: a file that no session
looks for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError
from tideline.spark.session.class_archive import QUIET, archive_places, class_path, find_archive
from tideline.spark.session.java_runtime import find_java
from tideline.spark.session.spark_session import LOG_OPTIONS, spark_session

_TIMEOUT_S = 600


def make_archive() -> Path:
    """The archive, made in a process of its own where there is none.

    Raises ConfigError without Java 17, and for a Java that makes none, as small runtimes do;
    CalledProcessError or TimeoutExpired when the session fails.
    """
    found = find_archive()
    if found is not None:
        return found
    beside, cached = archive_places()
    target = beside if os.access(beside.parent, os.W_OK) else cached
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "tideline.spark.session.make_class_archive"]
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unfinished-") as folder:
        archive = Path(folder) / target.name
        subprocess.run(
            [*command, str(archive)], check=True, capture_output=True, timeout=_TIMEOUT_S
        )
        if not archive.is_file():
            raise ConfigError("this Java makes no archive of classes", path=find_java().home)
        archive.rename(target)
    return target


def use_classes(java_option: str) -> None:
    """A session that does some of everything; the option has Java write down its classes."""
    from pyspark import SparkContext

    options = f"{LOG_OPTIONS} {java_option} {QUIET}"
    configuration = {
        "spark.driver.extraJavaOptions": options,
        "spark.driver.extraClassPath": class_path(),
    }
    spark = spark_session("classes", extra_conf=configuration)
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(1_000).selectExpr("id", "id % 8 p", "cast(id as string) t", "id / 3 x")
        rows.write.partitionBy("p").parquet(f"{folder}/parquet")
        rows.write.option("header", True).csv(f"{folder}/csv")
        rows.write.json(f"{folder}/json")
        stored = spark.read.parquet(f"{folder}/parquet")
        csv = spark.read.option("header", True).option("inferSchema", True).csv(f"{folder}/csv")
        spark.read.json(f"{folder}/json").toArrow()
        joined = stored.join(csv.select("id", "t"), "id", "left").where("x > 3")
        counted = joined.groupBy("p").agg({"x": "sum", "id": "count"}).orderBy("p")
        counted.toArrow()
        counted.collect()
        arranged = stored.repartition(4, "p").sortWithinPartitions("t")
        arranged.mapInArrow(_same, stored.schema).count()
        stored.persist().count()
    gateway = SparkContext._gateway
    spark.stop()
    assert gateway is not None, "a session has one"
    gateway.shutdown()
    # Java ends when its input does, and writes the archive then.
    process = gateway.proc
    process.stdin.close()
    process.wait(_TIMEOUT_S)


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


if __name__ == "__main__":
    if sys.argv[1:]:
        use_classes(f"-XX:ArchiveClassesAtExit={sys.argv[1]}")
    else:
        print(make_archive())
