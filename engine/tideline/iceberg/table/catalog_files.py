"""How PyIceberg's catalogs reach files: metadata alone, through Tideline's own stores.

PyIceberg loads a program by a name that configuration, an answer or a table gives (`py-io-impl`,
`write.py-location-provider.impl`), or picks one by a location's scheme. Classes that are mixed with
`OwnFiles` do neither, whatever the properties say: this is the one place where files come from.
Which ways PyIceberg has, a test compares with those that were looked at.

Needs the extra `iceberg`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from io import BytesIO
from typing import Any, Protocol

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO as CatalogFileIO
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from tideline.bounded.parsing import decompress_bounded, parse_json
from tideline.errors import UnsupportedTableError
from tideline.iceberg.table.strange_types import in_own_words, with_stand_ins
from tideline.iceberg.table.vended_keys import Vended
from tideline.trust.foreign_words import quoted

_SUFFIX = ".metadata.json"
_GZIP = b"\x1f\x8b"
_REQUIRED = ("_load_file_io", "_update_and_stage_table")


class MetadataFiles(Protocol):
    """Reads and writes metadata files by their locations."""

    def check(self, location: str, metadata_location: str) -> None:
        """Raise UnsupportedTableError for a place that the file at `metadata_location` may not
        name."""

    def read(self, location: str) -> bytes:
        """Raises what stores raise, and UnsupportedTableError for a place that is not read."""

    def write(self, location: str, body: bytes) -> None:
        """Stores a new file. Raises as `read`."""


class OwnFiles(Catalog):
    """For catalogs of PyIceberg, before their own class. `files` is None for a catalog without an
    opened table."""

    files: MetadataFiles | None = None

    def _load_file_io(
        self,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002 -- PyIceberg's own method
        location: str | None = None,  # noqa: ARG002
    ) -> CatalogFileIO:
        return OwnFileIO(self.files)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[Any, ...],
        updates: tuple[Any, ...],
    ) -> StagedTable:
        """PyIceberg's own, but for the name of the new metadata file: the table names no program
        that makes it up."""
        if current_table is None:
            # It was dropped or renamed since it was loaded: nothing is made of this change.
            raise NoSuchTableError("the catalog has no such table")
        for requirement in requirements:
            requirement.validate(current_table.metadata)
        metadata = update_table_metadata(
            current_table.metadata, updates, metadata_location=current_table.metadata_location
        )
        version = MetastoreCatalog._parse_metadata_version(current_table.metadata_location) + 1
        provider = SimpleLocationProvider(metadata.location.rstrip("/"), metadata.properties)
        location = provider.new_table_metadata_file_location(version)
        if self.files is not None:
            self.files.check(location, current_table.metadata_location)
        return StagedTable(
            identifier=table_identifier,
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(),
            catalog=self,
        )

    def _table_at(self, identifier: Identifier, location: str) -> Table:
        """The table whose newest metadata file is at `location`."""
        io = self._load_file_io()
        return Table(
            identifier=identifier,
            metadata=FromInputFile.table_metadata(io.new_input(location)),
            metadata_location=location,
            io=io,
            catalog=self,
        )


class OwnFileIO(CatalogFileIO):
    """A FileIO that opens metadata files alone, and nothing without `files`."""

    def __init__(self, files: MetadataFiles | None) -> None:
        super().__init__()
        self._files = files
        self.vended = Vended()
        """What the answer vends that the table was made of."""

    def new_input(self, location: str) -> InputFile:
        return _MetadataInput(location, self._opened(location))

    def new_output(self, location: str) -> OutputFile:
        return _MetadataOutput(location, self._opened(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:  # noqa: ARG002
        raise UnsupportedTableError("a catalog's client deletes no files")

    def _opened(self, location: str) -> MetadataFiles:
        if self._files is None or not location.endswith(_SUFFIX):
            message = "a catalog's client reads nothing but metadata files"
            raise UnsupportedTableError(message, path=quoted(location))
        return self._files


class _MetadataInput(InputFile):
    def __init__(self, location: str, files: MetadataFiles) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files.read(self.location))

    def exists(self) -> bool:
        raise UnsupportedTableError("a catalog's client looks for no files", path=self.location)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002
        """The body, in words that PyIceberg has, once it was seen that it keeps the limits."""
        body, path = self._files.read(self.location), quoted(self.location)
        is_gzip = self.location.endswith(".gz.metadata.json")
        text = decompress_bounded("gzip", body, path=path) if is_gzip else body
        parse_json(text, path=path)
        understood = with_stand_ins(text)
        return BytesIO(gzip.compress(understood) if is_gzip else understood)


class _MetadataOutput(OutputFile):
    def __init__(self, location: str, files: MetadataFiles) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files.read(self.location))

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        return _MetadataInput(self.location, self._files)

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002
        return _Written(self._store)

    def _store(self, body: bytes) -> None:
        is_gzip = body.startswith(_GZIP)
        text = in_own_words(gzip.decompress(body) if is_gzip else body)
        self._files.write(self.location, gzip.compress(text) if is_gzip else text)


class _Written(BytesIO):
    """Stores what was written when it is closed."""

    def __init__(self, store: Callable[[bytes], None]) -> None:
        super().__init__()
        self._store = store

    def __exit__(self, *given: Any) -> None:
        if not given or given[0] is None:
            self._store(self.getvalue())
        super().close()


def check_overridden(base: type, *names: str) -> None:
    """Raise ImportError where PyIceberg's class has no such method any more: then what takes its
    place would never be called."""
    missing = [name for name in names if not callable(getattr(base, name, None))]
    if missing:
        raise ImportError(
            f"this version of PyIceberg is not supported: {base.__name__} has no {missing[0]}"
        )


check_overridden(MetastoreCatalog, *_REQUIRED)
