"""Snapshots of the publication that go: with files that they need, with commits that were undone,
and when there are too many.

The metadata says so first, then manifests and lists that no snapshot names any more are deleted,
with the publication's own files of rows. Died in between: these stay, and cost nothing but room. No
other data file is ever deleted here: those are Hudi's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from tideline.errors import ConflictError, TidelineError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.iceberg.commit.exchange_files import ExchangeFiles, commit_exchange
from tideline.iceberg.commit.manifest_filter import has_old_bounds
from tideline.iceberg.manifest.manifest_entry import ManifestFile
from tideline.iceberg.manifest.manifest_reading import in_parallel, live_paths, manifests_of
from tideline.iceberg.metadata.metadata_update import RemoveSnapshots
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.file_system_table import FOLDER
from tideline.iceberg.table.retry import RetryPolicy
from tideline.iceberg.table.table_operations import Committed, Unknown, unknown_error
from tideline.publication.published_files import MERGED
from tideline.publication.published_table import INSTANT, PUBLICATION, SNAPSHOT, PublishedTable

SNAPSHOTS_MAX = 100
_UNLISTED_KEPT_MS = 86_400_000
"""A file that no snapshot lists may be of a publication under way."""
_SURPLUS = 20
"""Snapshots are dropped by the dozen, not one with every commit."""


def undone_snapshots(metadata: TableMetadata, timeline: ActiveTimeline) -> Iterator[int]:
    """Snapshots, not the current one, of commits that were undone since, as by a restore."""
    start = str(timeline.start or "~")
    completed = {str(instant.time) for instant in timeline.completed()}
    for snapshot in metadata.snapshots:
        instant = snapshot.summary.get(INSTANT, "")
        is_current = snapshot.snapshot_id == metadata.current_snapshot_id
        if not is_current and instant >= start and instant not in completed:
            yield snapshot.snapshot_id


def outgrown(metadata: TableMetadata) -> Iterator[int]:
    """The oldest snapshots of a table that has many more than `SNAPSHOTS_MAX`."""
    ancestors = [one.snapshot_id for one in metadata.ancestors(metadata.current_snapshot_id)]
    if len(ancestors) > SNAPSHOTS_MAX + _SURPLUS:
        yield from ancestors[SNAPSHOTS_MAX:]


def snapshots_needing(io: FileIO, metadata: TableMetadata, paths: Collection[str]) -> set[int]:
    """The snapshots, the current one included, that list one of these files, and all before them.

    Raises ObjectNotFoundError, CorruptTableError and StorageUnavailableError.
    """
    doomed = frozenset(paths)
    known: dict[str, bool] = {}
    found: set[int] = set()
    for snapshot in metadata.ancestors(metadata.current_snapshot_id):
        if found or _needs(io, snapshot, doomed, known):
            found.add(snapshot.snapshot_id)
    kept = {one.snapshot_id for one in metadata.ancestors(metadata.current_snapshot_id)}
    others = (one for one in metadata.snapshots if one.snapshot_id not in kept)
    return found | {one.snapshot_id for one in others if _needs(io, one, doomed, known)}


def _needs(io: FileIO, snapshot: Snapshot, doomed: frozenset[str], known: dict[str, bool]) -> bool:
    manifests = manifests_of(io, snapshot)
    unread = [one for one in manifests if one.path not in known]
    reads = in_parallel(lambda one: not doomed.isdisjoint(live_paths(io, one)), unread)
    known.update(zip((one.path for one in unread), reads, strict=True))
    return any(known[one.path] for one in manifests)


def drop_snapshots(place: PublishedTable, snapshot_ids: Collection[int]) -> int:
    """Drop snapshots, and the manifests that only they need; returns how many were dropped.

    Raises ConflictError when others were always first.
    """
    wanted = set(snapshot_ids)
    for _ in RetryPolicy().attempts(place.table.clock):
        if not wanted:
            return 0
        base = place.operations.load()
        gone = [one for one in base.metadata.snapshots if one.snapshot_id in wanted]
        if not gone:
            return 0
        ids = tuple(one.snapshot_id for one in gone)
        outcome = place.commit(base, (RemoveSnapshots(ids),))
        if isinstance(outcome, Committed):
            _remove_metadata(place, gone, outcome.loaded.metadata)
            return len(gone)
    raise ConflictError("snapshots could not be dropped: others were first", table=place.table.uri)


def drop_old_bounds(place: PublishedTable) -> None:
    """Rewrite manifests of the newest snapshot that give bounds of files removed before.

    Raises ConflictError when others were always first, UnknownOutcomeError.
    """
    for _ in RetryPolicy().attempts(place.table.clock):
        metadata = place.operations.load().metadata
        snapshot = metadata.snapshot()
        if snapshot is None or not has_old_bounds(place.operations.io, snapshot):
            return
        kept = (INSTANT, PUBLICATION)
        exchange = ExchangeFiles(
            metadata.current_snapshot_id,
            summary_extra={
                name: snapshot.summary[name] for name in kept if name in snapshot.summary
            },
            snapshot_property=SNAPSHOT,
            is_rearrangement=True,
            drops_old_bounds=True,
        )
        outcome = commit_exchange(place.operations, exchange, clock=place.table.clock)
        if isinstance(outcome, Unknown):
            raise unknown_error(outcome, table=place.table.uri, what="old bounds are dropped")
        if isinstance(outcome, Committed):
            return
    raise ConflictError("old bounds could not be dropped: others were first", table=place.table.uri)


def remove_unlisted(place: PublishedTable) -> None:
    """Remove old files of rows of the publication's own that no snapshot lists."""
    _remove_metadata(place, (), place.operations.load().metadata)


def _remove_metadata(
    place: PublishedTable, gone: Collection[Snapshot], after: TableMetadata
) -> None:
    """Remove the lists and manifests of dropped snapshots that no other names, and the files of
    rows of the publication's own that only they have."""
    io = place.operations.io
    try:
        lists = {one.manifest_list for one in gone if one.manifest_list}
        kept = {one.path: one for snapshot in after.snapshots for one in manifests_of(io, snapshot)}
        listed = {one.path: one for snapshot in gone for one in manifests_of(io, snapshot)}
        dropped = [one for path, one in listed.items() if path not in kept]
        files = _own_files(place, dropped, kept.values(), after)
    except TidelineError:
        return  # What cannot be read now stays.
    own = f"{after.location}/{FOLDER}/"
    paths = (*(one.path for one in dropped), *lists, *files)
    remove_quietly(io, [path for path in paths if path.startswith(own)])


def _own_files(
    place: PublishedTable,
    dropped: Iterable[ManifestFile],
    kept: Iterable[ManifestFile],
    after: TableMetadata,
) -> list[str]:
    """Files for logs that no snapshot lists any more, also old ones that none ever did."""
    written = list(place.table.store.list(MERGED))
    if not written:
        return []
    io = place.operations.io
    live = set(chain.from_iterable(in_parallel(lambda one: set(live_paths(io, one)), kept)))
    lost = set(chain.from_iterable(in_parallel(lambda one: set(live_paths(io, one)), dropped)))
    before_ms = place.table.clock.now_ms() - _UNLISTED_KEPT_MS
    return [
        location
        for info in written
        if (location := f"{after.location}/{info.path}") not in live
        and (location in lost or info.modified_ms < before_ms)
    ]
