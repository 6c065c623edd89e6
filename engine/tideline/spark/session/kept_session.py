"""One Spark session after the other on one Java, for a process that works for many tables.

Every operation gets a session of its own: views, functions and settings are not shared. What all
sessions of a Java share is put back by `reset`: cached rows, connections to stores, and Hadoop's
settings; those of a store say where it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from tideline.spark.session.spark_session import spark_session
from tideline.spark.session.store_connection import connect_store, connector_settings
from tideline.storage.location import StoreLocation

_PREFIXES = ("fs.s3a.", "fs.azure.", "fs.gs.")


class KeptSession:
    """Starts Java at the first `open`."""

    def __init__(self, name: str, extra_conf: Mapping[str, str]) -> None:
        self._name = name
        self._extra_conf = dict(extra_conf)
        self._first: SparkSession | None = None
        self._used: SparkSession | None = None
        self._hadoop: dict[str, str] = {}

    @property
    def first(self) -> SparkSession | None:
        """The session that Java was started with."""
        return self._first

    def open(self, locations: Iterable[StoreLocation]) -> SparkSession:
        """The session of this operation, connected to the locations."""
        stores = tuple(locations)
        if self._first is None:
            self._first = spark_session(self._name, locations=stores, extra_conf=self._extra_conf)
            of_stores = {name for location in stores for name in connector_settings(location)}
            found = _hadoop_settings(self._first)
            self._hadoop = {name: text for name, text in found.items() if name not in of_stores}
        if self._used is None:
            self._used = self._first.newSession()
            _activate(self._used)
            # A cancelled task ends at once, and does not continue writing its file.
            self._used.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
        for location in stores:
            connect_store(self._used, location)
        return self._used

    def cancel(self) -> bool:
        """Cancel this operation's work on Spark; False where it has not opened a session."""
        if self._used is None:
            return False
        with contextlib.suppress(Exception):
            self._used.sparkContext.cancelAllJobs()
        return True

    def reset(self) -> None:
        """Leave nothing of the operation."""
        used, self._used = self._used, None
        if used is None or self._first is None:
            return
        context: Any = used.sparkContext
        used.catalog.clearCache()
        for name in _global_views(used):
            used.catalog.dropGlobalTempView(name)
        for stored in context._jsc.getPersistentRDDs().values():
            stored.unpersist()
        context._jvm.org.apache.hadoop.fs.FileSystem.closeAll()
        hadoop = context._jsc.hadoopConfiguration()
        for name in set(_hadoop_settings(used)) - set(self._hadoop):
            hadoop.unset(name)
        for name, text in self._hadoop.items():
            hadoop.set(name, text)
        _activate(self._first)


def _activate(session: SparkSession) -> None:
    """Make it what Python and Java take for the running session: PySpark keeps its own note."""
    SparkSession._activeSession = session
    jvm: Any = session._jvm
    jvm.SparkSession.setActiveSession(session._jsparkSession)
    jvm.SparkSession.setDefaultSession(session._jsparkSession)


def _global_views(session: SparkSession) -> list[str]:
    database = session.conf.get("spark.sql.globalTempDatabase") or "global_temp"
    rows = session.sql(f"show tables in `{database}`").collect()
    return [row["tableName"] for row in rows if row["namespace"] == database]


def _hadoop_settings(session: SparkSession) -> dict[str, str]:
    """What was set on top of Hadoop's own files, as far as stores are concerned."""
    context: Any = session.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    return {
        f"{prefix}{name}": text
        for prefix in _PREFIXES
        for name, text in dict(hadoop.getPropsWithPrefix(prefix)).items()
    }
