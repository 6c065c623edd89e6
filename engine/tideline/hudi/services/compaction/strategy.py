"""Compaction strategies: which partitions are looked at, which operations are taken, in what order.

Pure. Source: Hudi's package org.apache.hudi.table.action.compact.strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from tideline.errors import ConfigError
from tideline.hudi.services.compaction.config import CompactionConfig, StrategyKind
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.services.slice_metrics import TOTAL_IO_MB, TOTAL_LOG_FILES, TOTAL_LOG_FILES_SIZE
from tideline.hudi.table.settings import compiled_pattern
from tideline.hudi.timeline.instant_time import InstantTime

_DATE_FORMAT = "%Y/%m/%d"
_BY_DAY = frozenset({StrategyKind.DAY, StrategyKind.RECENT_DAYS, StrategyKind.OLDER_DAYS})
_IO_BOUND = frozenset(
    {
        StrategyKind.LOG_FILE_SIZE,
        StrategyKind.LOG_FILE_COUNT,
        StrategyKind.BOUNDED_IO,
        StrategyKind.DAY,
    }
)


def keep_partitions(
    partitions: Iterable[str], config: CompactionConfig, now: InstantTime
) -> tuple[str, ...]:
    """The partitions that all strategies look at, in their order.

    Raises ConfigError when a strategy by day meets a partition that is no date.
    """
    kept = list(partitions)
    for kind in config.strategies:
        kept = _partitions_of(kind, kept, config, now)
    return tuple(kept)


def take_operations(
    operations: Iterable[CompactionOperation], config: CompactionConfig, now: InstantTime
) -> tuple[CompactionOperation, ...]:
    """The operations one compaction takes, most urgent first.

    Where a limit leaves some out and no strategy says which, those that save most for the bytes
    they move are taken.
    """
    taken = list(operations)
    if not _IO_BOUND.isdisjoint(config.strategies):
        taken.sort(key=lambda item: item.benefit_per_byte, reverse=True)
    for kind in config.strategies:
        taken = _taken_by(kind, taken, config, now)
    return tuple(taken)


def _partitions_of(
    kind: StrategyKind, partitions: Sequence[str], config: CompactionConfig, now: InstantTime
) -> list[str]:
    if kind is StrategyKind.PARTITION_REGEX:
        pattern = compiled_pattern("hoodie.compaction.partition.path.regex", config.partition_regex)
        return [partition for partition in partitions if pattern.search(partition)]
    if kind not in _BY_DAY:
        return list(partitions)
    newest_first = sorted(partitions, key=_day, reverse=True)
    if kind is StrategyKind.DAY:
        return newest_first[: config.partitions_max]
    first = _first_day(config, now)
    is_recent = kind is StrategyKind.RECENT_DAYS
    return [partition for partition in newest_first if (_day(partition) >= first) is is_recent]


def _taken_by(
    kind: StrategyKind,
    operations: Sequence[CompactionOperation],
    config: CompactionConfig,
    now: InstantTime,
) -> list[CompactionOperation]:
    taken = list(operations)
    if kind is StrategyKind.LOG_FILE_SIZE:
        taken = _largest(taken, TOTAL_LOG_FILES_SIZE, config.log_bytes_min)
    elif kind is StrategyKind.LOG_FILE_COUNT:
        taken = _largest(taken, TOTAL_LOG_FILES, config.log_files_min)
    elif kind in _BY_DAY or kind is StrategyKind.PARTITION_REGEX:
        partitions = list(dict.fromkeys(item.group.partition for item in taken))
        rank = {p: n for n, p in enumerate(_partitions_of(kind, partitions, config, now))}
        taken = [item for item in taken if item.group.partition in rank]
        if kind in _BY_DAY:
            taken.sort(key=lambda item: rank[item.group.partition])
    return _within_io(taken, config.io_mb_max) if kind in _IO_BOUND else taken


def _largest(
    operations: Iterable[CompactionOperation], metric: str, least: float
) -> list[CompactionOperation]:
    kept = [item for item in operations if item.metrics.get(metric, 0.0) >= least]
    return sorted(kept, key=lambda item: item.metrics.get(metric, 0.0), reverse=True)


def _within_io(
    operations: Iterable[CompactionOperation], io_mb_max: float
) -> list[CompactionOperation]:
    """The first ones; the last of them may go beyond the limit, as in Hudi."""
    taken, left_mb = [], float(io_mb_max)
    for item in operations:
        if left_mb <= 0:
            break
        left_mb -= item.metrics.get(TOTAL_IO_MB, 0.0)
        taken.append(item)
    return taken


def _first_day(config: CompactionConfig, now: InstantTime) -> date:
    today = datetime.fromtimestamp(now.epoch_ms() / 1000, UTC).date()
    return today - timedelta(days=config.partitions_max)


def _day(partition: str) -> date:
    """The date a partition path spells, hive-style names aside."""
    levels = (level.partition("=")[2] or level for level in partition.split("/"))
    text = "/".join(levels)
    try:
        return datetime.strptime(text, _DATE_FORMAT).replace(tzinfo=UTC).date()
    except ValueError:
        raise ConfigError(
            "a compaction strategy by day needs partitions like yyyy/MM/dd", value=partition
        ) from None
