"""The checks of what a store shows: reads, listings, names, uploads.

Each returns what is wrong, or None.
"""

from __future__ import annotations

import hashlib

from tideline.errors import InvalidDataError, ObjectNotFoundError
from tideline.storage.object_store import ObjectStore
from tideline.storage.probe.race import Arena

_NAMES = (
    "day=2024-01-01/part.parquet",
    "city=S%C3%A3o%20Paulo/part",
    "with space and+plus/part",
    "ünïcödé/日本語",
    "hash#what?a=1&b",
    "Case/part",
    "case/part",
    "caf\u00e9",
    "cafe\u0301",
    "back\\slash/part",
    "dot./part",
)
"""Two are spelled in two ways. A store may refuse some; it may not change any."""
_UPLOAD_CHUNKS = 10
_CHUNK_BYTES = 1024 * 1024


def reads_what_was_written(arena: Arena) -> str | None:
    path = arena.path("read")
    for number in range(arena.effort.rounds):
        body = f"{number} {arena.token}".encode()
        arena.store.put(path, body)
        for store in arena.stores:
            if store.get(path) != body:
                return "shows an older body right after a write"
            found = store.head(path)
            if found is None or found.size_bytes != len(body):
                return "answers a HEAD right after a write with an older state"
            if store.get_range(path, offset=2, length=4) != body[2:6]:
                return "answers a ranged read with other bytes"
    arena.store.delete(path)
    for store in arena.stores:
        if store.head(path) is not None:
            return "shows an object right after it was deleted"
    return None


def says_what_is_missing(arena: Arena) -> str | None:
    for store in arena.stores:
        path = arena.path("never-written")
        if store.head(path) is not None:
            return "answers a HEAD for an object that was never written"
        try:
            store.get(path)
        except ObjectNotFoundError:
            pass
        else:
            return "answers a read of an object that was never written"
        store.delete(path)
    return None


def lists_what_was_created(arena: Arena) -> str | None:
    for number in range(1, arena.effort.rounds + 1):
        arena.store.put(arena.path(f"listed/{number}"), b"")
        for store in arena.stores:
            if len(_listed(store, arena, "listed")) < number:
                return "leaves an object that was just written out of a listing"
    return None


def lists_nothing_that_was_deleted(arena: Arena) -> str | None:
    for number in range(arena.effort.rounds):
        path = arena.path(f"emptied/{number}")
        arena.store.put(path, b"")
        if path not in _listed(arena.store, arena, "emptied"):
            return "leaves an object that was just written out of a listing"
        arena.store.delete(path)
        if any(path in _listed(store, arena, "emptied") for store in arena.stores):
            return "lists an object that was just deleted"
    return None


def lists_every_page(arena: Arena) -> str | None:
    """More objects than a page has, listed whole, and removed with requests for many."""
    directory, count = f"{arena.folder}/pages", arena.effort.page_objects
    paths = [arena.path(f"pages/{number:05}") for number in range(count)]
    arena.in_parallel(lambda number: arena.store.put(paths[number], b""), count)
    for store in arena.stores:
        for listed in (
            [found.path for found in store.list(directory)],
            [found.path for found in store.list_directory(directory).objects],
        ):
            if sorted(listed) != paths:
                return f"lists {len(set(listed)):,} of {count:,} objects, {len(listed):,} names"
    arena.store.delete_many(paths)
    left = len([*arena.store.list(directory)])
    return f"left {left:,} of {count:,} objects that were deleted together" if left else None


def keeps_names(arena: Arena) -> str | None:
    paths = {name: arena.path(f"names/{name}") for name in _NAMES}
    for name in _NAMES:
        try:
            arena.store.put(paths[name], name.encode())
        except InvalidDataError as refusal:
            arena.paths.discard(paths.pop(name))
            _note(arena, f"values of partitions with such names are refused: {refusal.message}")
    for name, path in paths.items():
        if arena.store.get(path) != name.encode():
            return f"mixes up the name {name!r}"
    listed = {found.path for found in arena.store.list(f"{arena.folder}/names")}
    for name, path in paths.items():
        if path not in listed:
            return f"lists the name {name!r} in another form"
    return None


def uploads_in_parts(arena: Arena) -> str | None:
    path = arena.path("parts")
    chunks = [bytes([number]) * _CHUNK_BYTES for number in range(_UPLOAD_CHUNKS)]
    with arena.store.open_writer(path) as stream:
        for chunk in chunks:
            stream.write(chunk)
    expected = hashlib.sha256(b"".join(chunks)).digest()
    if any(hashlib.sha256(store.get(path)).digest() != expected for store in arena.stores):
        return "does not put the parts of an upload together again"
    return None


def _note(arena: Arena, text: str) -> None:
    if text not in arena.notes:
        arena.notes.append(text)


def _listed(store: ObjectStore, arena: Arena, name: str) -> frozenset[str]:
    level = store.list_directory(f"{arena.folder}/{name}")
    return frozenset(found.path for found in level.objects)
