"""The archived timeline of layout 2: an LSM tree of Parquet files, in `.hoodie/timeline/history`.

`_version_` names the newest manifest, `manifest_<n>` the files that count, and a file
`<first>_<last>_<level>.parquet` has a row for each instant that completed: times, action, and the
bytes that its file in the active timeline had. Compaction rewrites files into one of the next
level. As in layout 1 an instant may occur twice, and a file that is gone was rewritten by another
process.

It is written by tideline.hudi.timeline.lsm_writer.
Source: Hudi's ArchivedTimelineV2, ArchivedTimelineLoaderV2, LSMTimeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import faults_named, parse_json
from tideline.bounded.read_limits import admit
from tideline.errors import ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container
from tideline.hudi.timeline.archived import (
    ArchiveContent,
    ArchivedEntry,
    ArchivedTimeline,
    ArchiveFile,
    ArchivePosition,
)
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.object_store import ObjectStore, Written

DEFAULT_FOLDER = "timeline/history"

VERSION_FILE = "_version_"

_FILE_NAME = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]+)")
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Manifest:
    """The data files that count from one version of the history on; the first has number 1."""

    number: int = 0
    files: tuple[ArchiveFile, ...] = ()


@dataclass(frozen=True, slots=True)
class LsmEntry(ArchivedEntry):
    """A completed instant of the history; its record is a row of a file."""

    def clean_metadata(self) -> Mapping[str, Any]:
        return self._commit() if self.instant.action is Action.CLEAN else {}

    def rollback_metadata(self) -> Mapping[str, Any]:
        return self._commit() if self.instant.action is Action.ROLLBACK else {}

    def _commit(self) -> Mapping[str, Any]:
        body = self.record.get("metadata")
        return decode_container(body, path=f"archived {self.instant}") if body else {}


class LsmHistory(ArchivedTimeline):
    """The history of one table, in `.hoodie/<folder>`. Every call reads the store again.

    Archive files are numbered by the last instant they hold.
    """

    def __init__(self, store: ObjectStore, folder: str = DEFAULT_FOLDER) -> None:
        super().__init__(store, folder)

    def files(self) -> tuple[ArchiveFile, ...]:
        """The files that the newest manifest names, newest first.

        Raises CorruptTableError for a manifest that cannot be read.
        """
        return tuple(sorted(self.manifest().files, reverse=True))

    def owns(self, name: str) -> bool:
        """Whether a file of this name in its folder is the history's."""
        is_data = _FILE_NAME.fullmatch(name) is not None
        return is_data or manifest_number(name) is not None or name == VERSION_FILE

    def manifest(self, number: int | None = None) -> Manifest:
        """The manifest of this number, else the newest; one without files where there is none.

        Raises CorruptTableError for one that cannot be read.
        """
        number = self._newest_manifest() if number is None else number
        if number is None:
            return Manifest()
        path = self.manifest_path(number)
        content = parse_json(self.store.get(path), path=path, what="manifest of the history")
        with faults_named("manifest of the archived timeline is not understood", path=path):
            found = [(str(file["fileName"]), int(file["fileLen"])) for file in content["files"]]
        return Manifest(number, tuple(self.file(*pair, named_by=path) for pair in found))

    def publish(self, manifest: Manifest) -> None:
        """Make this manifest, which is there, the newest."""
        self.store.put(self._version_path, str(manifest.number).encode())

    def manifest_path(self, number: int) -> str:
        """Where the manifest of this number is."""
        return f"{self.directory}/manifest_{number}"

    def data_path(self, first: InstantTime, last: InstantTime, level: int) -> str:
        """Where a data file with instants from `first` to `last` is."""
        return f"{self.directory}/{first}_{last}_{level}.parquet"

    def position(self, files: Sequence[ArchiveFile]) -> ArchivePosition:
        """All files: one that is written later may hold earlier instants."""
        return ArchivePosition(paths=frozenset(file.path for file in files))

    def body(self, file: ArchiveFile) -> bytes:
        """The bytes of a data file. Raises UnsupportedTableError for one above the limits."""
        admit(file.size_bytes, path=file.path, what="file of the archived timeline")
        return self.store.get(file.path)

    def read(self, file: ArchiveFile) -> ArchiveContent:
        """All of one file but plans. Raises ObjectNotFoundError when it was rewritten in between,
        CorruptTableError for what cannot be understood."""
        # Arrow is an optional dependency that only histories need.
        from tideline.formats.history_file import COMMITS

        return self._content(file, COMMITS)

    def read_with_plans(self, file: ArchiveFile) -> ArchiveContent:
        """The same, and records have the bytes of the plan as well."""
        from tideline.formats.history_file import WHOLE

        return self._content(file, WHOLE)

    def written_ms(self) -> int | None:
        """When anything was last archived or merged, by the store's clock; None before the first.

        What completed later is not in here. Hudi deletes the version before it writes it again.
        """
        found = self.store.head(self._version_path)
        if found is not None:
            return found.modified_ms
        listed = self.store.list_directory(self.directory).objects
        manifests = (info for info in listed if manifest_number(info.path) is not None)
        return max((info.modified_ms for info in manifests), default=None)

    def commits_completed_since(self, time: InstantTime) -> dict[InstantTime, InstantTime]:
        """When commits completed that did at `time` or later, by their requested times.

        Raises as `read`.
        """
        return {
            instant.time: instant.completion_time
            for file in self.files()
            for instant in self.instants(file)
            if instant.action in COMMIT_ACTIONS
            and instant.completion_time
            and instant.completion_time >= time
        }

    def instants(self, file: ArchiveFile) -> frozenset[Instant]:
        """The instants of one file, without what they did. Raises as `read`."""
        from tideline.formats.history_file import TIMES

        return frozenset(_instant(row, file.path) for row in self._rows(file, TIMES))

    def completions_around(self, time: InstantTime) -> Mapping[InstantTime, InstantTime]:
        """When the commits completed that are in one file with this time.

        Raises ObjectNotFoundError when files keep being rewritten, CorruptTableError.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(ObjectNotFoundError):
                return self._completions_around(time)
        return self._completions_around(time)

    def _completions_around(self, time: InstantTime) -> Mapping[InstantTime, InstantTime]:
        return {
            instant.time: instant.completion_time
            for file in self._files_around(time)
            for instant in self.instants(file)
            if instant.completion_time is not None and instant.action in COMMIT_ACTIONS
        }

    def _files_around(self, time: InstantTime) -> Iterator[ArchiveFile]:
        """The files whose range of instants has `time` in it."""
        for file in self.files():
            first, last, _ = range_and_level(file)
            if first <= time <= last:
                yield file

    @property
    def _version_path(self) -> str:
        return f"{self.directory}/{VERSION_FILE}"

    def _version_text(self) -> bytes:
        return self.store.get(self._version_path)

    def _newest_manifest(self) -> int | None:
        path = self._version_path
        try:
            text = self._version_text().strip()
        except ObjectNotFoundError:
            listed = self.store.list_directory(self.directory).objects
            numbers = (manifest_number(info.path) for info in listed)
            return max((number for number in numbers if number is not None), default=None)
        if not re.fullmatch(rb"[0-9]{1,18}", text):
            raise CorruptTableError(
                "version of the archived timeline is not a number",
                table=self.store.uri,
                path=path,
                value=text[:40],
            )
        return int(text)

    def file(self, name: str, size_bytes: int, *, named_by: str | None = None) -> ArchiveFile:
        """The data file of this name. Raises CorruptTableError for any other name."""
        named = _FILE_NAME.fullmatch(name)
        if named is None:
            raise CorruptTableError(
                "manifest of the archived timeline names a file of another kind",
                table=self.store.uri,
                path=named_by,
                value=name,
            )
        return ArchiveFile(int(named[2]), f"{self.directory}/{name}", size_bytes)

    def _content(self, file: ArchiveFile, columns: Sequence[str]) -> ArchiveContent:
        rows = self._rows(file, columns)
        return ArchiveContent(tuple(LsmEntry(_instant(row, file.path), row) for row in rows))

    def _rows(self, file: ArchiveFile, columns: Sequence[str]) -> list[dict[str, Any]]:
        from tideline.formats.history_file import read_history_file

        return read_history_file(self.body(file), columns, path=file.path)


class HeldHistory(LsmHistory):
    """The history while the table lock is held: nobody else writes it, so the newest manifest is
    read once. A holder that lost the lock publishes none. `has_moved`: one was published since."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        super().__init__(store, folder)
        self.has_moved = False
        self._newest: Manifest | None = None
        self._version: str | None = None

    def manifest(self, number: int | None = None) -> Manifest:
        if self._newest is None:
            self._newest = super().manifest()
        is_newest = number is None or number == self._newest.number
        return self._newest if is_newest else super().manifest(number)

    def publish(self, manifest: Manifest) -> None:
        """Raises ConflictError where another process has published one."""
        path, body = self._version_path, str(manifest.number).encode()
        done = (
            self.store.put_if_absent(path, body)
            if self._version is None
            else self.store.put_if_match(path, body, version=self._version)
        )
        version = done.version if isinstance(done, Written) else None
        if version is None:
            # The reply may have been lost.
            found = self.store.get_versioned(path)
            if found.body != body or super().manifest(manifest.number) != manifest:
                raise overtaken(self, path)
            version = found.version
        self._version, self._newest, self.has_moved = version, manifest, True

    def _version_text(self) -> bytes:
        found = self.store.get_versioned(self._version_path)
        self._version = found.version
        return found.body


def overtaken(history: LsmHistory, path: str) -> ConflictError:
    """What a writer raises that is not the only one."""
    message = "the archived timeline has changed: another process archives too; archive again"
    return ConflictError(message, table=history.store.uri, path=path)


def manifest_number(path: str) -> int | None:
    """The number of the manifest at `path`, None when it is none."""
    named = _MANIFEST.fullmatch(path.rpartition("/")[2])
    return None if named is None else int(named[1])


def range_and_level(file: ArchiveFile) -> tuple[InstantTime, InstantTime, int]:
    """The first and the last instant of a data file, and its level."""
    named = _FILE_NAME.fullmatch(file.path.rpartition("/")[2])
    assert named is not None, "files of a history are made from such names"
    return InstantTime(named[1]), InstantTime(named[2]), int(named[3])


def _instant(row: Mapping[str, Any], path: str) -> Instant:
    time, completed, word = (
        str(row.get(name) or "") for name in ("instantTime", "completionTime", "action")
    )
    try:
        if not is_instant_time(time) or not is_instant_time(completed):
            raise ValueError(time)
        return Instant(InstantTime(time), Action(word), State.COMPLETED, InstantTime(completed))
    except ValueError as error:
        raise CorruptTableError(
            "archived instant is not understood", path=path, value=f"{time}_{completed} {word}"
        ) from error
