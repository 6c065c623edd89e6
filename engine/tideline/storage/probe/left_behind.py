"""What checks of a store left behind: those whose process died in the middle.

A check works in a folder of its own below `.tideline-check-store`. The next check removes what

- an earlier one of the same owner left: an owner checks a place once at a time;
- anybody left, when its newest object is older than a check lasts, by the store's own times.

What is not named as a check names its folder stays.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tideline.errors import TidelineError
from tideline.storage.object_store import ObjectStore
from tideline.storage.probe.race import Arena

CHECKS_FOLDER = ".tideline-check-store"
LASTS_MS_MAX = 15 * 60 * 1000
"""No check lasts that long."""
_STARTED = "started"
_OF_A_CHECK = re.compile(rf"{re.escape(CHECKS_FOLDER)}/(?:[^/]+@)?[0-9a-f]{{32}}")


def check_folder(owner: str, token: str) -> str:
    """Where a check works; `owner` is a name, or empty for one that others may make at the same
    time. `token` is a UUID in hexadecimal."""
    return f"{CHECKS_FOLDER}/{_prefix(owner)}{token}"


def remove_left_behind(arena: Arena, owner: str) -> None:
    """Remove what earlier checks left at this place. Never fails: the check itself says what a
    store does not do."""
    with suppress(TidelineError):
        arena.store.put(arena.path(_STARTED), arena.token.encode())
        newest_ms = _newest_ms(arena.store)
        now_ms = newest_ms.pop(arena.folder, 0)
        mine = f"{CHECKS_FOLDER}/{_prefix(owner)}" if owner else None
        for folder, at_ms in newest_ms.items():
            is_mine = mine is not None and folder.startswith(mine)
            if is_mine or at_ms < now_ms - LASTS_MS_MAX:
                arena.store.delete_prefix(folder)


def remove_own(arena: Arena) -> None:
    """Remove all that a check wrote, regardless of what a listing shows."""
    arena.store.delete_many(sorted(arena.paths))
    arena.store.delete_prefix(arena.folder)
    parent = arena.store.local_path(CHECKS_FOLDER)
    if parent is not None:
        # Unless another check is under way.
        with suppress(OSError):
            Path(parent).rmdir()


def _prefix(owner: str) -> str:
    return f"{owner}@" if owner else ""


def _newest_ms(store: ObjectStore) -> dict[str, int]:
    """When each check's folder was last written to."""
    newest_ms: dict[str, int] = {}
    for found in store.list(CHECKS_FOLDER):
        folder = "/".join(found.path.split("/", 2)[:2])
        if _OF_A_CHECK.fullmatch(folder):
            newest_ms[folder] = max(newest_ms.get(folder, 0), found.modified_ms)
    return newest_ms
