"""One round of Hudi's streamer, run by the peer's own Python, without anything of ours.

Its options cannot be given on a command line: the class that reads `--op` is another one in the
bundle than outside of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_JAVA = "org.apache.hudi.utilities"


def main() -> None:
    """Arguments: a JSON object with jars, settings of Spark, and fields of the streamer's
    `Config`."""
    from py4j.java_gateway import set_field
    from pyspark.sql import SparkSession

    given: dict[str, Any] = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[1]")
    for name, text in given["spark"].items():
        builder = builder.config(name, text)
    session = builder.config("spark.driver.extraClassPath", ":".join(given["jars"])).getOrCreate()
    java = session.sparkContext._jvm
    assert java is not None
    wanted = getattr(java, f"{_JAVA}.streamer.HoodieStreamer$Config")()
    for name, value in given["config"].items():
        set_field(wanted, name, value)
    operation = java.org.apache.hudi.common.model.WriteOperationType.valueOf(given["operation"])
    set_field(wanted, "operation", operation)
    streamer = java.org.apache.hudi.utilities.streamer.HoodieStreamer
    streamer(wanted, session.sparkContext._jsc).sync()
    session.stop()


if __name__ == "__main__":
    main()
