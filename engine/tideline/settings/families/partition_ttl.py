"""Partitions that expire."""

from __future__ import annotations

from tideline.settings.entries import integer, names, refused, word

_STRATEGY = "hoodie.partition.ttl.strategy."

SETTINGS = (
    word(
        f"{_STRATEGY}type",
        "KEEP_BY_TIME",
        ("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"),
        "KEEP_BY_TIME: since the last write; KEEP_BY_CREATION_TIME: since the first",
        aliases=("hoodie.partition.ttl.management.strategy.type",),
    ),
    integer(
        f"{_STRATEGY}days.retain",
        -1,
        "days until a partition is dropped; -1: never",
        at_least=-1,
    ),
    names(
        f"{_STRATEGY}partition.selected", "only these partitions, comma-separated; all, unless set"
    ),
    integer(f"{_STRATEGY}max.delete.partitions", 1000, "dropped at once, at most", at_least=1),
    *refused(
        f"names a Java class, and Tideline runs none; choose by {_STRATEGY}type",
        f"{_STRATEGY}class",
    ),
)
