"""A source of files as it is declared: the landing prefix, how its files are read, what becomes of
them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tideline.ingest.column_type import Column, columns_object, read_columns
from tideline.ingest.location import Location
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.arrived import FileRange
from tideline.ingest.sources.files.listing import QUARANTINE, FileFormat, FileListing
from tideline.ingest.sources.files.look import list_arrived_after
from tideline.ingest.sources.files.position import KIND, FilesPosition
from tideline.ingest.sources.source import ClaimedPlace, Declared, Position, Reach

_LOCAL = "file://"


@dataclass(frozen=True, slots=True)
class DeclaredFiles:
    """Files of one format below the `landing` prefix, read with Spark's read `options`; `schema`
    are the columns of text files. Those that are moved `after_ingest` go to `moved_to`."""

    kind: ClassVar[str] = KIND
    part: ClassVar[str] = "file"
    content: ClassVar[str] = "files"
    whereabouts: ClassVar[str] = "the landing prefix"
    quarantine: ClassVar[str] = f"{QUARANTINE}/"
    is_read_on_spark: ClassVar[bool] = True
    is_followed: ClassVar[bool] = False
    is_checked_on_spark: ClassVar[bool] = True

    landing: Location
    file_format: FileFormat
    options: Mapping[str, str] = field(default_factory=dict)
    schema: tuple[Column, ...] = ()
    after_ingest: AfterIngest = AfterIngest.KEEP
    moved_to: Location | None = None

    @property
    def uri(self) -> str:
        return self.landing.uri

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.landing,)

    @property
    def server(self) -> None:
        return None

    @property
    def claimed(self) -> tuple[ClaimedPlace, ...]:
        landing = ClaimedPlace(self.landing, "path", is_emptied=self.settles)
        return (landing, *(ClaimedPlace(to, "movedTo") for to in (self.moved_to,) if to))

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.schema

    @property
    def settles(self) -> bool:
        return self.after_ingest is not AfterIngest.KEEP

    def address(self, table_uri: str) -> str:
        return landing_address(self.landing.uri, table_uri)

    def positions(self, reach: Reach, after: Position | None, start: str = "") -> FileListing:
        """What is listed, after the path `start` alone where one is given."""
        known = after if isinstance(after, FilesPosition) else None
        return list_arrived_after(
            reach.open_store(self.landing),
            self.file_format,
            start,
            lambda file: known is not None and known.has_taken(file),
        )

    def takes_from(self, other: Declared) -> bool:
        is_alike = isinstance(other, DeclaredFiles) and other.file_format is self.file_format
        if not (self.settles and is_alike):
            return False
        own, theirs = (place.uri.rstrip("/") + "/" for place in (self.landing, *other.places))
        return own.startswith(theirs) or theirs.startswith(own)

    def with_places(self, moved: Callable[[Location], Location]) -> DeclaredFiles:
        to = self.moved_to
        return replace(
            self, landing=moved(self.landing), moved_to=None if to is None else moved(to)
        )

    def no_range(self) -> FileRange:
        return FileRange()

    def stored(self) -> dict[str, Any]:
        moved_to = None if self.moved_to is None else self.moved_to.to_json_object()
        return {
            "landing": self.landing.to_json_object(),
            "format": self.file_format.value,
            "options": dict(self.options),
            "sourceSchema": columns_object(self.schema),
            "taken": self.after_ingest.value,
            "movedTo": moved_to,
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> DeclaredFiles:
        moved_to = content.get("movedTo")
        return cls(
            landing=Location.from_json_object(content["landing"]),
            file_format=FileFormat(content["format"]),
            options={str(key): str(value) for key, value in content["options"].items()},
            schema=read_columns(content["sourceSchema"]),
            after_ingest=AfterIngest(content.get("taken", AfterIngest.KEEP.value)),
            moved_to=Location.from_json_object(moved_to) if moved_to else None,
        )


def landing_address(landing_uri: str, table_uri: str) -> str:
    """How a checkpoint names a landing prefix: a local folder relative to the table, so that both
    may be moved together; anything else by its URI."""
    if not (landing_uri.startswith(_LOCAL) and table_uri.startswith(_LOCAL)):
        return landing_uri.rstrip("/")
    table = table_uri.removeprefix(_LOCAL)
    return posixpath.relpath(landing_uri.removeprefix(_LOCAL), table)


def landing_uri(address: str, table_uri: str) -> str:
    """The landing prefix that a checkpoint names so, of a table that is here now."""
    if "://" in address:
        return address
    table = table_uri.removeprefix(_LOCAL)
    return _LOCAL + posixpath.normpath(posixpath.join(table, address))
