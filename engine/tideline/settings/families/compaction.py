"""Compaction and log compaction: when they are due, what they take."""

from __future__ import annotations

from tideline.settings.entries import OFF, harmless, integer, refused, text, word

_TRIGGERS = (
    "NUM_COMMITS",
    "NUM_COMMITS_AFTER_LAST_REQUEST",
    "TIME_ELAPSED",
    "NUM_AND_TIME",
    "NUM_OR_TIME",
)

SETTINGS = (
    word(
        "hoodie.compact.inline.trigger.strategy",
        "NUM_COMMITS",
        _TRIGGERS,
        ", ".join(_TRIGGERS),
        aliases=("compaction.trigger.strategy",),
    ),
    integer(
        "hoodie.compact.inline.max.delta.commits",
        5,
        "delta commits that make it due",
        at_least=1,
        aliases=("compaction.delta_commits",),
    ),
    integer(
        "hoodie.compact.inline.max.delta.seconds",
        3600,
        "seconds that make it due",
        aliases=("compaction.delta_seconds",),
    ),
    text(
        "hoodie.compaction.strategy",
        "org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy",
        "Hudi's strategy classes, comma-separated, applied one after another",
    ),
    integer(
        "hoodie.compaction.target.io",
        512_000,
        "megabytes one compaction reads and writes",
        aliases=("compaction.target_io",),
    ),
    integer("hoodie.compaction.logfile.size.threshold", 0, "least log bytes of a file group"),
    integer("hoodie.compaction.logfile.num.threshold", 0, "least log files of a file group"),
    integer("hoodie.compaction.daybased.target.partitions", 10, "partitions of strategies by day"),
    text(
        "hoodie.compaction.partition.path.regex",
        "",
        "partitions of the strategy by regular expression",
    ),
    integer(
        "hoodie.log.compaction.blocks.threshold",
        5,
        "log files or blocks of a slice, and delta commits, that make a log compaction due",
        at_least=1,
    ),
    *refused(
        "set hoodie.log.compaction.inline, or run the service from outside",
        "hoodie.log.compaction.enable",
        unless=OFF,
    ),
    *refused(
        "names a Java class, and Tideline runs none; choose by hoodie.compaction.strategy",
        "hoodie.compaction.plan.generator",
    ),
    *harmless(
        "how Hudi reads log files; the rows are the same",
        "hoodie.compaction.lazy.block.read",
        "hoodie.compaction.reverse.log.read",
    ),
)
