"""The options of rewriting data files: Iceberg's names, defaults and limits.

`RewriteOptions.parse` takes the mapping of strings that Iceberg's `rewrite_data_files` takes, next
to the strategy and the sort order, which are arguments of their own there too. An option that the
chosen strategy does not use is refused by name, as Iceberg does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Self

from tideline.errors import ConfigError
from tideline.iceberg.metadata.table_property import TARGET_SIZE, TARGET_SIZE_BYTES
from tideline.iceberg.services.option_reader import OptionReader
from tideline.iceberg.services.rewrite_data_files.sort_terms import SortTerm, parse_sort_order
from tideline.settings.small_engine import SMALL_ENGINE, SmallEngine

QUIET_FOR = "tideline.quiet-for-ms"
"""Tideline's own: partitions in which others changed rows in place later than that are left."""
NAME = "rewrite_data_files"
GROUP_SIZE_BYTES_DEFAULT = 100 * 1024 * 1024 * 1024
# A bin-packed file may come out this much larger than its share of the input.
SPLIT_OVERHEAD_BYTES = 5 * 1024


class RewriteStrategy(Enum):
    """How rows are laid out in the new files."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"

    @property
    def shuffles(self) -> bool:
        """Whether rows move between files."""
        return self is not RewriteStrategy.BINPACK


class JobOrder(Enum):
    """Which file groups are rewritten first."""

    BYTES_ASC = "bytes-asc"
    BYTES_DESC = "bytes-desc"
    FILES_ASC = "files-asc"
    FILES_DESC = "files-desc"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """What to rewrite, how, and in how many commits; every default is Iceberg's.

    None for a limit means that there is none; None for `output_spec_id` the table's current spec.
    An empty `sort_terms` with SORT means the table's own sort order.
    """

    strategy: RewriteStrategy = RewriteStrategy.BINPACK
    sort_terms: tuple[SortTerm, ...] = ()
    target_size_bytes: int = TARGET_SIZE_BYTES
    size_bytes_min: int = TARGET_SIZE_BYTES * 3 // 4
    size_bytes_max: int = TARGET_SIZE_BYTES * 9 // 5
    input_files_min: int = 5
    group_size_bytes_max: int = GROUP_SIZE_BYTES_DEFAULT
    group_files_max: int | None = None
    files_max: int | None = None
    rewrite_all: bool = False
    delete_files_threshold: int | None = None
    delete_ratio_threshold: float = 0.3
    output_spec_id: int | None = None
    job_order: JobOrder = JobOrder.NONE
    concurrent_groups_max: int = 5
    partial_progress: bool = False
    commits_max: int = 10
    failed_commits_max: int = 10
    use_starting_sequence_number: bool = True
    remove_dangling_deletes: bool = False
    compression_factor: float = 1.0
    shuffle_partitions_per_file: int = 1
    zorder_bytes_max: int | None = None
    zorder_string_bytes: int = 8
    small_engine: SmallEngine = SmallEngine.IN_PROCESS
    quiet_for_ms: int = 0

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        *,
        properties: Mapping[str, str],
        strategy: str | None = None,
        sort_order: str | None = None,
    ) -> Self:
        """Iceberg's options over the table's `properties`.

        `sort_order` is Iceberg's too: `a DESC NULLS LAST, bucket(4, b)`, or `zorder(a, b)`; it
        implies the strategy. Raises ConfigError naming the option.
        """
        is_zorder, terms = parse_sort_order(sort_order or "")
        chosen = _strategy(strategy, is_zorder=is_zorder, has_terms=bool(terms))
        read = OptionReader(options)
        # Options of other strategies are not asked for, and so refused.
        shuffling = read if chosen.shuffles else OptionReader({})
        curving = read if chosen is RewriteStrategy.ZORDER else OptionReader({})
        default_target = OptionReader(properties).integer(
            TARGET_SIZE, TARGET_SIZE_BYTES, at_least=1
        )
        target = read.integer("target-file-size-bytes", default_target, at_least=1)
        commits_max = read.integer("partial-progress.max-commits", 10, at_least=1)
        parsed = cls(
            strategy=chosen,
            sort_terms=terms,
            target_size_bytes=target,
            size_bytes_min=read.integer("min-file-size-bytes", int(target * 0.75), at_least=0),
            size_bytes_max=read.integer("max-file-size-bytes", int(target * 1.8), at_least=1),
            input_files_min=read.integer("min-input-files", 5, at_least=1),
            group_size_bytes_max=read.integer(
                "max-file-group-size-bytes", GROUP_SIZE_BYTES_DEFAULT, at_least=1
            ),
            group_files_max=read.limit("max-file-group-input-files", at_least=1),
            files_max=read.limit("max-files-to-rewrite", at_least=1),
            rewrite_all=read.switch("rewrite-all", False),
            delete_files_threshold=read.limit("delete-file-threshold", at_least=0),
            delete_ratio_threshold=read.ratio("delete-ratio-threshold", 0.3, at_most=1.0),
            output_spec_id=read.limit("output-spec-id", at_least=0),
            job_order=_job_order(read.text("rewrite-job-order", "none")),
            concurrent_groups_max=read.integer("max-concurrent-file-group-rewrites", 5, at_least=1),
            partial_progress=read.switch("partial-progress.enabled", False),
            commits_max=commits_max,
            failed_commits_max=read.integer(
                "partial-progress.max-failed-commits", commits_max, at_least=0
            ),
            use_starting_sequence_number=read.switch("use-starting-sequence-number", True),
            remove_dangling_deletes=read.switch("remove-dangling-deletes", False),
            compression_factor=shuffling.ratio("compression-factor", 1.0),
            shuffle_partitions_per_file=shuffling.integer(
                "shuffle-partitions-per-file", 1, at_least=1
            ),
            zorder_bytes_max=curving.limit("max-output-size", at_least=1),
            zorder_string_bytes=curving.integer("var-length-contribution", 8, at_least=1),
            small_engine=_small_engine(read.text(SMALL_ENGINE, SmallEngine.IN_PROCESS.value)),
            quiet_for_ms=read.integer(QUIET_FOR, 0, at_least=0),
        )
        read.refuse_others(f"a {chosen.value} rewrite")
        return parsed._checked()

    @property
    def write_size_bytes_max(self) -> int:
        """Where a writer starts another file: room for output that is larger than its input."""
        return int(self.target_size_bytes + (self.size_bytes_max - self.target_size_bytes) * 0.5)

    def outputs_expected(self, input_bytes: int) -> int:
        """How many files that many bytes make, without a small remainder."""
        if self.strategy.shuffles:
            input_bytes = int(input_bytes * self.compression_factor)
        if input_bytes < self.target_size_bytes:
            return 1
        whole, remainder = divmod(input_bytes, self.target_size_bytes)
        rounded_up = whole + (remainder > 0)
        if remainder > self.size_bytes_min:
            return rounded_up
        average_bytes = input_bytes // whole
        bearable = min(1.1 * self.target_size_bytes, float(self.write_size_bytes_max))
        return whole if average_bytes < bearable else rounded_up

    def split_size_bytes(self, input_bytes: int) -> int:
        """How much input becomes one output file."""
        estimate = input_bytes // self.outputs_expected(input_bytes) + SPLIT_OVERHEAD_BYTES
        if estimate < self.target_size_bytes:
            return self.target_size_bytes
        return min(estimate, self.write_size_bytes_max)

    def _checked(self) -> Self:
        if self.size_bytes_min >= self.target_size_bytes:
            raise ConfigError(
                "min-file-size-bytes must be below target-file-size-bytes "
                f"({self.target_size_bytes}): every new file would be too small",
                value=self.size_bytes_min,
            )
        if self.size_bytes_max <= self.target_size_bytes:
            raise ConfigError(
                "max-file-size-bytes must be above target-file-size-bytes "
                f"({self.target_size_bytes}): every new file would be too large",
                value=self.size_bytes_max,
            )
        return self


def _strategy(name: str | None, *, is_zorder: bool, has_terms: bool) -> RewriteStrategy:
    implied = RewriteStrategy.ZORDER if is_zorder else RewriteStrategy.SORT
    if name is None:
        return implied if has_terms else RewriteStrategy.BINPACK
    try:
        strategy = RewriteStrategy(name.strip().lower())
    except ValueError:
        known = ", ".join(candidate.value for candidate in RewriteStrategy)
        raise ConfigError(f"the strategy of a rewrite is one of {known}", value=name) from None
    if strategy is RewriteStrategy.BINPACK and has_terms:
        raise ConfigError("a binpack rewrite takes no sort order")
    if strategy is RewriteStrategy.ZORDER and not has_terms:
        raise ConfigError("a zorder rewrite needs its columns as a sort order: zorder(a, b)")
    if strategy is RewriteStrategy.SORT and is_zorder:
        return RewriteStrategy.ZORDER
    return strategy


def _small_engine(name: str) -> SmallEngine:
    try:
        return SmallEngine(name.lower())
    except ValueError:
        known = " or ".join(engine.value for engine in SmallEngine)
        raise ConfigError(f"{SMALL_ENGINE} is {known}", value=name) from None


def _job_order(name: str) -> JobOrder:
    try:
        return JobOrder(name.lower().replace("_", "-"))
    except ValueError:
        known = ", ".join(job_order.value for job_order in JobOrder)
        raise ConfigError(f"rewrite-job-order is one of {known}", value=name) from None
