"""The Spark session: Java, the connector of S3, the Python workers."""

from __future__ import annotations

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "get_session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tideline.spark.session.spark_session import spark_session

    warnings.warn(
        "tideline.spark.session.get_session is now tideline.spark_session",
        DeprecationWarning,
        stacklevel=2,
    )
    return spark_session
