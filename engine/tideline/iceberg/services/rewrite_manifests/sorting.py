"""The entries of a group of manifests in order of their partitions, in bounded memory.

Few entries are sorted at once. Many are taken partition by partition: a first pass counts them, and
each further pass reads those of as many partitions as fit. The entries of a partition that does not
fit alone are not sorted among each other, so they are passed on as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tideline.iceberg.manifest.manifest_entry import EntryStatus, ManifestEntry
from tideline.iceberg.manifest.manifest_file import read_manifest
from tideline.iceberg.scan.manifests import read_ahead
from tideline.iceberg.services.rewrite_manifests.plan import ManifestGroup, SortValue, sort_value
from tideline.iceberg.table.file_io import FileIO

ENTRIES_MAX = 100_000
"""Entries that are held at once; with column metrics each takes some kilobytes."""

_Key = tuple[SortValue, ...]


class SortedEntries:
    """The live entries of a group, as existing files of the table."""

    def __init__(self, io: FileIO, group: ManifestGroup, entries_max: int = ENTRIES_MAX) -> None:
        self._io = io
        self._group = group
        self._entries_max = entries_max
        self._key = _key_function(group.positions)
        self._counts: Counter[_Key] = Counter()
        for entry in self._entries(with_metrics=False):
            self._counts[self._key(entry.data_file.partition)] += 1

    @property
    def total(self) -> int:
        """How many there are."""
        return self._counts.total()

    def __iter__(self) -> Iterator[ManifestEntry]:
        batch: set[_Key] = set()
        size = 0
        for key in sorted(self._counts):
            if batch and size + self._counts[key] > self._entries_max:
                yield from self._of(batch)
                batch, size = set(), 0
            batch.add(key)
            size += self._counts[key]
        if batch:
            yield from self._of(batch)

    def _of(self, keys: set[_Key]) -> Iterator[ManifestEntry]:
        everything = len(keys) == len(self._counts)
        found = (
            replace(entry, status=EntryStatus.EXISTING)
            for entry in self._entries(with_metrics=True)
            if everything or self._key(entry.data_file.partition) in keys
        )
        if len(keys) == 1:
            return found
        return iter(sorted(found, key=lambda entry: self._key(entry.data_file.partition)))

    def _entries(self, *, with_metrics: bool) -> Iterator[ManifestEntry]:
        readable = (
            manifest_file
            for manifest_file in self._group.manifests
            if manifest_file.may_have_live_files
        )
        for manifest, body in read_ahead(self._io, readable):
            yield from read_manifest(body, manifest, with_metrics=with_metrics, live_only=True)


def _key_function(positions: tuple[int, ...]) -> Callable[[tuple[Any, ...]], _Key]:
    """The sort key of a partition, made once for each."""
    known: dict[tuple[Any, ...], _Key] = {}

    def key(partition: tuple[Any, ...]) -> _Key:
        found = known.get(partition)
        if found is None:
            found = known[partition] = tuple(sort_value(partition[at]) for at in positions)
        return found

    return key
