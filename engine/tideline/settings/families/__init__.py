"""The settings, a module for each family of them, in the order of the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.settings.families import (
    after_commit,
    archival,
    catalogs,
    cleaning,
    clustering,
    compaction,
    engine_tuning,
    files,
    index,
    keys,
    merging,
    metadata,
    other_writers,
    partition_ttl,
    reading,
    table,
    writers,
    writing,
)
from tideline.settings.setting import Setting


@dataclass(frozen=True, slots=True)
class Family:
    """Settings about one thing; `key` names their tables in docs/configuration.md."""

    key: str
    settings: tuple[Setting, ...]


ALL_FAMILIES = (
    Family("table", table.SETTINGS),
    Family("keys", keys.SETTINGS),
    Family("index", index.SETTINGS),
    Family("write", writing.SETTINGS),
    Family("files", files.SETTINGS),
    Family("merging", merging.SETTINGS),
    Family("writers", writers.SETTINGS),
    Family("after-commit", after_commit.SETTINGS),
    Family("compaction", compaction.SETTINGS),
    Family("clustering", clustering.SETTINGS),
    Family("cleaning", cleaning.SETTINGS),
    Family("partition-ttl", partition_ttl.SETTINGS),
    Family("archival", archival.SETTINGS),
    Family("metadata", metadata.SETTINGS),
    Family("reading", reading.SETTINGS),
    Family("engine", engine_tuning.SETTINGS),
    Family("catalogs", catalogs.SETTINGS),
    Family("other-writers", other_writers.SETTINGS),
)
