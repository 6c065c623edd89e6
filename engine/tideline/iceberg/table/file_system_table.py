"""A table that is a folder: its metadata files are numbered, and the highest number is the table.

Loading:

1. `metadata/version-hint.text` names a version that was the newest at some time. When it is absent,
   unreadable or names a file that is gone, the folder is listed instead.
2. From there on the next number is looked for until there is none.

Committing version N+1 on top of N:

1. `v<N+1>.metadata.json` is created only if it does not exist: one of several writers succeeds, on
   every store, without a lock. (Iceberg's Java code looks whether it exists and then renames; what
   appears in between it may overwrite, unless all Java writers share a lock with all other
   writers.)
2. When it exists, its content shows whether it is ours after all, from a request whose reply was
   lost. When the store cannot be reached, the same file is created again, as often as
   `commit.status-check.*` says: then it is certain whose it is. After that it is unknown.
3. Should the newest version be far ahead by then, with ours not in its log, ours filled a gap that
   the removal of old metadata had left: it is taken back.
4. The hint is written. It only saves readers time, so a failure does not matter.
5. With `write.metadata.delete-after-commit.enabled` metadata files that the log names no more go.
"""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Iterable
from contextlib import suppress

from tideline.clock import Clock, SystemClock
from tideline.errors import (
    ObjectNotFoundError,
    StorageUnavailableError,
    TableNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_log import dropped_from_log, with_logged
from tideline.iceberg.metadata.metadata_update import (
    MetadataUpdate,
    Requirement,
    apply_updates,
    unmet,
)
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import METADATA_PATH
from tideline.iceberg.table.clean_up import remove_old_metadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.retry import status_checks
from tideline.iceberg.table.table_identity import UNSEEN, TableIdentity
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Loaded,
    Replaced,
    Unknown,
)
from tideline.retry import RetryPolicy
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.location import StoreLocation
from tideline.storage.missing_table import missing_table
from tideline.storage.named_places import checked_place, declared_places
from tideline.storage.nested_tables import CONTROL_FOLDER
from tideline.storage.object_store import AlreadyExists, ObjectInfo, ObjectStore

FOLDER = "metadata"
HINT_PATH = f"{FOLDER}/version-hint.text"
CODEC_PROPERTY = "write.metadata.compression-codec"

_DIGITS_MAX = 18
_PLAIN, _GZIP, _OLD_GZIP = ".metadata.json", ".gz.metadata.json", ".metadata.json.gz"
_SUFFIXES = (_PLAIN, _GZIP, _OLD_GZIP)  # in the order in which Iceberg looks for them
_NUMBERED = re.compile(r"v(\d+)(\.gz\.metadata\.json|\.metadata\.json(\.gz)?)")


class FileSystemTable:
    """TableOperations of the table in the folder `location`."""

    def __init__(
        self,
        location: StoreLocation,
        *,
        store: ObjectStore | None = None,
        clock: Clock | None = None,
        extra_locations: Iterable[str] = (),
    ) -> None:
        """Files are read below `extra_locations`, too. Raises ConfigError for what is none."""
        self._declared = (*declared_places(), *map(checked_place, extra_locations))
        self._location = location
        self._store = store or location.open()
        self._clock = clock or SystemClock()
        self._io: FileIO | None = None
        self._identity: TableIdentity = UNSEEN

    @property
    def io(self) -> FileIO:
        if self._io is None:
            self._io = self._io_of(self.load().metadata)
        return self._io

    @property
    def arguments(self) -> str:
        return shlex.quote(self._location.uri)

    def load(self) -> Loaded:
        loaded = self._read()
        metadata = loaded.metadata
        self._identity = self._identity.confirmed(metadata, table=self._location.uri)
        if self._io is None or self._io.recorded != metadata.location:
            self._io = self._io_of(metadata)
        return loaded

    def load_since(self, known: Loaded) -> Loaded:
        """`known` while it is the newest, without reading it again; else what `load` gives.

        A table that was recreated in the same place may have as many versions: its metadata file is
        another one.
        """
        version, found = self._newest()
        is_known = known.stored is not None and _is_same_file(known.stored, found)
        return known if version == known.version and is_known else self.load()

    def commit(
        self, base: Loaded, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        if base.version is None:
            raise ValueError("the metadata was not loaded from this table")
        self._refuse_other_place(base.metadata)
        reason = unmet(base.metadata, requirements)
        if reason is not None:
            return Conflicted(reason)
        now = self._read()
        other = self._identity.replaced_by(now.metadata)
        if other is not None:
            return Replaced(other)
        if now.version != base.version:
            return Conflicted(f"version {now.version} follows version {base.version}")
        changed = apply_updates(base.metadata, updates, now_ms=self._clock.now_ms())
        self._refuse_other_place(changed)
        changed = with_logged(changed, base.metadata, base.metadata_location)
        return self._publish(base, changed, base.version + 1)

    def _refuse_other_place(self, metadata: TableMetadata) -> None:
        if metadata.properties.get(METADATA_PATH):
            message = "a table without a catalog keeps its metadata in its own folder"
            raise UnsupportedTableError(message, table=self._location.uri, value=METADATA_PATH)

    def _publish(self, base: Loaded, changed: TableMetadata, version: int) -> CommitOutcome:
        is_gzip = changed.properties.get(CODEC_PROPERTY, "none").lower() == "gzip"
        path = f"{FOLDER}/v{version}{_GZIP if is_gzip else _PLAIN}"
        body = changed.to_bytes(is_gzip=is_gzip)
        outcome = self._create(path, body, status_checks(changed.properties))
        if outcome is not None:
            return outcome
        loaded = Loaded(changed, f"{changed.location}/{path}", version)
        with suppress(StorageUnavailableError):
            if not self._is_followed_up(loaded, path, base):
                return Conflicted(f"version {version} was published and removed before")
        if changed.properties.get("write.metadata.delete-after-commit.enabled") == "true":
            dropped = dropped_from_log(changed, base.metadata)
            remove_old_metadata(self._io_of(changed), changed, dropped)
        return Committed(loaded)

    def _create(self, path: str, body: bytes, checks: RetryPolicy) -> Conflicted | Unknown | None:
        """None when the file at `path` is certainly `body`."""
        token = uuid.uuid4().hex
        failure = ""
        for _ in checks.attempts(self._clock):
            try:
                created = self._store.put_if_absent(path, body, token=token)
                if isinstance(created, AlreadyExists) and self._store.get(path) != body:
                    return Conflicted(f"another writer published {path}")
                return None
            except (StorageUnavailableError, ObjectNotFoundError) as error:
                failure = str(error)
        reason = f"{path} may have been published: {failure}"
        return Unknown(reason, arguments=self.arguments)

    def _is_followed_up(self, loaded: Loaded, path: str, base: Loaded) -> bool:
        """Whether our version is the newest or one that the newest is based on; hints at it."""
        newest, found = self._newest()
        if newest == loaded.version and found.path == path:
            with suppress(TidelineError):
                self._store.put(HINT_PATH, str(newest).encode())
            return True
        if newest != loaded.version:
            now = self._read().metadata
            if any(entry.metadata_file == loaded.metadata_location for entry in now.metadata_log):
                return True
            # The log may be shorter than what others committed on top of it since.
            own = {snapshot.snapshot_id for snapshot in loaded.metadata.snapshots} - {
                snapshot.snapshot_id for snapshot in base.metadata.snapshots
            }
            if any(now.snapshot(number) is not None for number in own):
                return True
        DeleteScope(self._store, "taking back a metadata file").remove(path)
        return False

    def _read(self) -> Loaded:
        """The newest metadata, of whatever table."""
        version, found = self._newest()
        try:
            body = self._store.get(found.path)
        except ObjectNotFoundError:
            # Removed as an old version between the look and the read.
            version, found = self._listed_newest()
            body = self._store.get(found.path)
        metadata = TableMetadata.parse(body, path=f"{self._location.uri}/{found.path}")
        return Loaded(metadata, f"{metadata.location}/{found.path}", version, found)

    def _newest(self) -> tuple[int, ObjectInfo]:
        """The newest version's number and file."""
        version = self._hinted()
        found = None if version is None else self._file_of(version)
        if version is None or found is None:
            version, found = self._listed_newest()
        while following := self._file_of(version + 1):
            version, found = version + 1, following
        return version, found

    def _hinted(self) -> int | None:
        try:
            text = self._store.get(HINT_PATH).strip()
            return int(text) if len(text) <= _DIGITS_MAX else None
        except (ObjectNotFoundError, ValueError):
            return None

    def _file_of(self, version: int) -> ObjectInfo | None:
        heads = (self._store.head(f"{FOLDER}/v{version}{suffix}") for suffix in _SUFFIXES)
        return next((found for found in heads if found is not None), None)

    def _listed_newest(self) -> tuple[int, ObjectInfo]:
        listed = self._store.list_directory(FOLDER).objects
        files = {object_info.path.rpartition("/")[2]: object_info for object_info in listed}
        names = list(files)
        found = [(int(match[1]), name) for name in names if (match := _NUMBERED.fullmatch(name))]
        if found:
            newest = max(version for version, _ in found)
            by_suffix = {name.removeprefix(f"v{newest}"): name for n, name in found if n == newest}
            suffix = next(suffix for suffix in _SUFFIXES if suffix in by_suffix)
            return newest, files[by_suffix[suffix]]
        if any(_is_metadata(name) for name in names):
            message = (
                "the table belongs to a catalog, which alone knows its newest metadata: name it as "
                "the catalog does, namespace.name, and the catalog (--catalog, catalog=, in a "
                "LakeTable spec.catalog)"
            )
            raise UnsupportedTableError(message, table=self._location.uri)
        if self._store.list_directory(CONTROL_FOLDER).objects:
            hint = ", but a Hudi table: tideline.open opens it, `tideline show` describes it"
        else:
            hint = missing_table(self._location.uri)
        raise TableNotFoundError(f"no Iceberg table here{hint}", table=self._location.uri)

    def _io_of(self, metadata: TableMetadata) -> FileIO:
        stores = {self._location: self._store}
        return FileIO(self._location, metadata.location, stores, self._declared)


def _is_same_file(left: ObjectInfo, right: ObjectInfo) -> bool:
    """By the store's own version of it, where it gives one."""
    if left.path != right.path or None in (left.version, right.version):
        return left == right
    return left.version == right.version


def _is_metadata(name: str) -> bool:
    return name.endswith(_SUFFIXES)
