"""Hudi's side of `topic_ingest`: Spark reads ranges of a topic, Hudi's DataSource upserts them.

Run by the peer's own Python, without anything of ours. Hudi's streamer would do the same from one
process, but its bundle cannot be had from Maven's repository. The first range is the warm-up: what
is printed is the processor time of Java, and the wall time, from there to the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Arguments: a JSON object with brokers, topic, table, jars, ends (offsets by partition, one
    object for each commit), schema, is_avro and options."""
    from pyspark.sql import SparkSession, functions
    from pyspark.sql.avro.functions import from_avro

    given: dict[str, Any] = json.loads(sys.argv[1])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(given["jars"]))
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    first = given["ends"][0]
    started: tuple[float, float] | None = None
    for before, after in zip(given["ends"], given["ends"][1:], strict=False):
        if before is not first and started is None:
            started = time.perf_counter(), _java_cpu_s()
        records = (
            session.read.format("kafka")
            .option("kafka.bootstrap.servers", given["brokers"])
            .option("subscribe", given["topic"])
            .option("startingOffsets", json.dumps({given["topic"]: before}))
            .option("endingOffsets", json.dumps({given["topic"]: after}))
            .load()
        )
        if given["is_avro"]:
            # Behind the number of the schema.
            value = from_avro(functions.expr("substring(value, 6)"), given["schema"])
        else:
            value = functions.from_json(functions.col("value").cast("string"), given["schema"])
        rows = records.select(value.alias("row")).select("row.*")
        rows.write.format("hudi").options(**given["options"]).mode("append").save(given["table"])
    assert started is not None
    wall_s, cpu_s = started
    spent = {"wall_s": time.perf_counter() - wall_s, "cpu_s": _java_cpu_s() - cpu_s}
    print(json.dumps(spent))


def _java_cpu_s() -> float:
    """Of the child that Spark's gateway started."""
    ticks = 0
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                text = (process / "stat").read_text()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and "(java)" in text:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
