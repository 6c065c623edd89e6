"""Spark's event logs in the table's store, where a history server reads them."""

from __future__ import annotations

from tideline.storage.location import StoreLocation

_MARKER = ".spark-event-logs"


def event_log_conf(location: StoreLocation) -> dict[str, str]:
    """What makes Spark keep its event logs at a location: a history server reads the files while
    they grow."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": location.spark_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.compress": "true",
    }


def make_event_log_folder(location: StoreLocation) -> None:
    """Spark wants the folder of its event logs to be there: S3 has one where an object is in it.

    Raises StorageUnavailableError.
    """
    location.open().put_if_absent(_MARKER, b"")
