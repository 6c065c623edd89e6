"""Hudi's own validator of metadata tables, `HoodieMetadataTableValidator`.

It is one of `hudi_utilities`. It reads tables of version 6, and compares every partition of the
metadata table with a listing, with footers of base files and with the rows of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tideline.testing.hudi_utilities import prepared_utilities

_CLASS = "org.apache.hudi.utilities.HoodieMetadataTableValidator"
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
    arguments = ["--base-path", folder.as_uri(), *(f"--validate-{check}" for check in checks)]
    done = prepared_utilities().submit(_CLASS, arguments, timeout_s=_TIMEOUT_S)
    return _said(done.stdout)


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
