"""The versions of a table's schema, where Hudi's schema on read made any.

- The newest commit that may change the schema carries the version in force (`latest_schema`).
- All versions are in `.hoodie/.schema/<instant>.schemacommit`, one whole history per commit (in
  timeline layout 2 Hudi names a completion time as well, and asks for none); the newest one counts
  whose commit completed. Hudi looks for it among the active commits alone, so
  every commit writes one; here an archived commit's counts as well.
- Where a writer without schema evolution came last, its commit carries none. Its files use the
  version before, and columns that it added are found by name; the next commit takes both up, as
  Hudi's next writer with schema evolution would.

Source: Hudi's TableSchemaResolver, FileBasedInternalSchemaStorageManager, InternalSchemaCache,
InternalSchemaUtils.searchSchema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tideline.hudi.table.internal_schema import (
    SCHEMA_DIRECTORY,
    InternalSchema,
    InternalStruct,
    parse_history,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.object_store import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

    from tideline.hudi.table.stored_names import StoredNames

OPERATIONS_OF_SERVICES = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX"})
"""What changes no schema (Hudi: WriteOperationType.canUpdateSchema)."""


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """All versions, oldest first, and the one that rows are read or written as.

    `read_as` is mostly the newest one; of a table as it was, or of a service's plan, an older one;
    of a write that changes columns one that is just being made.
    """

    versions: tuple[InternalSchema, ...]
    read_as: InternalSchema

    def at(self, instant: InstantTime) -> InternalSchema:
        """The version in force at an instant: what was written then has its names.

        Before the first version names were those of the first one, as far as there were columns.
        """
        older = (item for item in reversed(self.versions) if str(item.version) <= instant.value)
        return next(older, self.versions[0])

    def names_at(self, instant: InstantTime) -> StoredNames | None:
        """The names that the columns have in a file of an instant; None when their own."""
        # Needs Arrow, and commits that move no rows carry histories on without it.
        from tideline.hudi.table.stored_names import names_in_file

        return names_in_file(self.at(instant), self.read_as)

    def reading(self, schema: pa.Schema, version: InstantTime | None = None) -> SchemaHistory:
        """To read or write the user columns `schema`, added and widened ones among them.

        A change is a version of its own, in force from the instant `version` on.
        """
        from tideline.hudi.table.schema_reconciliation import reconciled

        number = None if version is None else int(version.value)
        return replace(self, read_as=reconciled(self.read_as, schema, number))

    def all_versions(self) -> tuple[InternalSchema, ...]:
        """The versions, and the one that rows are written as."""
        if any(item.version == self.read_as.version for item in self.versions):
            return self.versions
        return tuple(sorted((*self.versions, self.read_as), key=lambda item: item.version))

    def unsettled(self, names: Iterable[str]) -> str | None:
        """One of these columns that did not have its name and id all along, if there is one."""
        return next((name for name in names if not self._is_settled(name)), None)

    def _is_settled(self, name: str) -> bool:
        wanted = _ids_on_the_way(self.read_as.root, name)
        known = [_ids_on_the_way(version.root, name) for version in self.versions]
        added = next((place for place, ids in enumerate(known) if ids is not None), len(known))
        return wanted is not None and all(ids == wanted for ids in known[added:])


def find_versions(
    store: ObjectStore, timeline: ActiveTimeline, is_archived: Callable[[InstantTime], bool]
) -> tuple[InternalSchema, ...]:
    """The versions in the newest history file whose commit completed; empty when there is none.

    Raises CorruptTableError when it cannot be read.
    """
    for time, path in sorted(history_files(store).items(), reverse=True):
        instant = timeline.find(time)
        is_older = timeline.start is not None and time < timeline.start
        if instant is not None and instant.is_completed:
            return parse_history(store.get(path), path=path)
        if instant is None and is_older and is_archived(time):
            return parse_history(store.get(path), path=path)
    return ()


def history_files(store: ObjectStore) -> dict[InstantTime, str]:
    """Paths of all whole history files, by the instant of their commit."""
    found: dict[InstantTime, str] = {}
    for info in store.list_directory(SCHEMA_DIRECTORY).objects:
        times, _, suffix = info.path.rpartition("/")[2].partition(".")
        time = times.partition("_")[0]
        if suffix == Action.SCHEMACOMMIT.value and is_instant_time(time):
            found[InstantTime(time)] = info.path
    return found


def _ids_on_the_way(root: InternalStruct, dotted: str) -> tuple[int, ...] | None:
    """The ids of a column and of the structs around it; None when there is no such column."""
    ids: list[int] = []
    struct: object = root
    for name in dotted.split("."):
        item = struct.field(name) if isinstance(struct, InternalStruct) else None
        if item is None:
            return None
        ids.append(item.id)
        struct = item.type
    return tuple(ids)
