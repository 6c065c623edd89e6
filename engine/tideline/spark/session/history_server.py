"""Spark's history server over event logs in a store: what to start, with which class path."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from tideline.spark.session.connector_jars import needed_jars
from tideline.spark.session.connectors import connector_of
from tideline.spark.session.java_runtime import find_java
from tideline.spark.session.spark_session import LOG_OPTIONS
from tideline.spark.session.store_connection import connector_settings
from tideline.storage.location import StoreLocation

HISTORY_SERVER = "org.apache.spark.deploy.history.HistoryServer"
_HEAP = "-Xmx768m"


def history_server_command(location: StoreLocation, port: int) -> list[str]:
    """Java's command line; credentials of stores come from the environment.

    Raises ConfigError without Java, and for a remote location without jars or credentials.
    """
    settings = {
        "spark.history.fs.logDirectory": location.spark_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.fs.update.interval": "10s",
        **{f"spark.hadoop.{name}": text for name, text in connector_settings(location).items()},
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    jars = [str(_spark_jars() / "*")]
    if connector := connector_of(location.kind):
        jars += map(str, needed_jars(connector))
    java = str(find_java().executable)
    return [java, _HEAP, LOG_OPTIONS, *options, "-cp", ":".join(jars), HISTORY_SERVER]


def _spark_jars() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
