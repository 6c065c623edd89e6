"""The archived timeline of layout 2: an LSM tree of Parquet files, in `.hoodie/timeline/history`.

`_version_` names the newest manifest, `manifest_<n>` the files that count, and a file
`<first>_<last>_<level>.parquet` has a row for each instant that completed: times, action, and the
bytes that its file in the active timeline had. Compaction rewrites files into one of the next
level. As in layout 1 an instant may occur twice, and a file that is gone was rewritten by another
process.

Reads; archiving is not built. Source: Hudi's ArchivedTimelineV2, ArchivedTimelineLoaderV2,
LSMTimeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.avro import decode_container
from tideline.formats.bounded import faults_named, parse_json
from tideline.hudi.timeline.archived import (
    ArchiveContent,
    ArchivedEntry,
    ArchivedTimeline,
    ArchiveFile,
)
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.read_limits import admit
from tideline.storage.object_store import ObjectStore

DEFAULT_FOLDER = "timeline/history"

_FILE_NAME = re.compile(r"([0-9]+)_([0-9]+)_[0-9]\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]+)")
_ATTEMPTS = 3
_VERSION_FILE = "_version_"


@dataclass(frozen=True, slots=True)
class LsmEntry(ArchivedEntry):
    """A completed instant of the history; its record is a row of a file."""

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
        number = self._newest_manifest()
        if number is None:
            return ()
        path = f"{self.directory}/manifest_{number}"
        content = parse_json(self.store.get(path), path=path, what="manifest of the history")
        with faults_named("manifest of the archived timeline is not understood", path=path):
            found = [(str(one["fileName"]), int(one["fileLen"])) for one in content["files"]]
        return tuple(sorted((self._file(*one, path) for one in found), reverse=True))

    def read(self, file: ArchiveFile) -> ArchiveContent:
        """All of one file. Raises ObjectNotFoundError when it was rewritten in between,
        CorruptTableError for what cannot be understood."""
        # Arrow is an optional dependency that only histories need.
        from tideline.formats.history_file import COMMITS

        rows = self._rows(file, COMMITS)
        return ArchiveContent(tuple(LsmEntry(_instant(row, file.path), row) for row in rows))

    def completions_around(self, time: InstantTime) -> Mapping[InstantTime, InstantTime]:
        """When the commits completed that are in one file with this time.

        Raises ObjectNotFoundError when files keep being rewritten, CorruptTableError.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(ObjectNotFoundError):
                return self._completions_around(time)
        return self._completions_around(time)

    def path(self, number: int) -> str:
        """Raises UnsupportedTableError: nothing is archived into a history here."""
        raise UnsupportedTableError(
            "the archived timeline of this table is read, not written",
            table=self.store.uri,
            path=self.directory,
            value=number,
        )

    def _completions_around(self, time: InstantTime) -> Mapping[InstantTime, InstantTime]:
        from tideline.formats.history_file import TIMES

        instants = (
            _instant(row, file.path)
            for file in self._files_around(time)
            for row in self._rows(file, TIMES)
        )
        return {
            instant.time: instant.completion_time
            for instant in instants
            if instant.completion_time is not None and instant.action in COMMIT_ACTIONS
        }

    def _files_around(self, time: InstantTime) -> Iterator[ArchiveFile]:
        """The files whose range of instants has `time` in it."""
        for file in self.files():
            named = _FILE_NAME.fullmatch(file.path.rpartition("/")[2])
            if named is not None and named[1] <= time.value <= named[2]:
                yield file

    def _newest_manifest(self) -> int | None:
        path = f"{self.directory}/{_VERSION_FILE}"
        try:
            text = self.store.get(path).strip()
        except ObjectNotFoundError:
            names = (
                _MANIFEST.fullmatch(info.path.rpartition("/")[2])
                for info in self.store.list_directory(self.directory).objects
            )
            return max((int(name[1]) for name in names if name is not None), default=None)
        if not re.fullmatch(rb"[0-9]{1,18}", text):
            raise CorruptTableError(
                "version of the archived timeline is not a number",
                table=self.store.uri,
                path=path,
                value=text[:40],
            )
        return int(text)

    def _file(self, name: str, size_bytes: int, manifest: str) -> ArchiveFile:
        named = _FILE_NAME.fullmatch(name)
        if named is None:
            raise CorruptTableError(
                "manifest of the archived timeline names a file of another kind",
                table=self.store.uri,
                path=manifest,
                value=name,
            )
        return ArchiveFile(int(named[2]), f"{self.directory}/{name}", size_bytes)

    def _rows(self, file: ArchiveFile, columns: Sequence[str]) -> list[dict[str, Any]]:
        from tideline.formats.history_file import read_history_file

        admit(file.size_bytes, path=file.path, what="file of the archived timeline")
        return read_history_file(self.store.get(file.path), columns, path=file.path)


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
