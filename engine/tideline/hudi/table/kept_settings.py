"""Settings that a table keeps for its writers, and under which names.

Hudi's writers take every entry of `hoodie.properties` as a default, and refuse a table whose entry
differs from what they are given themselves ("Config conflict"). That is right for what a table is,
for what decides its rows and where they lie, and for what concurrent writers must agree on.
Services, sizes and waiting times are each engine's own affair: these are kept under a prefix that
Hudi does not look at.

Source: Hudi's HoodieWriterUtils.validateTableConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.settings.registry import find_setting

PREFIX = "tideline.keeps."

# Parts of names of settings that every engine must take from the table.
_SHARED = (
    "hoodie.metadata.",
    "hoodie.write.concurrency.",
    ".lock.provider",
    "hoodie.clean.failed.writes.policy",
    "hoodie.client.heartbeat.",
    "hoodie.write.complex.keygen.",
    "hoodie.bucket.index.",
    "hoodie.index.bucket.",
    "hoodie.payload.delete.",
    ".index.update.partition.path",
)


def stored_name(name: str) -> str:
    """The entry of `hoodie.properties` that keeps a setting given at creation."""
    return name if _is_shared(name) else PREFIX + name


def own_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The entries of a file, each under its setting's name; what Tideline keeps goes first."""
    plain = {name: text for name, text in properties.items() if not name.startswith(PREFIX)}
    kept = {
        name.removeprefix(PREFIX): text
        for name, text in properties.items()
        if name.startswith(PREFIX)
    }
    return plain | kept


def _is_shared(name: str) -> bool:
    setting = find_setting(name)
    settles = setting is not None and setting.settles_table
    return settles or not name.startswith("hoodie.") or any(part in name for part in _SHARED)
