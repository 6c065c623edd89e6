"""`hoodie.properties`: what a table is, as a typed view, and how the file is read and changed.

Changing it, in Hudi's order (HoodieTableConfig.modify), and what a crash after each step leaves:

1. Recover: a missing or unsound file is rewritten from `hoodie.properties.backup`, then the backup
   is deleted. Crash: the backup is still there, or the file is whole without it.
2. Create the backup with the current content. Crash: the file is unchanged; the next update
   deletes the backup.
3. Delete the checksum sidecar `.hoodie.properties.crc` of Hadoop's local file system. Crash: Hadoop
   reads the unchanged file without verifying it. (A stale sidecar would stop every Hudi reader,
   so it goes before the file changes.)
4. Write the new content, if the file is still the one of step 1: a process that was paused until
   its lock was taken over changes nothing any more. Crash: the file is old or new; where a store
   can leave half a file, readers find it unsound and take the backup.
5. Read it back and compare. A mismatch leaves the backup in place for readers.
6. Delete the backup. Crash: the file is new and sound; the next update deletes the backup.

Updates need the table lock; readers need nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

from tideline.clock import Clock, SystemClock
from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    TableNotFoundError,
)
from tideline.hudi.table.java_properties import format_properties, parse_properties, with_changes
from tideline.hudi.table.kept_settings import own_names
from tideline.hudi.table.layout.known_layouts import VERSION
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.table_config import (
    CHECKSUM,
    DATABASE_NAME,
    NAME,
    PROPERTIES_PATH,
    TYPE,
    KeyGeneratorKind,
    TableConfig,
    TableType,
)
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.lock import Guard, unguarded
from tideline.storage.missing_table import missing_table
from tideline.storage.object_store import AlreadyExists, ObjectStore
from tideline.storage.replacing import replace_unchanged
from tideline.storage.table_around import has_iceberg_metadata

__all__ = [
    "BACKUP_PATH",
    "PROPERTIES_PATH",
    "KeyGeneratorKind",
    "MergeMode",
    "TableConfig",
    "TableType",
    "format_properties",
    "has_table_metadata",
    "load_any_table_config",
    "load_table_config",
    "parse_properties",
    "recover_table_properties",
    "table_checksum",
    "update_table_properties",
]

BACKUP_PATH = ".hoodie/hoodie.properties.backup"
CHECKSUM_SIDECARS = (
    ".hoodie/.hoodie.properties.crc",
    ".hoodie/.hoodie.properties.backup.crc",
)

_SYSTEM_CLOCK = SystemClock()


def table_checksum(properties: Mapping[str, str]) -> str:
    """`hoodie.table.checksum`: CRC-32 of `<database>.<table name>`, unsigned decimal."""
    named = f"{properties.get(DATABASE_NAME, '')}.{properties.get(NAME, '')}"
    return str(zlib.crc32(named.encode("utf-8")))


def load_table_config(store: ObjectStore) -> TableConfig:
    """Read and check the table's properties, from the backup when the file itself is unsound.

    Raises TableNotFoundError when there is no table here at all, CorruptTableError when neither
    file is sound, UnsupportedTableError for a table version and for else that is not read.
    """
    config = load_any_table_config(store)
    config.check_readable()
    return config


def load_any_table_config(store: ObjectStore) -> TableConfig:
    """The same of a table that may be refused altogether, for a caller that only says what it
    is."""
    return TableConfig(own_names(_load(store).properties), store.uri)


def has_table_metadata(store: ObjectStore) -> bool:
    """Whether `.hoodie` holds anything but a lock: a table, or what is left of one."""
    return any(not info.path.startswith(".hoodie/.locks/") for info in store.list(".hoodie"))


def update_table_properties(
    store: ObjectStore,
    changes: Mapping[str, str | None],
    *,
    clock: Clock = _SYSTEM_CLOCK,
    guard: Guard = unguarded,
    raises_version: bool = False,
    expected: Mapping[str, str] | None = None,
) -> TableConfig:
    """Set properties, or remove those changed to None; see the module text for the steps.

    `raises_version`: from a version that is only read to one that is written. `expected` are
    properties that nobody may have changed meanwhile.

    Call under the table lock; `guard` raises when it was lost, and is asked before anything is
    written, and before the new content. Writes nothing when nothing changes. Raises what
    `load_table_config` raises, UnsupportedTableError for a table that is only read, ConflictError
    when another update is under way or came first, CorruptTableError when the file does not hold
    what was written.
    """
    found = _recover(store, may_be_read_only=raises_version)
    current = found.properties
    for key, text in (expected or {}).items():
        if current.get(key, "") != text:
            raise _came_first(store, f"{key}={current.get(key, '')}")
    wanted = with_changes(current, changes)
    TableConfig(own_names(wanted), store.uri).check_writable()
    if wanted != current:
        wanted[CHECKSUM] = table_checksum(wanted)
        guard()
        _back_up(store, format_properties(current, updated_at_ms=clock.now_ms()))
        _delete_sidecars(store)
        guard()
        _replace(store, format_properties(wanted, updated_at_ms=clock.now_ms()), found.version)
        if _examine(store, PROPERTIES_PATH).properties != wanted:
            raise CorruptTableError(
                "the properties read back differ from those written; the backup is in place",
                table=store.uri,
                path=PROPERTIES_PATH,
            )
        _scope(store).remove(BACKUP_PATH)
    return TableConfig(own_names(wanted), store.uri)


def recover_table_properties(store: ObjectStore) -> None:
    """Finish or forget an update that died. Call under the table lock.

    Raises what `load_table_config` raises when neither the file nor its backup is sound.
    """
    _recover(store)


@dataclass(frozen=True, slots=True)
class _Examined:
    """One of the two property files: what it says, or what is wrong with it.

    `problem` "" means sound; sound files of old writers carry no checksum. `version` is that of
    what lies where the properties belong, None where nothing does.
    """

    path: str
    properties: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    problem: str = ""
    version: str | None = None

    @property
    def is_sound(self) -> bool:
        return not self.problem

    @property
    def is_signed(self) -> bool:
        return self.is_sound and CHECKSUM in self.properties and VERSION in self.properties


def _examine(store: ObjectStore, path: str) -> _Examined:
    try:
        there = store.get_versioned(path)
    except ObjectNotFoundError:
        return _Examined(path, problem="missing")
    body, version = there.body, there.version
    try:
        properties = parse_properties(body)
    except CorruptTableError as error:
        return _Examined(path, problem=str(error), version=version)
    problem = ""
    absent = [key for key in (NAME, TYPE) if not properties.get(key)]
    written = properties.get(CHECKSUM)
    if absent:
        problem = f"lacks {' and '.join(absent)}"
    elif written is not None and written.strip() != table_checksum(properties):
        problem = f"wrong checksum {written}"
    return _Examined(path, properties, body, problem, version)


def _load(store: ObjectStore) -> _Examined:
    """The file to believe: the properties, else the backup.

    A file without a checksum may be the beginning of one, so a signed backup goes before it. The
    third look is for a writer that deletes the file, writes it again and drops the backup.
    """
    current = _examine(store, PROPERTIES_PATH)
    if current.is_signed:
        return current
    backup = _examine(store, BACKUP_PATH)
    if backup.is_signed or (backup.is_sound and not current.is_sound):
        return replace(backup, version=current.version)
    if not current.is_sound:
        current = _examine(store, PROPERTIES_PATH)
    if current.is_sound:
        return current
    if current.problem == backup.problem == "missing" and not has_table_metadata(store):
        message = "no Hudi table here"
        if has_iceberg_metadata(store):
            message += (
                ", but an Iceberg table: tideline.open_iceberg opens it, `tideline iceberg` has "
                "the commands for it, and show, read, write and check take tables of both"
            )
        else:
            message += missing_table(store.uri)
        raise TableNotFoundError(message, table=store.uri, path=PROPERTIES_PATH)
    raise CorruptTableError(
        f"table properties are unreadable: {current.problem}; backup: {backup.problem}",
        table=store.uri,
        path=PROPERTIES_PATH,
    )


def _recover(store: ObjectStore, *, may_be_read_only: bool = False) -> _Examined:
    """Finish or forget an update that died; afterwards the file is sound, the backup is gone."""
    believed = _load(store)
    config = TableConfig(believed.properties, store.uri)
    if may_be_read_only:
        config.check_readable()
    else:
        config.check_writable()
    _delete_sidecars(store)
    if believed.path == BACKUP_PATH:
        version = _replace(store, believed.body, believed.version)
        believed = replace(believed, version=version)
    _scope(store).remove(BACKUP_PATH)
    return believed


def _replace(store: ObjectStore, body: bytes, version: str | None) -> str:
    """Write the properties where they are still of this version, or still missing; the new
    version. Raises ConflictError where another process came first."""
    written = replace_unchanged(store, PROPERTIES_PATH, body, version)
    if written is None:
        raise _came_first(store, "")
    return written


def _came_first(store: ObjectStore, value: str) -> ConflictError:
    return ConflictError(
        "another process changed the table properties first: try again",
        table=store.uri,
        path=PROPERTIES_PATH,
        value=value or None,
    )


def _back_up(store: ObjectStore, body: bytes) -> None:
    outcome = store.put_if_absent(BACKUP_PATH, body, token=uuid4().hex)
    if isinstance(outcome, AlreadyExists) and store.get(BACKUP_PATH) != body:
        raise ConflictError(
            "another writer is changing the table properties: try again",
            table=store.uri,
            path=BACKUP_PATH,
        )


def _delete_sidecars(store: ObjectStore) -> None:
    for path in CHECKSUM_SIDECARS:
        _scope(store).remove(path)


def _scope(store: ObjectStore) -> DeleteScope:
    return DeleteScope(store, "a change of properties", control=(BACKUP_PATH, *CHECKSUM_SIDECARS))
