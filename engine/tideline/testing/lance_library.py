"""The library of the extra `lance`, apart from the product's own environment.

It is two hundred megabytes that few tables need, so `make setup` does not install it. `python -m
tideline.testing.lance_library` does, into a folder of the user's cache; it costs nothing when it is
there. Tests that need it take the fixture `lance_library`, which lets this process import it, with
the Arrow that is here.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tideline.cache_directory import cache_directory
from tideline.testing.peer_environment import only_builder, run_step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANCE_REQUIREMENT = "pylance==14.0.2"


def prepare_lance() -> Path:
    """The folder to import it from, filled if need be.

    Raises PeerUnavailableError with the failing step's output.
    """
    folder = cache_directory() / "libraries" / LANCE_REQUIREMENT
    with only_builder("lance-library"):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                target = Path(scratch) / "site"
                install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
                run_step([*install, "--target", str(target), LANCE_REQUIREMENT])
                shutil.move(target, folder)
    return folder


@pytest.fixture(scope="session")
def lance_library() -> Path:
    """The folder, which this process imports from as long as it lives."""
    folder = prepare_lance()
    if importlib.util.find_spec("lance") is None:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
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
