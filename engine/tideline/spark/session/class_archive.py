"""An archive of Spark's classes, so that Java maps what it would load and verify at each start.

`make_class_archive` makes it; a session that finds one for its Spark and its Java starts with it,
in some two thirds of the time. Java checks for itself that an archive fits its version and its
class path, and does without one that does not.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from tideline.cache_directory import cache_directory
from tideline.spark.session.java_runtime import JavaRuntime, find_java

# A misfit is no news to people who only want their rows.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_FOLDER = "class-archives"


def archive_options() -> str:
    """Java's options for a session that starts now: those that use the archive, if there is one.

    Raises ConfigError without Java 17 or newer.
    """
    found = find_archive()
    return "" if found is None else f"-XX:SharedArchiveFile={found} -Xshare:auto {QUIET}"


def find_archive() -> Path | None:
    """The archive for this Spark and this Java, where there is one."""
    return next((path for path in archive_places() if path.is_file()), None)


def class_path() -> str:
    """Spark's own jars one by one, in an order that is the same on every machine.

    Java takes an archive if the class path begins as it did when the archive was made; a folder's
    jars come in the order of the file system. Empty where Spark is not pyspark's own.
    """
    own = Path(pyspark.__file__).parent
    if Path(os.environ.get("SPARK_HOME") or own) != own:
        return ""
    return ":".join(sorted(map(str, (own / "jars").glob("*.jar"))))


def archive_places() -> tuple[Path, Path]:
    """Where the archive for this Spark and this Java may be: next to pyspark, or in the user's
    cache."""
    name = _archive_name(find_java())
    return Path(pyspark.__file__).parent / name, cache_directory() / _FOLDER / name


def _archive_name(java: JavaRuntime) -> str:
    """Another Java, another Spark and one with other jars have archives of their own."""
    release = java.home / "release"
    described = release.read_bytes() if release.is_file() else str(java.home).encode()
    spark = f"{pyspark.__version__} {class_path()}".encode()
    return f"tideline-{hashlib.sha256(described + b' ' + spark).hexdigest()[:16]}.jsa"
