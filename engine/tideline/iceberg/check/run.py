"""Running the checks of an Iceberg table.

1. The metadata alone.
2. Of the snapshots of branches and tags: manifest lists, manifests, every file, footers.
3. Of older snapshots: whether all that reading them needs is there.

What needs Arrow is reported as not looked into where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec

from tideline.check_finding import Finding, Severity, error, note, worst_first
from tideline.distribution import installation
from tideline.errors import (
    CorruptTableError,
    InvalidDataError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.iceberg.check.files import check_files, check_statistics
from tideline.iceberg.check.inspection import CheckedTable, Inspection
from tideline.iceberg.check.manifests import check_manifest
from tideline.iceberg.check.metadata import check_metadata
from tideline.iceberg.check.snapshot import ManifestFacts, check_snapshot
from tideline.iceberg.manifest.manifest_entry import DataFile, ManifestFile
from tideline.iceberg.manifest.manifest_file import read_manifest
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.services.reachable_file import KINDS, ReachableFile, live_files

_Rows = Callable[[Inspection, Iterable[DataFile]], Iterator[Finding]]


def check_iceberg(operations: CheckedTable) -> tuple[Finding, ...]:
    """Everything that is wrong with the table, worst first. Changes nothing.

    Raises as a table is opened, and StorageUnavailableError.
    """
    return worst_first(_Run(Inspection.of(operations)).findings())


class _Run:
    """One check; manifests that snapshots share are read once."""

    def __init__(self, seen: Inspection) -> None:
        self._seen = seen
        self._facts: dict[int, ManifestFacts] = {}
        self._tried: set[int] = set()
        self._check_rows, self._skipped = _arrow_check()

    def findings(self) -> Iterator[Finding]:
        yield from check_metadata(self._seen)
        for snapshot in self._seen.heads():
            yield from self._of_head(snapshot)
        for snapshot in self._seen.others():
            yield from self._of_older(snapshot)
        yield from check_statistics(self._seen)
        if self._facts:
            yield from self._skipped

    def _of_head(self, snapshot: Snapshot) -> Iterator[Finding]:
        manifests, problems = self._manifests(snapshot)
        yield from problems
        for manifest in self._untried(manifests):
            try:
                yield from self._of_manifest(manifest)
            except (ObjectNotFoundError, CorruptTableError, InvalidDataError) as broken:
                yield _unreadable("the manifest", manifest.path, broken)
            except UnsupportedTableError as unknown:
                yield _not_read(manifest.path, unknown)
        facts = [self._facts.get(self._seen.key(manifest.path)) for manifest in manifests]
        known = [of_manifest for of_manifest in facts if of_manifest is not None]
        if not problems and len(known) == len(manifests):
            found = list(check_snapshot(self._seen, snapshot, known))
            yield from found or self._unplanned(snapshot, known)

    def _unplanned(self, snapshot: Snapshot, known: Iterable[ManifestFacts]) -> Iterator[Finding]:
        """What keeps a reader from applying deletes, where there are any."""
        if not any(facts.sums["total-delete-files"] for facts in known):
            return
        try:
            for _ in plan_files(self._seen.io, self._seen.metadata, snapshot):
                pass
        except (CorruptTableError, InvalidDataError) as broken:
            message = f"snapshot {snapshot.snapshot_id} cannot be read: {broken.message}"
            yield error("snapshots", message, path=broken.path)

    def _of_manifest(self, manifest: ManifestFile) -> Iterator[Finding]:
        seen = self._seen
        body = seen.io.read(manifest.path)
        entries = list(read_manifest(body, manifest))
        yield from check_manifest(seen.metadata, manifest, entries, len(body))
        live = [entry.data_file for entry in entries if entry.is_live]
        yield from check_files(
            seen,
            [
                ReachableFile(KINDS[file.content], file.file_path, file.file_size_bytes)
                for file in live
            ],
        )
        yield from self._check_rows(seen, live)
        self._facts[seen.key(manifest.path)] = ManifestFacts.of(seen, entries)

    def _of_older(self, snapshot: Snapshot) -> Iterator[Finding]:
        """What a snapshot that no branch or tag leads to needs; nothing if it expired meanwhile."""
        found = list(self._missing_of_older(snapshot))
        if found and self._seen.is_listed(snapshot.snapshot_id):
            yield from found

    def _missing_of_older(self, snapshot: Snapshot) -> Iterator[Finding]:
        manifests, problems = self._manifests(snapshot)
        yield from map(_of_old, problems)
        for manifest in self._untried(manifests):
            try:
                files = live_files(self._seen.io.read(manifest.path), path=manifest.path)
                yield from check_files(self._seen, files, snapshot_id=snapshot.snapshot_id)
            except (ObjectNotFoundError, CorruptTableError, InvalidDataError) as broken:
                what = f"a manifest of snapshot {snapshot.snapshot_id}"
                yield _of_old(_unreadable(what, manifest.path, broken))
            except UnsupportedTableError as unknown:
                yield _not_read(manifest.path, unknown)

    def _untried(self, manifests: Iterable[ManifestFile]) -> Iterator[ManifestFile]:
        for manifest in manifests:
            key = self._seen.key(manifest.path)
            if key not in self._tried:
                self._tried.add(key)
                yield manifest

    def _manifests(self, snapshot: Snapshot) -> tuple[tuple[ManifestFile, ...], list[Finding]]:
        try:
            return manifests_of(self._seen.io, snapshot), []
        except (ObjectNotFoundError, CorruptTableError, InvalidDataError) as broken:
            what = f"the manifest list of snapshot {snapshot.snapshot_id}"
            return (), [_unreadable(what, snapshot.manifest_list, broken)]
        except UnsupportedTableError as unknown:
            return (), [_not_read(snapshot.manifest_list, unknown)]


def _unreadable(what: str, path: str | None, broken: Exception) -> Finding:
    if isinstance(broken, ObjectNotFoundError):
        return error("files", f"{what} is missing", path=path)
    return error("manifests", f"{what} cannot be read: {broken}", path=path)


def _of_old(found: Finding) -> Finding:
    """A problem of a snapshot that only reads as of then need."""
    is_error = found.severity is Severity.ERROR
    return replace(found, severity=Severity.WARNING) if is_error else found


def _not_read(path: str | None, unknown: UnsupportedTableError) -> Finding:
    return note("manifests", f"not looked into: {unknown.message}", path=path)


def _arrow_check() -> tuple[_Rows, list[Finding]]:
    if find_spec("pyarrow") is None:
        advice = installation("spark")
        message = f"footers were not looked into: reading them needs Arrow: {advice}"
        return lambda *_: iter(()), [note("rows", message)]
    # Arrow is an optional dependency that only this needs.
    from tideline.iceberg.check.rows import check_rows

    return check_rows, []
