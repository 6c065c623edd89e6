"""The folders whose files are one table's to delete.

Metadata may name any path, and a metadata file is only as trustworthy as its author. So what
metadata leads to is deleted only below the table's location and the folders that its properties
declare (`write.data.path` and its older names, `write.metadata.path`). A declared folder around the
table's own, or a whole bucket, holds other tables too and counts for nothing. Of a table that was
copied elsewhere only the folder it was opened at counts: the others are the original's. Nor does
one count that is not read (`NamedPlaces`). Of a table in the `data` or `metadata` folder of another
nothing is deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.metadata.data_locations import DATA_PATHS
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import METADATA_PATH
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.local.real_path import real_directory
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import normalised
from tideline.storage.table_around import outermost, place_of, table_around

DECLARING = (
    *DATA_PATHS,
    METADATA_PATH,
)
OUTSIDE = "it lies outside of the table's folders"


@dataclass(frozen=True)
class TableRoots:
    """Folders as places: a store, and the path of the folder in it ("" for the store's root)."""

    io: FileIO
    folders: tuple[tuple[StoreLocation, str], ...]
    _real: dict[StoreLocation, tuple[str, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _around: list[str | None] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, io: FileIO, metadata: TableMetadata) -> TableRoots:
        """The table's location and what its properties declare."""
        own = io.location.uri.rstrip("/")
        is_moved = normalised(io.recorded) != normalised(io.location.uri)
        declared = [metadata.properties.get(name, "") for name in DECLARING]
        folders = [(io.location, "")]
        for uri in filter(None, declared):
            try:
                store, path = io.placed(uri)
            except (CorruptTableError, UnsupportedTableError):
                continue  # a folder that is not read is not deleted from either
            place = f"{store.uri.rstrip('/')}/{path}".rstrip("/")
            is_around = f"{own}/".startswith(f"{place}/")
            if store != io.location and _is_folder(place) and not is_moved and not is_around:
                folders.append((store, path))
        return cls(io, tuple(folders))

    @classmethod
    def below(cls, io: FileIO, locations: Iterable[str]) -> TableRoots:
        """Folders that were asked for by name."""
        return cls(io, tuple(map(io.placed, locations)))

    def around(self) -> str | None:
        """The Iceberg table in whose own folders this one lies, in words."""
        if not self._around:
            place = f"{place_of(*outermost(self.io.location))}/"
            found = table_around(self.io.location, self.io.store_at, itself=False)
            is_in_own = found is not None and place.startswith(
                tuple(f"{found.uri.rstrip('/')}/{folder}/" for folder in ("data", "metadata"))
            )
            self._around.append(str(found) if is_in_own else None)
        return self._around[0]

    def refusal(self, uri: str) -> str | None:
        """Why a file is not the table's to delete; None when it is."""
        try:
            store, path = self.io.placed(uri)
        except UnsupportedTableError:
            return OUTSIDE
        except CorruptTableError as error:
            return error.message
        return next(iter(self._scope(store, "").refusals((path,)).values()), None)

    def remove_many(self, uris: Iterable[str], operation: str) -> None:
        """Delete files, none of them when one is refused.

        Raises CorruptTableError naming the first that is not the table's, and
        StorageUnavailableError.
        """
        paths: dict[StoreLocation, list[str]] = defaultdict(list)
        for uri in uris:
            store, path = self.io.placed(uri)
            paths[store].append(path)
        for store, listed in paths.items():
            self._scope(store, operation).check(listed)
        for store, listed in paths.items():
            self._scope(store, operation).remove_many(listed)

    def _scope(self, location: StoreLocation, operation: str) -> DeleteScope:
        store = self.io.store_at(location)
        folders = self._real_folders(location, store.local_path(""))

        def objection(path: str) -> str | None:
            if self.io.bars.deletes is not None:
                return f"the catalog's property {self.io.bars.deletes} keeps clients from deleting"
            if (around := self.around()) is not None:
                return f"its table lies in the own folders of {around}"
            is_below = any(not folder or path.startswith(f"{folder}/") for folder in folders)
            return None if is_below else OUTSIDE

        return DeleteScope(store, operation, objection)

    def _real_folders(self, location: StoreLocation, local: str | None) -> tuple[str, ...]:
        if location not in self._real:
            folders = (path for root, path in self.folders if root == location)
            self._real[location] = tuple(
                folder if local is None else real_directory(local, folder) for folder in folders
            )
        return self._real[location]


def _is_folder(place: str) -> bool:
    """Whether a place is a folder, and not a whole bucket or machine."""
    scheme, _, rest = place.partition("://")
    return bool(rest.strip("/")) if scheme == "file" else "/" in rest
