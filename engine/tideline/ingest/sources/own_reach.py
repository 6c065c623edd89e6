"""How a process that works for one user reaches sources: with its own environment."""

from __future__ import annotations

import os

from tideline.ingest.locate import locate
from tideline.ingest.location import Location
from tideline.ingest.sources.source import OpenStore, Reach
from tideline.storage.object_store import ObjectStore


def _opened(place: Location) -> ObjectStore:
    return locate(place).open()


def own_reach(open_store: OpenStore = _opened) -> Reach:
    """Never in a process that works for several: those of one must not use those of another."""
    return Reach(open_store, os.environ)
