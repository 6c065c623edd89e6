"""One guard before every delete: nothing outside this file removes an object by its raw name.

An operation says what it may delete by making a `DeleteScope` and deletes through it. Before the
first object goes, all of them are checked, in this order, and the first that is refused ends the
operation with an error that names path and reason:

1. The name must be one that a store can hold: no `..`, no empty segment.
2. On a local folder the real path must lie inside the root (`real_path`); what is checked, and
   deleted, is the real path, so that a link is no second name for a file that is needed.
3. Not in a table below the root (`nested`, learned from listings that were made anyway).
4. Not in a `.hoodie` folder, unless it is one of `control`: the objects, or the folders with all
   below them, that this operation is entitled to.
5. The operation's own `objection`: why a path must stay, or None. This is where committed slices,
   savepoints and pending plans come in; it is set membership, no request.

How to use it, from the engine or from the operator:

    scope = DeleteScope(store, "clean 2026...", objection=lambda path: needed.get(path))
    scope.remove_many(paths)      # all or, when one is refused, none
    scope.refusals(paths)         # which are refused and why, to leave those alone and report them

    DeleteScope(store, "rollback", control=(".hoodie/.temp/2026...",)).remove_below(...)

To delete a whole table's folder, list it, find `nested_tables(paths)`, give those as `nested`, the
table's own `.hoodie` as `control`, and as `objection` what is not known to be this table's; then
`refusals` are the files that stay. A test of the project's shape finds every delete that goes
around this file.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.storage.local.real_path import real_path_in
from tideline.storage.nested_tables import is_in_control_folder, root_around
from tideline.storage.object_store import ObjectStore, checked_path
from tideline.wording import counted


def no_objection(path: str) -> str | None:  # noqa: ARG001
    """For paths that the operation itself made up or wrote, and that no other could have named."""
    return None


@dataclass(frozen=True, slots=True)
class DeleteScope:
    """What one operation may delete in one store.

    `operation` is how refusals name it. See the module's text for the rest.
    """

    store: ObjectStore
    operation: str
    objection: Callable[[str], str | None] = no_objection
    control: Container[str] = frozenset()
    nested: Container[str] = frozenset()

    def remove(self, path: str) -> None:
        """Delete one object; one that is not there is fine. Raises as `check`."""
        for real in self.check((path,)):
            self.store.delete(real)

    def remove_many(self, paths: Iterable[str]) -> None:
        """Delete objects, none of them when one is refused. Raises as `check`.

        Died in between: some are gone; the same call deletes the rest.
        """
        allowed = self.check(paths)
        if allowed:
            self.store.delete_many(allowed)

    def remove_below(self, directory: str) -> None:
        """Delete all objects below a folder to which `control` entitles. Raises as `check`."""
        checked_path(directory)
        if root_around(directory, self.control) is None:
            raise self._refused({directory: "a whole folder, to which it is not entitled"})
        self.store.delete_prefix(self.check((directory,))[0])

    def check(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The real paths of what may all be deleted.

        Raises CorruptTableError naming the first path that may not, and the reason.
        """
        checked = {path: self._check(path) for path in paths}
        refused = {path: reason for path, (_, reason) in checked.items() if reason is not None}
        if refused:
            raise self._refused(refused)
        return tuple(real for real, _ in checked.values())

    def refusals(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of the paths that may not be deleted, each with the reason."""
        checked = ((path, self._check(path)[1]) for path in paths)
        return {path: reason for path, reason in checked if reason is not None}

    def _check(self, path: str) -> tuple[str, str | None]:
        """The object's real path, and why it must stay; None when it may be deleted."""
        try:
            real = real_path_in(self.store, checked_path(path))
        except (InvalidDataError, UnsupportedTableError) as error:
            return path, error.message
        root = root_around(real, self.nested)
        if root is not None:
            return real, f"it is in another table, {root!r}"
        if is_in_control_folder(real):
            is_entitled = root_around(real, self.control) is not None
            return real, None if is_entitled else "it is in the control folder of a table"
        return real, self.objection(real)

    def _refused(self, refused: Mapping[str, str]) -> CorruptTableError:
        path, reason = next(iter(refused.items()))
        count = counted(len(refused), "file")
        return CorruptTableError(
            f"{self.operation} would delete {count} that must stay: {reason}; nothing was deleted",
            table=self.store.uri,
            path=path,
        )
