"""Reads with and without statistics: which files they open, and what rows that lie make of them.

`rewritten_rows` puts other rows of statistics in place of those that are stored, such as those of a
file without statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tideline.hudi.metadata_table import file_ranges, key_ranges
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.column_stats import FileRows
from tideline.hudi.read import file_pruning, key_lookup, partition_pruning
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.write import known_ranges
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.stepping_store import Step, SteppingStore

_READS = ("get", "get_range", "get_versioned", "open_reader")
_CONTROL = ".hoodie/"


@contextmanager
def statistics_unused() -> Iterator[None]:
    """Within, reads leave no file out by statistics, or by indexes, and writes none by statistics
    of keys."""
    with (
        mock.patch.object(file_pruning, "FILES_LOOKED_UP", 1 << 60),
        mock.patch.object(known_ranges, "FILES_MIN", 1 << 60),
    ):
        yield


@contextmanager
def statistics_always_used() -> Iterator[None]:
    """Within, reads and writes of a few files use statistics and indexes as well, whatever these
    cost."""
    with (
        mock.patch.object(file_pruning, "FILES_LOOKED_UP", 0),
        mock.patch.object(known_ranges, "FILES_MIN", 0),
        mock.patch.object(key_lookup, "COST_MAX", float("inf")),
    ):
        yield


@contextmanager
def seen_partitions() -> Iterator[set[str]]:
    """Within, the partitions that reads leave out come into this set."""
    gone: set[str] = set()
    look = partition_pruning.partitions_ruled_out

    def looked(*given: Any) -> frozenset[str]:
        found = look(*given)
        gone.update(found)
        return found

    with mock.patch.object(file_pruning, "partitions_ruled_out", looked):
        yield gone


@contextmanager
def rewritten_rows(rewritten: Callable[[ColumnRow], ColumnRow | None]) -> Iterator[None]:
    """Within, reads and writes find these rows instead of those that are stored; None is no row."""

    def found(table: HoodieTable, columns: Collection[str], paths: Collection[str]) -> FileRows:
        rows = file_ranges.ranges_of_files(table, columns, paths)
        return {
            path: {name: new for name, row in of_file.items() if (new := rewritten(row))}
            for path, of_file in rows.items()
        }

    with (
        mock.patch.object(file_pruning, "ranges_of_files", found),
        mock.patch.object(key_ranges, "ranges_of_files", found),
    ):
        yield


def read_counted(
    location: StoreLocation, lake: Callable[[ObjectStore], LakeTable], condition: Any
) -> tuple[list[str], int]:
    """The ids of what a condition selects, and how many data files were opened for them."""
    seen = OpenedFiles(location.open())
    found = lake(seen.store).to_arrow(["id"], condition)
    return sorted(found["id"].to_pylist()), len(seen.paths)


def compare_reads(read: Callable[[Any], tuple[list[str], int]], condition: Any) -> tuple[int, int]:
    """Files opened without statistics and indexes, and with them, for the same rows."""
    with statistics_unused():
        expected, before = read(condition)
    found, after = read(condition)
    assert found == expected, condition
    return before, after


@dataclass
class OpenedFiles:
    """The data files that are opened through `store`, each counted once."""

    inner: ObjectStore
    paths: set[str] = field(default_factory=set)

    @property
    def store(self) -> SteppingStore:
        return SteppingStore(self.inner, self._seen)

    def _seen(self, step: Step) -> None:
        if step.method in _READS and not step.path.startswith(_CONTROL):
            self.paths.add(step.path)
