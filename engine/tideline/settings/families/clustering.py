"""Clustering: when it is due, what it takes, how it lays rows out."""

from __future__ import annotations

from tideline.settings.entries import OFF, flag, harmless, integer, names, refused, text, word
from tideline.settings.setting import Setting

_PLAN = "hoodie.clustering.plan.strategy."
_FLINK = "clustering.plan.strategy."
_FILTERS = ("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING")


def _text(suffix: str, default: str, sentence: str) -> Setting:
    return text(_PLAN + suffix, default, sentence, aliases=(_FLINK + suffix,))


SETTINGS = (
    integer(
        "hoodie.clustering.inline.max.commits",
        4,
        "commits that make it due where a write runs it",
        at_least=1,
    ),
    integer(
        "hoodie.clustering.async.max.commits",
        4,
        "commits that make it due where a write only plans it",
        at_least=1,
        aliases=("clustering.delta_commits",),
    ),
    text(
        f"{_PLAN}class",
        "SparkSizeBasedClusteringPlanStrategy",
        "that class, or SparkRecentDaysClusteringPlanStrategy, "
        "SparkSelectedPartitionsClusteringPlanStrategy",
    ),
    integer(f"{_PLAN}small.file.limit", 314_572_800, "only base files below are rewritten"),
    integer(f"{_PLAN}max.bytes.per.group", 2_147_483_648, "bytes of a group of a plan", at_least=1),
    integer(
        f"{_PLAN}max.num.groups",
        30,
        "groups of a plan",
        at_least=1,
        aliases=(f"{_FLINK}max.num.groups",),
    ),
    integer(
        f"{_PLAN}target.file.max.bytes",
        1_073_741_824,
        "size of new files",
        at_least=1,
        aliases=(f"{_FLINK}target.file.max.bytes",),
    ),
    names(
        f"{_PLAN}sort.columns",
        "columns to sort by",
        aliases=(f"{_FLINK}sort.columns",),
    ),
    word(
        "hoodie.layout.optimize.strategy",
        "LINEAR",
        ("LINEAR", "ZORDER", "HILBERT", "Z-ORDER"),
        "LINEAR, ZORDER, HILBERT",
    ),
    word(
        "hoodie.clustering.plan.partition.filter.mode",
        "NONE",
        _FILTERS,
        ", ".join(_FILTERS),
        aliases=("clustering.plan.partition.filter.mode",),
    ),
    integer(
        f"{_PLAN}daybased.lookback.partitions",
        2,
        "of RECENT_DAYS: so many partitions",
        aliases=(f"{_FLINK}daybased.lookback.partitions",),
    ),
    integer(
        f"{_PLAN}daybased.skipfromlatest.partitions",
        0,
        "of RECENT_DAYS: but not so many of the newest",
        aliases=(f"{_FLINK}daybased.skipfromlatest.partitions",),
    ),
    _text("cluster.begin.partition", "", "of SELECTED_PARTITIONS: from here"),
    _text("cluster.end.partition", "", "of SELECTED_PARTITIONS: to here"),
    names(
        f"{_PLAN}partition.selected",
        "only these partitions; all, unless set",
        aliases=(f"{_FLINK}partition.selected",),
    ),
    _text("partition.regex.pattern", "", "only partitions that match"),
    flag(f"{_PLAN}single.group.clustering.enabled", "true", "rewrite a file group that is alone"),
    *refused(
        "names a Java class, and Tideline runs none; rows are sorted and sized",
        "hoodie.clustering.execution.strategy.class",
        unless=("SparkSortAndSizeExecutionStrategy",),
    ),
    *refused(
        "choose by hoodie.layout.optimize.strategy, with the columns in "
        "hoodie.clustering.plan.strategy.sort.columns",
        "hoodie.layout.optimize.enable",
        unless=OFF,
    ),
    *refused(
        "values are put on the curve by themselves, not by samples; leave it out",
        "hoodie.layout.optimize.curve.build.method",
        unless=("DIRECT",),
    ),
    *harmless(
        "belongs to curves built by samples, which are refused",
        "hoodie.layout.optimize.build.curve.sample.size",
    ),
    *harmless(
        "of readers; Hudi ignores it as well",
        "hoodie.layout.optimize.data.skipping.enable",
    ),
    *refused(
        "file groups are taken by size; select partitions to take fewer",
        f"{_PLAN}file.slices.sort.by",
        unless=("SIZE",),
    ),
    *refused(
        "select partitions to take fewer; leave it out",
        f"{_PLAN}earliest.commit.to.cluster",
    ),
    *refused(
        "rows are read and rewritten; leave it out",
        f"{_PLAN}binary.copy.schema.evolution.enable",
        unless=OFF,
    ),
    *refused(
        "a pending clustering stays until it is run or withdrawn (hoodie.clustering."
        "rollback.pending.replacecommit.on.conflict); leave it out",
        "hoodie.clustering.enable.expirations",
        unless=OFF,
    ),
    *harmless(
        "belongs to clusterings that expire, which are refused",
        "hoodie.clustering.expiration.threshold.mins",
    ),
    *harmless(
        "speed of Hudi's own clustering; Spark's settings decide here",
        "hoodie.clustering.group.read.parallelism",
        "hoodie.clustering.max.parallelism",
        "hoodie.clustering.plan.generation.use.local.engine.context",
    ),
)
