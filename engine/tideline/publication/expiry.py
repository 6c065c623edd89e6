"""Snapshots of the publication that go: with files that they need, with commits that were undone,
and when there are too many.

The metadata says so first, then manifests and lists that no snapshot names any more are deleted,
with the publication's own files of rows. Died in between, or on the way to a commit: these stay for
a day, and go with snapshots that are dropped later. No other data file is ever deleted here: those
are Hudi's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import chain

from tideline.errors import ConflictError, TidelineError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.iceberg.commit.exchange_files import ExchangeFiles, commit_exchange
from tideline.iceberg.commit.manifest_filter import has_old_bounds
from tideline.iceberg.manifest.manifest_reading import in_parallel, live_paths, manifests_of
from tideline.iceberg.metadata.metadata_update import RemoveSnapshots
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.file_system_table import FOLDER
from tideline.iceberg.table.table_operations import Committed, Loaded, Unknown, unknown_error
from tideline.publication.published_files import MERGED, version_of
from tideline.publication.published_table import INSTANT, PUBLICATION, SNAPSHOT, PublishedTable
from tideline.retry import RetryPolicy
from tideline.storage.nested_tables import is_table_metadata_file
from tideline.storage.object_store import ObjectInfo

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
    ancestors = [
        ancestor.snapshot_id for ancestor in metadata.ancestors(metadata.current_snapshot_id)
    ]
    if len(ancestors) > SNAPSHOTS_MAX + _SURPLUS:
        yield from ancestors[SNAPSHOTS_MAX:]


def snapshots_needing(io: FileIO, metadata: TableMetadata, paths: Collection[str]) -> set[int]:
    """The snapshots, the current one included, that list one of these files, and all before them.

    Raises ObjectNotFoundError, CorruptTableError and StorageUnavailableError.
    """
    obsolete = frozenset(paths)
    known: dict[str, bool] = {}
    found: set[int] = set()
    for snapshot in metadata.ancestors(metadata.current_snapshot_id):
        if found or _needs(io, snapshot, obsolete, known):
            found.add(snapshot.snapshot_id)
    kept = {ancestor.snapshot_id for ancestor in metadata.ancestors(metadata.current_snapshot_id)}
    others = (candidate for candidate in metadata.snapshots if candidate.snapshot_id not in kept)
    return found | {other.snapshot_id for other in others if _needs(io, other, obsolete, known)}


def _needs(
    io: FileIO, snapshot: Snapshot, obsolete: frozenset[str], known: dict[str, bool]
) -> bool:
    manifests = manifests_of(io, snapshot)
    unread = [manifest for manifest in manifests if manifest.path not in known]
    reads = in_parallel(
        lambda manifest_file: not obsolete.isdisjoint(live_paths(io, manifest_file)), unread
    )
    known.update(zip((manifest_file.path for manifest_file in unread), reads, strict=True))
    return any(known[manifest.path] for manifest in manifests)


def drop_snapshots(place: PublishedTable, snapshot_ids: Collection[int]) -> int:
    """Drop snapshots, and the manifests that only they need; returns how many were dropped.

    Raises ConflictError when others were always first.
    """
    wanted = set(snapshot_ids)
    for _ in RetryPolicy().attempts(place.table.clock):
        if not wanted:
            return 0
        base = place.operations.load()
        gone = [snapshot for snapshot in base.metadata.snapshots if snapshot.snapshot_id in wanted]
        if not gone:
            return 0
        ids = tuple(snapshot.snapshot_id for snapshot in gone)
        outcome = place.commit(base, (RemoveSnapshots(ids),))
        if isinstance(outcome, Committed):
            _remove_metadata(place, gone, outcome.loaded)
            return len(gone)
    raise ConflictError("snapshots could not be dropped: others were first", table=place.table.uri)


def drop_old_bounds(place: PublishedTable, *, voids_others: bool = False) -> None:
    """Rewrite manifests of the newest snapshot that give bounds of files removed before.

    With `voids_others` a new snapshot is made in any case: publications that were under way are
    void then, so that files which they wrote before will never be listed.
    Raises ConflictError when others were always first, UnknownOutcomeError.
    """
    for _ in RetryPolicy().attempts(place.table.clock):
        metadata, is_due = place.read_newest(partial(_with_old_bounds, place))
        snapshot = metadata.snapshot()
        if snapshot is None or not (is_due or voids_others):
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


def _with_old_bounds(place: PublishedTable, loaded: Loaded) -> tuple[TableMetadata, bool]:
    metadata = loaded.metadata
    return metadata, has_old_bounds(place.operations.io, metadata.snapshot())


def unlisted_files(place: PublishedTable) -> list[ObjectInfo]:
    """Files of the publication's own that its newest metadata does not lead to: metadata files,
    lists, manifests and rows of logs. Their publication died, or is under way.

    Raises ObjectNotFoundError, CorruptTableError and StorageUnavailableError.
    """
    # Listed first: what is committed in between is led to.
    return place.read_newest(partial(_not_led_to, place, _own_files(place)))


def remove_unlisted(place: PublishedTable, written: Iterable[ObjectInfo]) -> None:
    """Remove those of these files that the newest metadata does not lead to. Only where no
    publication that is under way can need them."""
    try:
        left = place.read_newest(partial(_not_led_to, place, tuple(written)))
    except TidelineError:
        return  # What cannot be read now stays.
    _remove(place, [info.path for info in left])


def _remove_metadata(place: PublishedTable, gone: Collection[Snapshot], after: Loaded) -> None:
    """Remove the lists and manifests of dropped snapshots that no other names, the files of rows of
    the publication's own that only they have, and old files that nothing leads to."""
    io = place.operations.io
    old_ms = place.table.clock.now_ms() - _UNLISTED_KEPT_MS
    try:
        left = _not_led_to(place, _own_files(place), after)
        listed = {
            manifest_file.path: manifest_file
            for snapshot in gone
            for manifest_file in manifests_of(io, snapshot)
        }
        files = in_parallel(
            lambda manifest_file: set(live_paths(io, manifest_file)), listed.values()
        )
    except TidelineError:
        return  # What cannot be read now stays.
    lists = (candidate.manifest_list for candidate in gone if candidate.manifest_list)
    dropped = set(chain(lists, listed, *files))
    location = after.metadata.location
    _remove(
        place,
        [
            info.path
            for info in left
            if f"{location}/{info.path}" in dropped or info.modified_ms < old_ms
        ],
    )


def _own_files(place: PublishedTable) -> tuple[ObjectInfo, ...]:
    """All that publications write, the hint aside."""
    return tuple(
        info
        for info in place.table.store.list(FOLDER)
        if info.path.startswith(f"{MERGED}/")
        or info.path.endswith(".avro")
        or is_table_metadata_file(info.path)
    )


def _not_led_to(
    place: PublishedTable, written: Iterable[ObjectInfo], loaded: Loaded
) -> list[ObjectInfo]:
    """Those of the files that no snapshot and no log of `loaded` names; no newer metadata."""
    io, metadata = place.operations.io, loaded.metadata
    manifests = {
        manifest_file.path: manifest_file
        for each in metadata.snapshots
        for manifest_file in manifests_of(io, each)
    }
    named = {
        loaded.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(snapshot.manifest_list for snapshot in metadata.snapshots),
        *manifests,
    }
    found = [info for info in written if f"{metadata.location}/{info.path}" not in named]
    if any(info.path.startswith(f"{MERGED}/") for info in found):
        named |= set(
            chain(*in_parallel(lambda manifest: set(live_paths(io, manifest)), manifests.values()))
        )
    newest = version_of(loaded.metadata_location)
    return [
        info
        for info in found
        if f"{metadata.location}/{info.path}" not in named
        and not (is_table_metadata_file(info.path) and version_of(info.path) >= newest)
    ]


def _remove(place: PublishedTable, paths: Collection[str]) -> None:
    location = place.operations.io.recorded
    remove_quietly(place.operations.io, [f"{location}/{path}" for path in paths])
