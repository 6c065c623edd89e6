"""The archive of layout 1: a log file of HoodieArchivedMetaEntry blocks for each portion.

A file is created once; the number in its name is one above the newest. Archives that other engines
write have numbers of their own, because creating ours fails when the number is taken.
Source: Hudi's TimelineArchiverV1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tideline.errors import ConflictError
from tideline.formats.archive_block import encode_archive_block
from tideline.hudi.services.archival.archive_writer import StoredState, WrittenArchive
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.entry import archive_entry
from tideline.hudi.services.archival.merge import MergedArchives, execute_merge, recover_merge
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.storage.lock import Guard, unguarded
from tideline.storage.object_store import AlreadyExists


@dataclass(frozen=True, slots=True)
class LogArchiveWriter:
    """See `ArchiveWriter`."""

    table: HoodieTable

    def recover(self) -> None:
        recover_merge(self.table, self.table.commits.archive())

    def still_active(self, active: frozenset[Instant]) -> frozenset[Instant]:
        archived = self.table.commits.archive()
        found: set[Instant] = set()
        for file in archived.files():
            both = archived.read(file).instants & active
            if not both:
                break
            found |= both
        return frozenset(found)

    def write(
        self,
        states: Mapping[Instant, Sequence[StoredState]],
        config: ArchivalConfig,
        guard: Guard = unguarded,
    ) -> WrittenArchive:
        table, archived = self.table, self.table.commits.archive()
        entries = []
        for objects in states.values():
            for state in objects:
                body = table.store.get(state.info.path)
                moved_at = table.instants.zone.instant_at(state.info.modified_ms)
                entries.append(
                    archive_entry(state.instant, body, moved_at=moved_at, path=state.info.path)
                )
        guard()
        path, size_bytes = append_to_archive(archived, entries, config.entries_per_block)
        return WrittenArchive(path, size_bytes, tuple(states))

    def merge(self, config: ArchivalConfig) -> MergedArchives | None:
        if not config.merge.is_enabled:
            return None
        return execute_merge(self.table, self.table.commits.archive(), config.merge)


def append_to_archive(
    archived: ArchivedTimeline, entries: Sequence[Mapping[str, Any]], per_block: int
) -> tuple[str, int]:
    """Write entries as the newest file of an archive; its path and its size in bytes.

    Call under the table lock. Raises ConflictError when another engine was faster.
    """
    blocks = _chunks(tuple(entries), per_block)
    body = b"".join(map(encode_archive_block, blocks))
    files = archived.files()
    path = archived.path(files[0].number + 1 if files else 1)
    outcome = archived.store.put_if_absent(path, body, token=uuid4().hex)
    if isinstance(outcome, AlreadyExists):
        raise ConflictError(
            "another engine is archiving this table; run archival again",
            table=archived.store.uri,
            path=path,
        )
    return path, len(body)


def _chunks(items: tuple[Any, ...], size: int) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
