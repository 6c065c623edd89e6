"""Hudi's own validator of metadata tables, `HoodieMetadataTableValidator`.

Maven Central has that of release 0.14.0 alone, outside of a bundle; it needs a Spark of its own.
It reads tables of version 6, and compares every partition of the metadata table with a listing,
with footers of base files and with the rows of the table.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.testing.peer_environment import (
    PeerEnvironment,
    only_builder,
    prepare_jar,
    prepare_virtual_environment,
)

_REQUIREMENTS = ("pyspark==3.4.4", "setuptools")
HUDI_VALIDATOR = "org.apache.hudi:hudi-utilities_2.12:0.14.0"
_JARS = (
    HUDI_VALIDATOR,
    "org.apache.hudi:hudi-spark3.4-bundle_2.12:0.14.0",
    "com.beust:jcommander:1.72",
)
_CLASS = "org.apache.hudi.utilities.HoodieMetadataTableValidator"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.driver.host": "127.0.0.1",
}
CHECKS = (
    "latest-file-slices",
    "latest-base-files",
    "all-file-groups",
    "bloom-filters",
    "record-index-count",
    "record-index-content",
)
STATISTICS = ("all-column-stats",)
"""It stops at the first partition whose statistics are not of all columns, so that what it says of
one is compared here."""
_TIMEOUT_S = 300
_SUCCEEDED = re.compile(r"Validation of ([\w ]+?) succeeded(?: for partition (\S+))?")
_FAILED = re.compile(r"Validation of ([\w ]+?) for partition (\S+) failed")
_STATISTICS = re.compile(
    r"Validation of column stats for partition (\S+) failed\.\n"
    r"column stats from metadata: \[(.*)\]\n"
    r"column stats from file system and base files: \[(.*)\]\n"
)
_RANGE = re.compile(r"HoodieColumnRangeMetadata\{.*?\}")


@dataclass(frozen=True, slots=True)
class Validated:
    """What it found right and wrong: a check, and the partition where it has one; all of what it
    printed."""

    right: frozenset[tuple[str, str]]
    wrong: frozenset[tuple[str, str]]
    printed: str


def validate(folder: Path, checks: Sequence[str] = CHECKS) -> Validated:
    """Compare the metadata table of a table of version 6 with the table. Raises
    PeerUnavailableError where the validator cannot be had."""
    python, jars = _prepared()
    (spark,) = python.parent.parent.glob("lib/python*/site-packages/pyspark")
    settings = {**_SETTINGS, "spark.driver.extraClassPath": ":".join(map(str, jars))}
    command = [str(spark / "bin/spark-submit"), "--master", "local[1]"]
    command += [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]
    command += ["--class", _CLASS, str(jars[0]), "--base-path", folder.as_uri()]
    command += [f"--validate-{check}" for check in checks]
    done = subprocess.run(
        command,
        env={**PeerEnvironment.process_environment(), "SPARK_HOME": str(spark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
    )
    return _said(done.stdout)


def _prepared() -> tuple[Path, list[Path]]:
    with only_builder("hudi-validator"):
        directory = cache_directory() / "venvs" / "hudi-validator"
        python = prepare_virtual_environment(directory, _REQUIREMENTS, imports="pyspark")
        return python, [prepare_jar(coordinate, python) for coordinate in _JARS]


def _said(printed: str) -> Validated:
    statistics = {("column stats", partition) for partition in _right_statistics(printed)}
    right = statistics.union(_SUCCEEDED.findall(printed))
    wrong = set(_FAILED.findall(printed)) - statistics
    return Validated(frozenset(right), frozenset(wrong), printed)


def _right_statistics(printed: str) -> Iterator[str]:
    """The partitions whose statistics are those of the files. It asks for those of all columns,
    which a definition may leave out."""
    for partition, kept, of_files in _STATISTICS.findall(printed):
        ranges = set(_RANGE.findall(kept))
        if ranges and ranges <= set(_RANGE.findall(of_files)):
            yield partition
