"""The kinds of sources that a LakeTable may declare: a new one has a line in `_RESOLVERS`, and its
type in the field `source` of an ingest (and its kind in `tideline.ingest.sources.kinds`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tideline.ingest.sources.source import Declared
from tideline_operator.resources.sources.files import Source, former_files, resolve_files
from tideline_operator.resources.sources.place_finder import PlaceFinder


@dataclass(frozen=True, slots=True)
class Resolver:
    """Makes a declared source of what a spec says; `former` is where it was before."""

    resolve: Callable[[Any, PlaceFinder], Declared]
    former: Callable[[Any, PlaceFinder], Declared | None]


_RESOLVERS: dict[type, Resolver] = {Source: Resolver(resolve_files, former_files)}


def resolver_of(source: object) -> Resolver:
    """What resolves a source of this kind."""
    return _RESOLVERS[type(source)]
