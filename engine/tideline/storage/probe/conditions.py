"""The checks of conditional writes: one after another, and in races.

Each returns what is wrong, or None. A question asked once is not enough: some servers check the
condition and write without a lock between the two, and pass every question until two ask at once.
"""

from __future__ import annotations

import time

from tideline.errors import ObjectNotFoundError
from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written
from tideline.storage.probe.race import Arena, check_race

_CREATE = "(If-None-Match)"
_REPLACE = "(If-Match)"


def creates_once(arena: Arena) -> str | None:
    store, path = arena.store, arena.path("created")
    created = store.put_if_absent(path, f"1 {arena.token}".encode(), token=arena.token)
    if not isinstance(created, Written):
        return f"says that a new object exists already {_CREATE}"
    for other in arena.stores:
        if not isinstance(other.put_if_absent(path, b"2"), AlreadyExists):
            return f"overwrites an object that must be absent {_CREATE}"
    if store.get(path) != f"1 {arena.token}".encode():
        return f"refuses a create and overwrites the object all the same {_CREATE}"
    return None


def creates_once_in_a_race(arena: Arena) -> str | None:
    for key in range(arena.effort.keys):
        for attempt in range(arena.effort.rounds):
            wrong = _race_to_create(arena, arena.path(f"race-{key}-{attempt}"))
            if wrong is not None:
                return wrong
    return None


def creates_once_after_a_delete(arena: Arena) -> str | None:
    path = arena.path("taken-and-released")
    for _ in range(arena.effort.rounds + 1):
        wrong = _race_to_create(arena, path)
        if wrong is not None:
            return f"after the object was deleted, {wrong}"
        arena.store.delete(path)
    return None


def replaces_what_matches(arena: Arena) -> str | None:
    store, path = arena.store, arena.path("replaced")
    first = store.put(path, b"1").version
    replaced = store.put_if_match(path, b"2", version=first)
    # A lost reply may have hidden our own success.
    if not isinstance(replaced, Written) and store.get(path) != b"2":
        return f"does not recognise its own version {_REPLACE}"
    for other in arena.stores:
        if not isinstance(other.put_if_match(path, b"3", version=first), Changed):
            return f"overwrites an object that has changed {_REPLACE}"
    if store.get(path) != b"2":
        return f"refuses a replacement and overwrites the object all the same {_REPLACE}"
    return None


def replaces_nothing_that_is_gone(arena: Arena) -> str | None:
    store, path = arena.store, arena.path("gone")
    version = store.put(path, b"1").version
    store.delete(path)
    if not isinstance(store.put_if_match(path, b"2", version=version), Changed):
        return f"writes an object that was deleted {_REPLACE}"
    return None


def replaces_once_in_a_race(arena: Arena) -> str | None:
    for key in range(arena.effort.keys):
        path = arena.path(f"swapped-{key}")
        version = arena.store.put(path, b"0").version
        for attempt in range(arena.effort.rounds):
            bodies = [f"{attempt} {racer}".encode() for racer in range(arena.effort.racers)]

            def replace(
                racer: int,
                store: ObjectStore,
                path: str = path,
                bodies: list[bytes] = bodies,
                version: str = version,
            ) -> Written | Changed:
                return store.put_if_match(path, bodies[racer], version=version)

            results = arena.race(replace)
            wrong = check_race(arena, path, bodies, results, what=f"to replace one {_REPLACE}")
            if wrong is not None:
                return wrong
            version = arena.store.get_versioned(path).version
    return None


def counts_every_increment(arena: Arena) -> str | None:
    """Every acknowledged increment is in the object at the end, none taken for another's."""
    path = arena.path("counter")
    arena.store.put(path, b"")
    ends_at = time.monotonic() + arena.effort.counting_s
    rivals = range(arena.effort.racers)
    acknowledged: list[list[str]] = [[] for _ in rivals]

    def count(racer: int, store: ObjectStore) -> None:
        for number in range(arena.effort.increments):
            increment = f"{racer}.{number}"
            while time.monotonic() < ends_at:
                found = store.get_versioned(path)
                body = found.body + f" {increment}".encode()
                if isinstance(store.put_if_match(path, body, version=found.version), Written):
                    acknowledged[racer].append(increment)
                    break

    arena.race(count)
    expected = {increment for by_racer in acknowledged for increment in by_racer}
    kept = set(arena.store.get(path).decode().split())
    lost = len(expected - kept)
    if lost:
        return f"lost {lost} of {len(expected)} acknowledged updates of one object {_REPLACE}"
    if not kept:
        return f"let no one update an object that {len(rivals)} wanted to update {_REPLACE}"
    return None


def _race_to_create(arena: Arena, path: str) -> str | None:
    tokens = [f"{arena.token}-{racer}" for racer in range(arena.effort.racers)]
    bodies = [f"by {token}".encode() for token in tokens]

    def create(racer: int, store: ObjectStore) -> Written | AlreadyExists:
        return store.put_if_absent(path, bodies[racer], token=tokens[racer])

    results = arena.race(create)
    what = f"to create one object {_CREATE}"
    try:
        return check_race(arena, path, bodies, results, what=what)
    except ObjectNotFoundError:
        return f"an object is missing although concurrent requests {what} were answered"
