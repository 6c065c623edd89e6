"""A source of files with its places."""

from __future__ import annotations

from tideline.ingest.column_type import Column
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline_operator.resources.sources.place_finder import PlaceFinder
from tideline_operator.resources.sources.source import Source


def resolve_files(source: Source, places: PlaceFinder) -> DeclaredFiles:
    """The source with its places. Raises ConfigError naming the field."""
    landing = places.find(source.path, source.store_ref, "path")
    places.keep_apart("path", source.path, landing)
    moved_to = None
    if source.moved_to is not None:
        moved_to = places.find(source.moved_to, source.store_ref, "movedTo")
        places.keep_apart("movedTo", source.moved_to, moved_to, (landing, "the landing prefix"))
        if moved_to.uri.partition("://")[0] != landing.uri.partition("://")[0]:
            message = "files are moved within one store: write a path like that of source.path"
            raise places.refuse("movedTo", message)
    return DeclaredFiles(
        landing,
        source.format.of_files,
        options=dict(source.options),
        schema=columns_of(source),
        after_ingest=source.taken,
        moved_to=moved_to,
    )


def former_files(source: Source, places: PlaceFinder) -> DeclaredFiles | None:
    """Where the source was before it was moved; None where it was not."""
    if source.moved_from is None:
        return None
    landing = places.find(source.moved_from, source.store_ref, "movedFrom")
    return DeclaredFiles(landing, source.format.of_files)


def columns_of(source: Source) -> tuple[Column, ...]:
    """Those that the spec gives the source."""
    return tuple(Column(column.name, column.type, column.nullable) for column in source.schema)
