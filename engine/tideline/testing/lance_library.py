"""The library of the extra `lance`, apart from the product's own environment.

It is two hundred megabytes that few tables need, so `make setup` does not install it. `python -m
tideline.testing.lance_library` does, into a folder of the user's cache; it costs nothing when it is
there. Tests that need it take the fixture `lance_library`, which lets this process import it, with
the Arrow that is here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tideline.testing.library_apart import import_from, prepare_library

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANCE_REQUIREMENT = "pylance==14.0.2"


def prepare_lance() -> Path:
    """The folder to import it from, filled if need be.

    Raises PeerUnavailableError with the failing step's output.
    """
    return prepare_library((LANCE_REQUIREMENT,))


@pytest.fixture(scope="session")
def lance_library() -> Path:
    """The folder, which this process imports from as long as it lives."""
    folder = prepare_lance()
    import_from(folder, "lance")
    return folder


@pytest.fixture
def lance_on_spark(lance_library: Path, spark: SparkSession) -> SparkSession:
    """A session whose Python workers import it, too."""
    spark.sparkContext.environment["PYTHONPATH"] = str(lance_library)
    return spark


def main() -> int:
    """Prepare it and print where it is."""
    print(prepare_lance())
    return 0


if __name__ == "__main__":
    sys.exit(main())
