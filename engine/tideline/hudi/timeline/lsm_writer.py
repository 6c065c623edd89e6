"""Writing the archived timeline of layout 2: data files, manifests, version, in this order.

Readers go from `_version_` to a manifest to data files, so that what is written appears at once:

1. The data file. Died after: no manifest names it, and the next one of that name replaces it.
2. `manifest_<n+1>`. Died after: `_version_` names the one before, unless it has never been written:
   then readers take the newest manifest, whose file is there. The next writer sweeps up what 1 and
   2 left, before it writes.
3. `_version_`. Died after: everything counts.
4. Later: old manifests go, then data files that no kept manifest names. Readers that are a few
   manifests behind find their files; died in between, some are left for the next time.

One writer at a time, under the table lock. One that lost it meanwhile finds that 2 or 3 is done,
and what the other one archived stays. An instant may be in two files: a process that died
after 3 left it in the active timeline, and it is archived again. Files are merged as in an LSM
tree: so many of a level make one of the next.

Source: Hudi's LSMTimelineWriter, LSMTimeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tideline.hudi.timeline.archived import ArchiveFile
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import (
    LsmHistory,
    Manifest,
    manifest_number,
    overtaken,
    range_and_level,
)
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import AlreadyExists

_LEVEL_MAX = 9
_DATA_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class MergedHistoryFiles:
    """Files that became one of the next level."""

    merged: ArchiveFile
    replaced: tuple[ArchiveFile, ...]


def append_to_history(history: LsmHistory, rows: Sequence[Mapping[str, Any]]) -> ArchiveFile:
    """Write `rows`, one of each completed instant, as one file of the lowest level.

    Call under the table lock. A file of the same range that counts already holds them, for ranges
    do not repeat. Raises CorruptTableError for a manifest that cannot be read.
    """
    # Arrow is an optional dependency that only histories need.
    from tideline.formats.history_file import encode_history_file

    manifest = history.manifest()
    times = [InstantTime(row["instantTime"]) for row in rows]
    path = history.data_path(min(times), max(times), level=0)
    known = next((file for file in manifest.files if file.path == path), None)
    if known is not None:
        return known
    return _publish(history, manifest, path, encode_history_file(rows), replaced=())


def merge_history(
    history: LsmHistory, *, files: int, bytes_max: int
) -> tuple[MergedHistoryFiles, ...]:
    """Merge what is due, level by level: so many `files` of one level, of `bytes_max` together.

    Call under the table lock. Raises CorruptTableError.
    """
    done = []
    for level in range(_LEVEL_MAX):
        candidates = files_to_merge(history.manifest().files, level, files, bytes_max)
        if not candidates:
            break
        done.append(_merge(history, candidates, level + 1))
    return tuple(done)


def files_to_merge(
    files: Iterable[ArchiveFile], level: int, count: int, bytes_max: int
) -> tuple[ArchiveFile, ...]:
    """The files of a level that become one of the next, oldest first; none when they are few."""
    of_level = sorted(
        (file for file in files if range_and_level(file)[2] == level),
        key=lambda file: file.path,
    )
    if len(of_level) < count:
        return ()
    chosen: list[ArchiveFile] = []
    for file in of_level[:count]:
        if sum(archive_file.size_bytes for archive_file in chosen) + file.size_bytes > bytes_max:
            break
        chosen.append(file)
    return tuple(chosen) if len(chosen) > 1 else ()


def history_leftovers(history: LsmHistory) -> tuple[str, ...]:
    """What a writer that died left after step 1 or 2: files of no version, by path."""
    listed, numbers = _listed(history)
    newest = history.manifest().number
    data = {path for path in listed if path.endswith(_DATA_SUFFIX)}
    for number in sorted((number for number in numbers.values() if number <= newest), reverse=True):
        if not data:
            break
        data -= _named_by(history, (number,))
    return (*(path for path, number in numbers.items() if number > newest), *sorted(data))


def sweep_history(history: LsmHistory) -> None:
    """Delete what `history_leftovers` finds. Call under the table lock."""
    left = history_leftovers(history)
    scope = DeleteScope(history.store, "sweeping the archived timeline", control=frozenset(left))
    scope.remove_many(left)


def clean_history(history: LsmHistory, *, kept: int) -> tuple[str, ...]:
    """Delete what none of the newest `kept` manifests names; the paths. Under the table lock."""
    listed, numbers = _listed(history)
    newest = history.manifest().number
    keeping = {path: number for path, number in numbers.items() if newest - kept < number}
    if len(keeping) == len(numbers):
        return ()
    named = _named_by(history, (number for number in keeping.values() if number <= newest))
    old_manifests = sorted(set(numbers) - set(keeping))
    old_files = sorted(path for path in listed if path.endswith(_DATA_SUFFIX) and path not in named)
    scope = DeleteScope(
        history.store, "cleaning the archived timeline", control={*old_manifests, *old_files}
    )
    scope.remove_many(old_manifests)
    scope.remove_many(old_files)
    return (*old_manifests, *old_files)


def _listed(history: LsmHistory) -> tuple[list[str], dict[str, int]]:
    """The paths in the history's folder, and the numbers of the manifests among them."""
    paths = [info.path for info in history.store.list_directory(history.directory).objects]
    return paths, {path: number for path in paths if (number := manifest_number(path)) is not None}


def _named_by(history: LsmHistory, numbers: Iterable[int]) -> set[str]:
    """The data files that these manifests name."""
    return {file.path for number in numbers for file in history.manifest(number).files}


def _merge(
    history: LsmHistory, candidates: Sequence[ArchiveFile], level: int
) -> MergedHistoryFiles:
    from tideline.formats.history_file import merge_history_files

    ranges = [range_and_level(file) for file in candidates]
    path = history.data_path(
        min(pair[0] for pair in ranges), max(pair[1] for pair in ranges), level
    )
    bodies = (history.body(file) for file in candidates)
    body = merge_history_files(bodies, path=path)
    merged = _publish(history, history.manifest(), path, body, replaced=candidates)
    return MergedHistoryFiles(merged, tuple(candidates))


def _publish(
    history: LsmHistory,
    manifest: Manifest,
    path: str,
    body: bytes,
    *,
    replaced: Sequence[ArchiveFile],
) -> ArchiveFile:
    """Steps 1 to 3. Raises ConflictError where another writer came between them."""
    store = history.store
    store.put(path, body)
    written = history.file(path.rpartition("/")[2], len(body))
    files = [*(file for file in manifest.files if file not in replaced), written]
    number = manifest.number + 1
    named = [
        {"fileName": file.path.rpartition("/")[2], "fileLen": file.size_bytes} for file in files
    ]
    listing = history.manifest_path(number)
    content = json.dumps({"files": named}, indent=2).encode()
    if isinstance(store.put_if_absent(listing, content, token=uuid4().hex), AlreadyExists):
        raise overtaken(history, listing)
    history.publish(Manifest(number, tuple(files)))
    return written
