"""Which partitions have expired: a pure function of how old each is.

By KEEP_BY_TIME a partition is as old as its newest file slice, by KEEP_BY_CREATION_TIME as its
partition metadata; in a merge-on-read table appending to logs begins no new slice. A partition
under a pending compaction or clustering is left for the next time. The oldest go first.
Source: Hudi's KeepByTimeStrategy, KeepByCreationTimeStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import AGE_UNKNOWN, KNOWN_UTC, KnownZone
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.wording import counted

NO_PARTITIONS = "the table has no partitions"
_KEPT_FOREVER = "partitions are kept forever (hoodie.partition.ttl.strategy.days.retain)"
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PartitionAge:
    """One partition that holds data.

    `since` is when its days began to count, None when that is not known; `paths` and `size_bytes`
    are those of its latest files, `benefit` is what readers save once these are gone.
    """

    partition: str
    since: InstantTime | None
    is_busy: bool = False
    paths: tuple[str, ...] = ()
    size_bytes: int = 0
    benefit: Benefit = NO_BENEFIT


@dataclass(frozen=True, slots=True)
class PartitionTtlPlan:
    """The partitions to drop, oldest first."""

    expired: tuple[PartitionAge, ...]
    days_retained: int
    left: int = 0
    """How many more have expired than one run may drop."""

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(age.partition for age in self.expired))

    def explain(self) -> Explanation:
        """Why, what and how much; the files themselves are deleted by a later clean."""
        return Explanation(
            f"{counted(len(self.expired), 'partition')} older than "
            f"{counted(self.days_retained, 'day')}",
            paths=tuple(path for age in self.expired for path in age.paths),
            bytes_deleted=sum(age.size_bytes for age in self.expired),
            benefit=sum((age.benefit for age in self.expired), NO_BENEFIT),
            details={
                "partitions": ",".join(self.partitions),
                "left_for_next_time": str(self.left),
            },
        )


def find_due(facts: DueFacts, config: PartitionTtlConfig) -> Due | NotDue:
    """Whether it is worth looking for partitions that have expired; how old they are, files say."""
    if config.days_retained is None:
        return NotDue(_KEPT_FOREVER)
    if not facts.is_partitioned:
        return NotDue(NO_PARTITIONS)
    if not facts.zone.knows_age:
        return NotDue(AGE_UNKNOWN)
    if not len(facts.timeline.of(*COMMIT_ACTIONS).completed()):
        return NotDue("nothing has been written yet")
    return Due("partitions are checked once a day")


def plan_partition_ttl(
    ages: Iterable[PartitionAge],
    config: PartitionTtlConfig,
    now_ms: int,
    known: KnownZone = KNOWN_UTC,
) -> PartitionTtlPlan | NotDue:
    """The partitions to drop now, or why there are none; `known` is the zone of the instants."""
    if config.days_retained is None:
        return NotDue(_KEPT_FOREVER)
    if not known.knows_age:
        return NotDue(AGE_UNKNOWN)
    oldest_ms = now_ms - config.days_retained * _DAY_MS
    dated = [(known.zone.epoch_ms(age.since), age) for age in ages if age.since is not None]
    expired = sorted(
        (item for item in dated if item[0] <= oldest_ms),
        key=lambda item: (item[0], item[1].partition),
    )
    free = [age for _, age in expired if not age.is_busy]
    if expired and not free:
        partitions = counted(len(expired), "expired partition")
        return NotDue(f"{partitions} under a pending service")
    if not free:
        age = counted(config.days_retained, "day")
        return NotDue(f"no partition is older than {age}")
    chosen = tuple(free[: config.partitions_max])
    return PartitionTtlPlan(chosen, config.days_retained, len(free) - len(chosen))
