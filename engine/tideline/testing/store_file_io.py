"""PyIceberg's reads by Tideline's stores: at emulators that its own clients do not reach."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

_PLACE = "tideline.place"
_OPTIONS = "tideline.options"


def properties_of(location: StoreLocation) -> dict[str, str]:
    """Properties of a table at a location, with which PyIceberg reads it so."""
    place = {_PLACE: location.uri, _OPTIONS: json.dumps(dict(location.options))}
    return {"py-io-impl": f"{__name__}.{StoreFileIO.__name__}", **place}


class StoreFileIO(FileIO):
    """Reads below one location; it writes nothing."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(dict(properties))
        location = StoreLocation.of(properties[_PLACE], json.loads(properties[_OPTIONS]))
        self._store = location.open()

    def new_input(self, location: str) -> InputFile:
        return _StoredFile(self._store, location)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: Any) -> None:
        raise NotImplementedError(location)


class _StoredFile(InputFile):
    def __init__(self, store: ObjectStore, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = location.removeprefix(f"{store.uri}/")

    def __len__(self) -> int:
        found = self._store.head(self._path)
        return 0 if found is None else found.size_bytes

    def exists(self) -> bool:
        return self._store.head(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002
        return self._store.open_reader(self._path)
