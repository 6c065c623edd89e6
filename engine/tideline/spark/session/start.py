"""Starting Java and Spark with a finished configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tideline.cache_directory import cache_directory
from tideline.spark.session.java_runtime import prepare_java

_WORKER_START = Path(__file__).with_name("worker_start")


def start(app_name: str, master: str, configuration: Mapping[str, str]) -> SparkSession:
    """A new session, with this Python for its workers.

    Raises ConfigError without Java 17 or newer.
    """
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, text in configuration.items():
        builder = builder.config(name, text)
    # Spark's default is any `python3` on the PATH, which need not have Arrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _environment_of_java():
        return builder.getOrCreate()


@contextmanager
def _environment_of_java() -> Iterator[None]:
    """Our choice of Java while Spark starts; for the Python workers that it starts, no modules from
    the current folder, and a connection before they import (`worker_start`). The caller's
    environment stays as it was.

    PYTHONSAFEPATH that is set, if to nothing, is left as it is.
    """
    paths = (str(_WORKER_START), os.environ.get("PYTHONPATH"))
    ours = {
        "JAVA_HOME": str(prepare_java(cache_directory())),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    if "PYTHONSAFEPATH" not in os.environ:
        ours["PYTHONSAFEPATH"] = "1"
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text
