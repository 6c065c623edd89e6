"""Merging small archive files into one, so that a death at any step loses and doubles nothing.

1. `mergeArchivePlan` names the files and the merged file they become. Died before: nothing
   happened. Died after: all files are there, so recovery takes the plan away.
2. The merged file, created once with a new number. Died after: everything is there twice; readers
   count an instant once, recovery deletes the merged file and then the plan.
3. The small files are deleted, oldest first. Died in between: the merged file is whole, because
   deleting began, so recovery deletes the others.
4. The plan is deleted.

Recovery is the first thing archival does. It never trusts a number alone: another engine that does
not know the plan (Hudi 1.x) may have given the merged file's number to an archive of its own after
step 1. So before recovery deletes anything, what it deletes must be held by what stays.
Source: Hudi 0.14's HoodieTimelineArchiver.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import uuid4

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.archive_block import read_archive_frames
from tideline.formats.avro import decode_container, encode_container
from tideline.formats.log_block import BlockKind
from tideline.hudi.services.archival.config import MergeConfig
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.archived import MERGE_PLAN_NAME, ArchivedTimeline, ArchiveFile
from tideline.hudi.timeline.instant import Instant
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import AlreadyExists

_PLAN_SCHEMA = "HoodieMergeArchiveFilePlan"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergedArchives:
    """Archive files that became one (paths relative to the table)."""

    merged: str
    size_bytes: int
    replaced: tuple[str, ...]


def plan_merge(files: Iterable[ArchiveFile], config: MergeConfig) -> tuple[ArchiveFile, ...]:
    """The newest files down to the first that is too large, oldest first; none when too few.

    Always the newest, so that later files still hold later instants. Together they are at most
    `files_min` times the limit, which bounds the memory a merge takes.
    """
    small: list[ArchiveFile] = []
    left_bytes = config.files_min * config.size_bytes_max
    for file in sorted(files, reverse=True):
        left_bytes -= file.size_bytes
        if file.size_bytes > config.size_bytes_max or left_bytes < 0:
            break
        small.append(file)
    return tuple(reversed(small)) if len(small) >= config.files_min else ()


def execute_merge(
    table: HoodieTable, archived: ArchivedTimeline, config: MergeConfig
) -> MergedArchives | None:
    """Merge what is due; None when nothing is. Call under the table lock."""
    candidates = plan_merge(archived.files(), config)
    if not candidates:
        return None
    body = b"".join(_sound_blocks(table.store.get(file.path), file.path) for file in candidates)
    number = candidates[-1].number + 1
    merged = archived.path(number)
    plan = {
        "version": 1,
        "candidate": [f"{table.hadoop_uri}/{file.path}" for file in candidates],
        "mergedArchiveFileName": _name(merged),
    }
    table.store.put(_plan_path(archived), encode_container(_PLAN_SCHEMA, plan))
    outcome = table.store.put_if_absent(merged, body, token=uuid4().hex)
    scope = _scope(table, archived, candidates)
    if isinstance(outcome, AlreadyExists):
        scope.remove(_plan_path(archived))
        return None
    for file in candidates:
        scope.remove(file.path)
    scope.remove(_plan_path(archived))
    return MergedArchives(merged, len(body), tuple(file.path for file in candidates))


def recover_merge(table: HoodieTable, archived: ArchivedTimeline) -> bool:
    """Finish or undo a merge that died; whether there was one. Call under the table lock."""
    path = _plan_path(archived)
    try:
        body = table.store.get(path)
    except ObjectNotFoundError:
        return False
    try:
        plan = decode_container(body, path=path)
    except CorruptTableError as error:
        _log.warning("merging archives died while planning it: %s", error)
        _scope(table, archived, ()).remove(path)
        return True
    files = archived.files()
    scope = _scope(table, archived, files)
    by_name = {_name(file.path): file for file in files}
    named = [_name(candidate) for candidate in plan.get("candidate") or ()]
    left = [by_name[name] for name in named if name in by_name]
    merged = by_name.get(plan.get("mergedArchiveFileName") or "")
    if merged is not None:
        in_merged, in_left = _instants(archived, [merged]), _instants(archived, left)
        if len(left) == len(named) and in_merged <= in_left:
            scope.remove(merged.path)
        elif in_left <= in_merged:
            for file in sorted(left):
                scope.remove(file.path)
    scope.remove(path)
    return True


def has_unfinished_merge(archived: ArchivedTimeline) -> bool:
    """Whether a merge died and was not recovered yet."""
    return archived.store.head(_plan_path(archived)) is not None


def _instants(archived: ArchivedTimeline, files: Iterable[ArchiveFile]) -> frozenset[Instant]:
    return frozenset(instant for file in files for instant in archived.read(file).instants)


def _sound_blocks(body: bytes, path: str) -> bytes:
    """The file without damaged blocks, which no reader can read anyway."""
    return b"".join(
        body[frame.offset : frame.offset + frame.size_bytes]
        for frame in read_archive_frames(body, path=path)
        if frame.kind is not BlockKind.CORRUPT
    )


def _scope(
    table: HoodieTable, archived: ArchivedTimeline, files: Iterable[ArchiveFile]
) -> DeleteScope:
    """These archive files and the plan: the folder is a property and may hold anything."""
    paths = (file.path for file in files)
    return table.files.delete_scope("merging archives", control={*paths, _plan_path(archived)})


def _plan_path(archived: ArchivedTimeline) -> str:
    return f"{archived.directory}/{MERGE_PLAN_NAME}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
