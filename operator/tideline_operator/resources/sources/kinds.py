"""The kinds of sources that a LakeTable may declare: a new one has a format in `source.py`, and its
kind in `tideline.ingest.sources.kinds`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tideline.ingest.sources.source import Declared
from tideline_operator.resources.sources.files import former_files, resolve_files
from tideline_operator.resources.sources.place_finder import PlaceFinder
from tideline_operator.resources.sources.postgres import resolve_postgres
from tideline_operator.resources.sources.source import Source, SourceFormat
from tideline_operator.resources.sources.topics import resolve_topics


@dataclass(frozen=True, slots=True)
class Resolver:
    """Makes a declared source of what a spec says; `former` is where it was before."""

    resolve: Callable[[Source, PlaceFinder], Declared]
    former: Callable[[Source, PlaceFinder], Declared | None]


_FILES = Resolver(resolve_files, former_files)
_OTHERS = {
    SourceFormat.KAFKA: Resolver(resolve_topics, lambda *_: None),
    SourceFormat.POSTGRES: Resolver(resolve_postgres, lambda *_: None),
}


def resolver_of(source: Source) -> Resolver:
    """What resolves a source of this kind."""
    return _OTHERS.get(source.format, _FILES)
