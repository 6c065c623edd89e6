"""Tables in memory for PyIceberg: what `MemoryStore` holds, as its FileIO; it reads and no more."""

from __future__ import annotations

from typing import cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from tideline.storage.location import StoreLocation

PROPERTIES = {"py-io-impl": f"{__name__}.MemoryFileIO"}
"""Of a table or catalog whose files are in memory."""


class MemoryFileIO(FileIO):
    """See `pyiceberg.io.FileIO`."""

    def new_input(self, location: str) -> InputFile:
        return _MemoryFile(location)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(f"{location}: tables in memory are only read")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(f"{location}: tables in memory are only read")


class _MemoryFile(InputFile):
    def __init__(self, location: str) -> None:
        super().__init__(location)
        name, _, self._path = location.removeprefix("memory://").partition("/")
        self._store = StoreLocation.of(f"memory://{name}").open()

    def __len__(self) -> int:
        info = self._store.head(self._path)
        if info is None:
            raise FileNotFoundError(self.location)
        return info.size_bytes

    def exists(self) -> bool:
        return self._store.head(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002
        if not self.exists():
            raise FileNotFoundError(self.location)
        return cast(InputStream, self._store.open_reader(self._path))
