"""Settings of archival, with Hudi's names and defaults (HoodieArchivalConfig)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.hudi.table.settings import Settings

MERGED_BYTES_MAX = 128 * 1024 * 1024
"""Of the files that one merge of a history reads; half of what is read of one metadata object."""

_COUNTING_TRIGGERS = frozenset({"NUM_COMMITS", "NUM_AND_TIME"})


@dataclass(frozen=True, slots=True)
class MergeConfig:
    """When small archive files are merged: `files_min` of them, none above `size_bytes_max`."""

    is_enabled: bool = False
    files_min: int = 10
    size_bytes_max: int = 20_971_520


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """Of an LSM history: how many files become one, below how many bytes together, and how many
    manifests are kept for readers that are behind."""

    files_per_merge: int = 10
    merged_bytes_max: int = MERGED_BYTES_MAX
    manifests_kept: int = 3


@dataclass(frozen=True, slots=True)
class ArchivalConfig:
    """How many completed instants stay, and what may not be archived.

    More than `commits_max` commits are cut down to `commits_min`; cleans and rollbacks likewise,
    each by themselves. `compaction_delta_commits` is how many delta commits the compaction trigger
    counts, None when it does not count. `entries_per_block` is a property of the archive's format;
    `instants_per_portion` go into one archive file, while the lock is held for a few seconds.
    """

    commits_min: int = 20
    commits_max: int = 30
    beyond_savepoint: bool = False
    blocks_on_earliest_retained: bool = False
    compaction_delta_commits: int | None = 5
    entries_per_block: int = 10
    instants_per_portion: int = 500
    merge: MergeConfig = MergeConfig()
    history: HistoryConfig = HistoryConfig()

    def going_on(self) -> ArchivalConfig:
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
            commits_min=commits_min,
            commits_max=commits_max,
            beyond_savepoint=read.boolean("hoodie.archive.beyond.savepoint"),
            blocks_on_earliest_retained=read.boolean("hoodie.archive.block.on.latest.clean.ectr"),
            compaction_delta_commits=delta_commits if trigger in _COUNTING_TRIGGERS else None,
            entries_per_block=read.integer("hoodie.commits.archival.batch"),
            merge=MergeConfig(
                is_enabled=read.boolean("hoodie.archive.merge.enable"),
                files_min=read.integer("hoodie.archive.merge.files.batch.size"),
                size_bytes_max=read.integer("hoodie.archive.merge.small.file.limit.bytes"),
            ),
            history=HistoryConfig(
                files_per_merge=read.integer("hoodie.timeline.compaction.batch.size"),
                merged_bytes_max=min(
                    read.integer("hoodie.timeline.compaction.target.file.max.bytes"),
                    MERGED_BYTES_MAX,
                ),
                manifests_kept=read.integer("hoodie.timeline.manifest.retained.versions"),
            ),
        )
