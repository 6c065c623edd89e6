"""Which version of Spark the engine works with.

Two relations are compiled against Spark's internal classes, and private parts of PySpark are used:
another minor version fails somewhere in the middle, with an error that names neither.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from tideline.distribution import installation
from tideline.errors import ConfigError

SPARK = "4.3"


def refuse_other_versions() -> None:
    """Raise ConfigError where another version of PySpark is installed.

    A PySpark that no package manager installed, such as that of a Spark distribution, is taken as
    it is.
    """
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return
    if found.split(".")[:2] != SPARK.split("."):
        raise ConfigError(
            f"Spark {found} is not supported: Tideline works with Spark {SPARK}; "
            f"{installation('spark')} brings it",
            value=found,
        )
