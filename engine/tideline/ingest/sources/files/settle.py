"""Moving, or removing, landing files whose rows are in the table.

1. Only files are cleared whose identity a completed commit names. A file that merely counts as
   taken in (`FilesPosition.floor`) stays, for it may have arrived late.
2. The landing prefix is listed. What is in a table below it stays, and is named; so does everything
   where the prefix is a table's folder, or lies in one.
3. Files to be moved are copied, then the prefix is listed again: one that was replaced meanwhile is
   a new arrival, and stays.
4. The others are deleted, a thousand in a request.

A death before 1 or during 2 and 3: all files are still there; copies are made again. During 4: some
are gone. The next operation that clears (the next ingest of this prefix, or, when no file is new,
one for that alone) reads the same checkpoint and continues; clearing twice changes nothing.

A producer that replaces a file by another one of the same name within the moment between the last
listing and the delete loses the new one: give files new names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tideline.errors import InvalidDataError, ObjectNotFoundError
from tideline.hudi.table.location_conflict import find_table_around
from tideline.ingest.locate import locate
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.position import FilesPosition
from tideline.ingest.sources.source import Settled
from tideline.storage.copying import copy_object
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.local.listing import list_regular
from tideline.storage.nested_tables import nested_tables, root_around
from tideline.storage.object_store import ObjectStore
from tideline.wording import counted

_COPIES_AT_ONCE = 8


def settle_files(
    files: DeclaredFiles, position: FilesPosition, progress: Callable[[str], None]
) -> Settled:
    """Clear the landing prefix of what the table has taken in; see the module's text.

    Raises InvalidDataError naming a table that lies in or around the landing prefix,
    StorageUnavailableError.
    """
    landing = locate(files.landing)
    store = landing.open()
    seen = _seen(store, files, position)
    around = find_table_around(landing) if seen.taken else None
    if around is not None:
        raise InvalidDataError(
            f"files that were taken in belong to {around}: keep them with source.taken: Keep",
            path=landing.uri,
        )
    if seen.taken and files.moved_to is not None:
        progress(f"moving {counted(len(seen.taken), 'file')}")
        _copy(store, locate(files.moved_to).open(), seen.taken)
        copied = {file.identity for file in seen.taken}
        seen = _seen(store, files, position, copied)
    _remove(store, seen)
    done = "removed" if files.moved_to is None else f"moved to {files.moved_to.uri}"
    return Settled(len(seen.taken), f"{counted(len(seen.taken), 'file')} taken in and {done}")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The files to clear in one listing, and the tables below the landing prefix."""

    taken: tuple[ArrivedFile, ...]
    nested: dict[str, str] = field(default_factory=dict)


def _seen(
    store: ObjectStore,
    declared: DeclaredFiles,
    position: FilesPosition,
    identities: Container[str] | None = None,
) -> _Seen:
    objects, _ = list_regular(store)
    files = FileListing.of(objects, declared.file_format).files
    taken = tuple(file for file in files if position.remembers(file))
    if identities is not None:
        taken = tuple(file for file in taken if file.identity in identities)
    nested = nested_tables(found.path for found in objects)
    inside = next((file for file in taken if root_around(file.path, nested) is not None), None)
    if inside is not None:
        root = root_around(inside.path, nested) or ""
        raise InvalidDataError(
            f"files that were taken in belong to the {nested[root]} table {root}/: keep them with "
            "source.taken: Keep, or move the table out of the landing prefix",
            path=f"{store.uri}/{inside.path}",
        )
    return _Seen(taken, nested)


def _copy(store: ObjectStore, target: ObjectStore, files: Iterable[ArrivedFile]) -> None:
    def copy(file: ArrivedFile) -> None:
        try:
            copy_object(store, file.path, target, file.path, size_bytes=file.size_bytes)
        except ObjectNotFoundError:
            return  # another process moved it, which the next listing shows

    with ThreadPoolExecutor(_COPIES_AT_ONCE, thread_name_prefix="move") as threads:
        for _ in threads.map(copy, files):
            pass


def _remove(store: ObjectStore, seen: _Seen) -> None:
    allowed = {file.path for file in seen.taken}
    scope = DeleteScope(
        store,
        "files that were taken in",
        objection=lambda path: None if path in allowed else "it was not taken in",
        nested=seen.nested,
    )
    scope.remove_many(file.path for file in seen.taken)
