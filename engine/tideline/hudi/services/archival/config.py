"""Settings of archival, with Hudi's names and defaults (HoodieArchivalConfig)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.hudi.table.settings import Settings, declared

MERGED_BYTES_MAX = 128 * 1024 * 1024
"""Of the files that one merge of a history reads; half of what is read of one metadata object."""

_COUNTING_TRIGGERS = frozenset({"NUM_COMMITS", "NUM_AND_TIME"})


@dataclass(frozen=True, slots=True)
class MergeConfig:
    """When small archive files are merged: `files_min` of them, none above `size_bytes_max`."""

    is_enabled: bool = declared("hoodie.archive.merge.enable")
    files_min: int = declared("hoodie.archive.merge.files.batch.size")
    size_bytes_max: int = declared("hoodie.archive.merge.small.file.limit.bytes")


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """Of an LSM history: how many files become one, below how many bytes together, and how many
    manifests are kept for readers that are behind."""

    files_per_merge: int = declared("hoodie.timeline.compaction.batch.size")
    merged_bytes_max: int = MERGED_BYTES_MAX
    manifests_kept: int = declared("hoodie.timeline.manifest.retained.versions")


@dataclass(frozen=True, slots=True)
class ArchivalConfig:
    """How many completed instants stay, and what may not be archived.

    More than `commits_max` commits are cut down to `commits_min`; in layout 1 cleans and rollbacks
    likewise. `compaction_delta_commits` is how many delta commits the compaction trigger
    counts, None when it does not count. `entries_per_block` is a property of the archive's format;
    `instants_per_portion` go into one archive file, while the lock is held for a few seconds.
    """

    commits_min: int = declared("hoodie.keep.min.commits")
    commits_max: int = declared("hoodie.keep.max.commits")
    beyond_savepoint: bool = declared("hoodie.archive.beyond.savepoint")
    blocks_on_earliest_retained: bool = declared("hoodie.archive.block.on.latest.clean.ectr")
    compaction_delta_commits: int | None = 5
    entries_per_block: int = declared("hoodie.commits.archival.batch")
    instants_per_portion: int = 500
    merge: MergeConfig = MergeConfig()
    history: HistoryConfig = HistoryConfig()

    def resume(self) -> ArchivalConfig:
        """For the next portion of a run, which goes down to the minimum once it has begun."""
        return replace(self, commits_max=self.commits_min)

    @classmethod
    def from_settings(cls, read: Settings) -> ArchivalConfig:
        """Raises ConfigError naming the setting that cannot be read or honoured."""
        commits_min = read.integer("hoodie.keep.min.commits")
        commits_max = read.integer("hoodie.keep.max.commits")
        if commits_max <= commits_min:
            raise ConfigError(
                "hoodie.keep.max.commits must be greater than hoodie.keep.min.commits "
                f"({commits_min})",
                value=commits_max,
            )
        trigger = read.text("hoodie.compact.inline.trigger.strategy").upper()
        delta_commits = read.integer("hoodie.compact.inline.max.delta.commits")
        return cls(
            **read.declared(cls),
            compaction_delta_commits=delta_commits if trigger in _COUNTING_TRIGGERS else None,
            merge=MergeConfig(**read.declared(MergeConfig)),
            history=HistoryConfig(
                **read.declared(HistoryConfig),
                merged_bytes_max=min(
                    read.integer("hoodie.timeline.compaction.target.file.max.bytes"),
                    MERGED_BYTES_MAX,
                ),
            ),
        )
