"""Cleaning: what is kept of the past, and when a clean is due."""

from __future__ import annotations

from tideline.settings.entries import OFF, flag, harmless, integer, names, refused, word

_POLICIES = ("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS")

SETTINGS = (
    word(
        "hoodie.clean.policy",
        "",
        _POLICIES,
        ", ".join(_POLICIES) + "; the one whose retention is set, else the first",
        aliases=("hoodie.cleaner.policy", "clean.policy"),
    ),
    integer(
        "hoodie.clean.commits.retained",
        10,
        "commits whose snapshots stay readable",
        at_least=1,
        aliases=("hoodie.cleaner.commits.retained", "clean.retain_commits"),
    ),
    integer(
        "hoodie.clean.hours.retained",
        24,
        "hours whose snapshots stay readable",
        aliases=("hoodie.cleaner.hours.retained", "clean.retain_hours"),
    ),
    integer(
        "hoodie.clean.fileversions.retained",
        3,
        "versions kept of each file group",
        at_least=1,
        aliases=("hoodie.cleaner.fileversions.retained", "clean.retain_file_versions"),
    ),
    integer(
        "hoodie.clean.trigger.max.commits",
        1,
        "completed commits until a clean is due",
        at_least=1,
        aliases=("hoodie.clean.max.commits",),
    ),
    integer(
        "hoodie.clean.max.commits.to.clean",
        0,
        "commits that one clean moves on by at most; 0: no limit",
    ),
    flag(
        "hoodie.clean.incremental.enabled",
        "true",
        "look only at partitions written to since the last clean",
        aliases=("hoodie.cleaner.incremental.mode",),
    ),
    flag(
        "hoodie.clean.multiple.enabled",
        "false",
        "plan a clean while another is pending",
        aliases=("hoodie.clean.allow.multiple",),
    ),
    integer(
        "hoodie.write.empty.clean.interval.hours",
        -1,
        "write a clean down although it found nothing, this long after the last; -1: never",
        at_least=-1,
    ),
    names(
        "tideline.clean.pinned.instants",
        "instants, comma-separated, whose snapshot a reader still needs",
    ),
    *refused(
        "cleans are due by commits: set hoodie.clean.trigger.max.commits",
        "hoodie.clean.trigger.strategy",
        unless=("NUM_COMMITS",),
    ),
    *refused(
        "a clean looks at the whole table; leave it out",
        "hoodie.clean.partition.filter.regex",
        aliases=("hoodie.cleaner.partition.filter.regex",),
    ),
    *refused(
        "a clean looks at the whole table; leave it out",
        "hoodie.clean.partition.filter.selected",
        aliases=("hoodie.cleaner.partition.filter.selected",),
    ),
    *refused(
        "bootstrapped tables are read, not cleaned; leave it out",
        "hoodie.clean.delete.bootstrap.base.file",
        unless=OFF,
        aliases=("hoodie.cleaner.delete.bootstrap.base.file",),
    ),
    *harmless(
        "speed of Hudi's own cleaner",
        "hoodie.clean.parallelism",
        "hoodie.cleaner.parallelism",
        "hoodie.clean.optimize.using.local.engine.context",
    ),
)
