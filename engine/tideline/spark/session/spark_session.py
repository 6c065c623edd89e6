"""The Spark session everything runs in: quiet, in UTC, with warm Python workers.

`spark_session` starts Java when none runs yet. Settings that only matter at start are then fixed
for the life of the process; a session that runs already is returned as it is, connected to the
locations asked for.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tideline.bounded.read_limits import COLUMNS_SETTING
from tideline.bounded.read_limits import SETTING as METADATA_SETTING
from tideline.machine import memory_bytes
from tideline.spark.session.class_archive import archive_options, class_path
from tideline.spark.session.connector_jars import needed_jars
from tideline.spark.session.connectors import connector_of
from tideline.spark.session.start import start
from tideline.spark.session.store_connection import connect_store, connector_settings
from tideline.storage.location import StoreLocation

ARROW_BATCH_ROWS = 65_536
LOG_OPTIONS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
"""Java's options for its logs."""

_CLASS_PATH = "spark.driver.extraClassPath"
_MIB = 1024 * 1024
_BRIEF_WORK_BYTES_MAX = 64 * _MIB
_COMPILES_ONCE = "-XX:TieredStopAtLevel=1"
"""Java otherwise spends more on compiling better what it has compiled than little work takes."""
_ARROW_BATCH_BYTES_MAX = 64 * _MIB
_HEAP_MIB_MIN = 1024
_CONNECTION_S = 120
_HEAP_MIB_MAX = 16 * 1024


def spark_session(
    app_name: str = "tideline",
    *,
    master: str = "local[*]",
    locations: Iterable[StoreLocation] = (),
    extra_conf: Mapping[str, str] | None = None,
    work_bytes: int | None = None,
) -> SparkSession:
    """The running Spark session, else a new one.

    `locations` are the stores it will read or write; remote ones need the jars of a connector.
    `extra_conf` (Spark configuration) wins over what is set here. `work_bytes` is about how much
    the session will read before it ends, where that is known. Raises ConfigError without Java 17 or
    newer, and for a remote location without the jars.
    """
    stores = tuple(locations)
    session = SparkSession.getActiveSession()
    if session is None:
        configuration = spark_configuration(master, stores, work_bytes) | dict(extra_conf or {})
        session = start(app_name, master, configuration)
    for location in stores:
        connect_store(session, location)
    return session


def running_master() -> str | None:
    """The master of the session that runs in this process; None when there is none."""
    session = SparkSession.getActiveSession()
    return None if session is None else session.sparkContext.master


def spark_configuration(
    master: str, locations: Iterable[StoreLocation] = (), work_bytes: int | None = None
) -> dict[str, str]:
    """The Spark configuration of a new session. Raises ConfigError when jars are needed and
    missing."""
    archive = archive_options()
    java_options = [LOG_OPTIONS, archive]
    if is_local(master) and work_bytes is not None and work_bytes <= _BRIEF_WORK_BYTES_MAX:
        java_options.append(_COMPILES_ONCE)
    configuration = {
        "spark.sql.session.timeZone": "UTC",
        # Query results and Python tasks move as Arrow; larger batches cost Python less per row.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_ARROW_BATCH_BYTES_MAX),
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "tideline.spark.session.python_daemon",
        # How long Python and Java wait for each other: on a busy machine longer than Spark's 15 s.
        "spark.python.authenticate.socketTimeout": f"{_CONNECTION_S}s",
        "spark.sql.adaptive.enabled": "true",
        # A value that does not fit its type is an error, never silently null.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # No Hive metastore, and no warehouse folder wherever the command happens to run.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": f"file:{tempfile.gettempdir()}/tideline-warehouse-{os.getuid()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(filter(None, java_options)),
    }
    # Executors read metadata and files within the limits of their driver.
    for name in (METADATA_SETTING, COLUMNS_SETTING):
        if name in os.environ:
            configuration[f"spark.executorEnv.{name}"] = os.environ[name]
    if is_local(master):
        configuration |= _local_configuration(master)
    configuration |= _store_configuration(master, locations)
    own = class_path() if archive else ""
    if own:
        others = configuration.get(_CLASS_PATH)
        configuration[_CLASS_PATH] = f"{own}:{others}" if others else own
    return configuration


def running_session() -> SparkSession | None:
    """The session that runs in this process; nothing starts."""
    return SparkSession.getActiveSession()


def session_zone(spark: SparkSession) -> str:
    """The zone in which the session shows moments as text."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def is_local(master: str) -> bool:
    """Whether everything runs in this machine's one Java process."""
    return master == "local" or master.startswith("local[")


def local_cores(master: str) -> int:
    """How many tasks run at once under a local master: `local`, `local[4]`, `local[*]`."""
    count = master.partition("[")[2].rstrip("]").partition(",")[0]
    if count == "*":
        return len(os.sched_getaffinity(0))
    return int(count) if count.isdecimal() else 1


def _local_configuration(master: str) -> dict[str, str]:
    return {
        "spark.driver.memory": f"{_heap_mib()}m",
        # Nothing of a local session is for the network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # The default of 200 costs more than it spreads on one machine.
        "spark.sql.shuffle.partitions": str(max(4, 2 * local_cores(master))),
    }


def _heap_mib() -> int:
    """40% of the machine's (or the container's) memory: Python tasks need the rest."""
    return max(_HEAP_MIB_MIN, min(_HEAP_MIB_MAX, memory_bytes() * 2 // 5 // _MIB))


def _store_configuration(master: str, locations: Iterable[StoreLocation]) -> dict[str, str]:
    """What the connectors must be set to, and their jars unless they are among pyspark's own."""
    settings: dict[str, str] = {}
    jars: dict[Path, None] = {}
    for location in locations:
        for name, text in connector_settings(location).items():
            settings[f"spark.hadoop.{name}"] = text
        if connector := connector_of(location.kind):
            jars |= dict.fromkeys(needed_jars(connector))
    if jars and is_local(master):
        # On the class path they need not be copied into every session.
        settings[_CLASS_PATH] = ":".join(f"{jar}/*" for jar in {jar.parent: None for jar in jars})
    elif jars:
        settings["spark.jars"] = ",".join(jar.as_uri() for jar in jars)
    return settings
