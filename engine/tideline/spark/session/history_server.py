"""Spark's history server over event logs in a store: what to start, with which class path."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from tideline.errors import ConfigError
from tideline.spark.session.java_runtime import find_java
from tideline.spark.session.s3a_jars import INSTALL_COMMAND, find_s3a_jars
from tideline.spark.session.spark_session import LOG_OPTIONS
from tideline.storage.location import StoreLocation

HISTORY_SERVER = "org.apache.spark.deploy.history.HistoryServer"
_HEAP = "-Xmx768m"


def history_server_command(location: StoreLocation, port: int) -> list[str]:
    """Java's command line; credentials of S3 come from the environment.

    Raises ConfigError without Java, without the S3A jars for S3, and without credentials for it.
    """
    settings = {
        "spark.history.fs.logDirectory": location.spark_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.fs.update.interval": "10s",
        **{f"spark.hadoop.{name}": text for name, text in location.hadoop_settings().items()},
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    jars = [str(_spark_jars() / "*")]
    if location.kind.needs_connector:
        jars += _connector_jars()
    java = str(find_java().executable)
    return [java, _HEAP, LOG_OPTIONS, *options, "-cp", ":".join(jars), HISTORY_SERVER]


def _spark_jars() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


def _connector_jars() -> list[str]:
    if any(_spark_jars().glob("hadoop-aws-*.jar")):
        return []
    found = find_s3a_jars()
    if found is None:
        raise ConfigError(f"an S3 location needs Spark's S3A jars: run `{INSTALL_COMMAND}` once")
    return [str(jar) for jar in found]
