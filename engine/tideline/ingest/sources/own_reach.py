"""How a process that works for one user reaches sources: with its own environment."""

from __future__ import annotations

import os

from tideline.ingest.sources.source import OpenStore, Reach


def own_reach(open_store: OpenStore) -> Reach:
    """Never in a process that works for several: those of one must not use those of another."""
    return Reach(open_store, os.environ)
