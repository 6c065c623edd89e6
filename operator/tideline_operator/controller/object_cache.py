"""The objects of one kind as a reflector last saw them, by namespace and name.

Resource versions are compared as numbers, which is what Kubernetes makes them. So the result of a
write of ours can be put in at once, and the watch event that follows changes nothing. The answer to
a write may also come after the event of the object's deletion: it must not bring the object back.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from tideline_operator.api_objects import Manifest
from tideline_operator.controller.work_queue import Key

Trim = Callable[[Manifest], Manifest]

_GONE_MAX = 10_000


def key_of(item: Manifest) -> Key:
    """Namespace and name of an object."""
    metadata = item["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def version_of(item: Manifest) -> int:
    """The resource version as a number; 0 when it is none."""
    text = str(item["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


def condition_of(item: Manifest) -> tuple[object, object]:
    """The parts of a Job or pod that matter to what it carries out."""
    return item.get("status"), item["metadata"].get("deletionTimestamp")


def without_managed_fields(item: Manifest) -> Manifest:
    """The object without managedFields, which is not read here."""
    item["metadata"].pop("managedFields", None)
    return item


class ObjectCache:
    """Objects of one kind, and an index of them by one label."""

    def __init__(self, *, label: str = "", trim: Trim = without_managed_fields) -> None:
        self._label = label
        self._trim = trim
        self._lock = threading.Lock()
        self._items: dict[Key, Manifest] = {}
        self._by_label: dict[Key, dict[Key, Manifest]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        """Uids of the objects that were removed last."""

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Key) -> Manifest | None:
        """One object. Not to be changed."""
        return self._items.get(key)

    def all(self) -> tuple[Manifest, ...]:
        """Every object."""
        with self._lock:
            return tuple(self._items.values())

    def labelled(self, namespace: str, value: str) -> tuple[Manifest, ...]:
        """The objects of a namespace whose label has that value."""
        with self._lock:
            return tuple(self._by_label.get((namespace, value), {}).values())

    def put(self, item: Manifest) -> tuple[bool, Manifest | None]:
        """Store a newer version of an object; whether it was newer, and the version before."""
        with self._lock:
            return self._put(item)

    def put_written(self, item: Manifest) -> None:
        """Store what a write of ours gave, unless the object has been removed since."""
        with self._lock:
            if _uid(item) not in self._gone:
                self._put(item)

    def remove(self, item: Manifest) -> Manifest | None:
        """Remove a deleted object, unless a newer one of its name is known."""
        key = key_of(item)
        with self._lock:
            before = self._items.get(key)
            self._note_gone(item)
            if before is None or _uid(before) != _uid(item):
                return None
            self._drop(key)
            return before

    def replace_all(
        self, items: Iterable[Manifest], *, within: str | None = None
    ) -> list[tuple[Manifest | None, Manifest | None]]:
        """Store a full list, of one namespace if `within` names it.

        Returns what changed as (before, after). The list is taken even where it is older than
        what is known, as after a restore of the server from a backup; the watch brings newer
        versions.
        """
        found = {key_of(item): self._trim(item) for item in items}
        changes: list[tuple[Manifest | None, Manifest | None]] = []
        with self._lock:
            for key in [key for key in self._items if key not in found]:
                if within is None or key[0] == within:
                    changes.append((self._items[key], None))
                    self._note_gone(self._items[key])
                    self._drop(key)
            for key, item in found.items():
                known = self._items.get(key)
                if known is None or version_of(known) != version_of(item):
                    self._store(key, item)
                    changes.append((known, item))
        return changes

    def _put(self, item: Manifest) -> tuple[bool, Manifest | None]:
        key, trimmed = key_of(item), self._trim(item)
        before = self._items.get(key)
        if before is not None:
            known, given = version_of(before), version_of(trimmed)
            if given < known or (given == known and _uid(before) == _uid(trimmed)):
                return False, before
        self._store(key, trimmed)
        return True, before

    def _note_gone(self, item: Manifest) -> None:
        self._gone[_uid(item)] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)

    def _store(self, key: Key, item: Manifest) -> None:
        self._gone.pop(_uid(item), None)
        if key in self._items:
            self._drop(key)
        self._items[key] = item
        value = item["metadata"].get("labels", {}).get(self._label) if self._label else None
        if value:
            self._by_label.setdefault((key[0], value), {})[key] = item

    def _drop(self, key: Key) -> None:
        item = self._items.pop(key)
        value = item["metadata"].get("labels", {}).get(self._label) if self._label else None
        if value:
            group = self._by_label.get((key[0], value), {})
            group.pop(key, None)
            if not group:
                self._by_label.pop((key[0], value), None)


def _uid(item: Manifest) -> str:
    return str(item["metadata"].get("uid"))
