"""What keeps rows of a source from being read, as statuses and notes have it. Pure."""

from __future__ import annotations

from tideline.ingest.sources.source import Available

PASSING_MS = 15 * 60_000
"""For so long brokers let a transaction be open unless configured otherwise
(`transaction.max.timeout.ms`): one that is older is not about to end."""


def held_up_words(available: Available, now_ms: int) -> str:
    """Without numbers, so that it stays the same from look to look; empty where all is read, or
    what is not may well be in a moment."""
    return "; ".join(item.words for item in available.held_up(now_ms - PASSING_MS))
