"""Archival: how many instants stay in the active timeline."""

from __future__ import annotations

from tideline.settings.entries import flag, harmless, integer, refused

SETTINGS = (
    integer(
        "hoodie.keep.min.commits",
        20,
        "archival leaves so many commits; in version 6 cleans and rollbacks likewise",
        at_least=1,
        aliases=("archive.min_commits",),
    ),
    integer(
        "hoodie.keep.max.commits",
        30,
        "above it, commits are archived down to the minimum",
        at_least=1,
        aliases=("archive.max_commits",),
    ),
    flag(
        "hoodie.archive.beyond.savepoint",
        "false",
        "nothing is archived from a savepoint on, for Hudi's readers lose rows then; where it is "
        "true, another writer may have, and no restore is made",
    ),
    flag(
        "hoodie.archive.block.on.latest.clean.ectr",
        "false",
        "archive nothing whose files cleaning retains",
    ),
    integer("hoodie.commits.archival.batch", 10, "instants of a block of an archive", at_least=1),
    flag("hoodie.archive.merge.enable", "false", "merge small archive files into one"),
    integer("hoodie.archive.merge.files.batch.size", 10, "how many", at_least=2),
    integer(
        "hoodie.archive.merge.small.file.limit.bytes",
        20_971_520,
        "and how large they may be, bytes",
        at_least=1,
    ),
    *refused(
        "a run archives all that is due, in portions; leave it out",
        "hoodie.archive.limit.instants",
    ),
    integer(
        "hoodie.timeline.compaction.batch.size",
        10,
        "files of a history (versions 8 and 9) that become one",
        at_least=2,
    ),
    integer(
        "hoodie.timeline.compaction.target.file.max.bytes",
        1_048_576_000,
        "and how large they may be together, bytes; at most 128 MiB count",
        at_least=1,
    ),
    integer(
        "hoodie.timeline.manifest.retained.versions",
        3,
        "versions of a history that readers may be behind",
        at_least=1,
    ),
    *harmless("speed of Hudi's own archival", "hoodie.archive.delete.parallelism"),
)
