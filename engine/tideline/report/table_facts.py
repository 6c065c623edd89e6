"""What a page says about a table, collected from properties, timeline, listing and plans.

Nothing is changed, and no data file is opened unless the table is checked as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.check_finding import Finding, Severity
from tideline.errors import TidelineError
from tideline.hudi.capabilities.table_capabilities import merging_text
from tideline.hudi.services.registry import all_services
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.timeline.instant import Instant
from tideline.lake_table import LakeTable
from tideline.report.level import Level
from tideline.report.table_life import Life, read_life
from tideline.services.explanation import Explanation
from tideline.services.run import ServicePlan, in_order
from tideline.wording import counted

CLUSTERING = "clustering"
SMALL_FILE_SETTING = "hoodie.clustering.plan.strategy.small.file.limit"
SMALL_FILE_BYTES = 300 * 1024 * 1024
_BIN_BYTES_MIN = 64 * 1024


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The files of one partition in the newest snapshot. `size_bytes` counts logs as well."""

    path: str
    base_files: int
    small_files: int
    log_files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SizeBin:
    """Base files of `from_bytes` or more and less than twice that. `is_small`: up to the limit."""

    from_bytes: int
    files: int
    is_small: bool


@dataclass(frozen=True, slots=True)
class Pending:
    """An instant that is not complete. `is_dead`: its writer is gone; it is rolled back next."""

    instant: Instant
    is_dead: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Everything on the page. `findings` is None where the table was not checked."""

    name: str
    uri: str
    at_ms: int
    about: Mapping[str, str]
    partitions: tuple[PartitionFiles, ...]
    bins: tuple[SizeBin, ...]
    small_bytes_max: int
    pending: tuple[Pending, ...]
    plans: tuple[ServicePlan, ...]
    unplanned: tuple[str, ...]
    life: Life
    savepoints: tuple[Savepoint, ...]
    findings: tuple[Finding, ...] | None = None
    ingests: tuple[Mapping[str, Any], ...] = ()

    @property
    def due(self) -> tuple[ServicePlan, ...]:
        """The services that are due, in the order in which to run them."""
        return tuple(plan for plan in self.plans if plan.is_due)

    @property
    def base_files(self) -> int:
        return sum(partition.base_files for partition in self.partitions)

    @property
    def small_files(self) -> int:
        return sum(partition.small_files for partition in self.partitions)

    @property
    def log_files(self) -> int:
        return sum(partition.log_files for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    def health(self) -> tuple[Level, str]:
        """How the table is, in a word and in a line."""
        wrong = [finding for finding in self.findings or () if finding.severity is Severity.ERROR]
        dead = sum(1 for pending in self.pending if pending.is_dead)
        problems = [
            text
            for count, text in (
                (len(wrong), f"a check found {counted(len(wrong), 'error')}"),
                (
                    self.life.unreadable,
                    f"{counted(self.life.unreadable, 'instant')} cannot be read",
                ),
                (dead, f"{counted(dead, 'dead write')} to roll back"),
                (len(self.unplanned), "; ".join(self.unplanned)),
            )
            if count
        ]
        if problems:
            return Level.BROKEN, ", ".join(problems)
        if self.due:
            names = ", ".join(plan.service.name for plan in self.due)
            return Level.DUE, f"{names} {'is' if len(self.due) == 1 else 'are'} due"
        alive = counted(len(self.pending), "write") + " under way" if self.pending else ""
        return Level.HEALTHY, (alive or "nothing is due") + self._of_small_files()

    def _of_small_files(self) -> str:
        """Why small files are nothing to worry about."""
        outcome = next(
            (plan.outcome for plan in self.plans if plan.service.name == CLUSTERING), None
        )
        if not self.small_files or outcome is None or isinstance(outcome, Explanation):
            return ""
        number = counted(self.small_files, "small file")
        return f"; {number}, but no clustering: {outcome.reason}"


def facts_of(
    table: LakeTable, *, check: bool = False, ingests: Iterable[Mapping[str, Any]] = ()
) -> TableFacts:
    """Look at a table. With `check` it is checked, too, which reads footers of its files.

    Raises TidelineError when it cannot be listed.
    """
    hoodie = table.hoodie_table
    timeline = table.timeline()
    view = hoodie.files.read_view(timeline)
    slices = {path: tuple(view.latest_slices(path)) for path in view.partitions}
    everything = [file_slice for in_partition in slices.values() for file_slice in in_partition]
    small_bytes_max = _small_bytes(hoodie.config.properties)
    dead = {str(plan.instant) for plan in table.failed_writes()}
    plans, unplanned = _plans(table)
    return TableFacts(
        name=hoodie.config.name or table.uri.rstrip("/").rpartition("/")[2],
        uri=table.uri,
        at_ms=hoodie.clock.now_ms(),
        about=_about(table),
        partitions=tuple(
            partition_files(path, in_partition, small_bytes_max)
            for path, in_partition in slices.items()
        ),
        bins=size_bins(everything, small_bytes_max),
        small_bytes_max=small_bytes_max,
        pending=tuple(
            Pending(instant, str(instant.time) in dead) for instant in timeline.pending()
        ),
        plans=plans,
        unplanned=unplanned,
        life=read_life(hoodie, everything),
        savepoints=table.savepoints(),
        findings=table.check() if check else None,
        ingests=tuple(ingests),
    )


def partition_files(path: str, slices: Sequence[FileSlice], small_bytes_max: int) -> PartitionFiles:
    """A partition's files, counted."""
    sizes = [
        file_slice.base_file.size_bytes for file_slice in slices if file_slice.base_file is not None
    ]
    return PartitionFiles(
        path,
        base_files=len(sizes),
        small_files=sum(1 for size in sizes if size < small_bytes_max),
        log_files=sum(len(file_slice.log_files) for file_slice in slices),
        size_bytes=sum(file_slice.size_bytes for file_slice in slices),
    )


def size_bins(slices: Iterable[FileSlice], small_bytes_max: int) -> tuple[SizeBin, ...]:
    """How many base files there are by size, each bin twice as wide as the one before."""
    counts: dict[tuple[int, bool], int] = {}
    for file_slice in slices:
        if file_slice.base_file is not None:
            size_bytes = file_slice.base_file.size_bytes
            begin = max(_BIN_BYTES_MIN, 1 << max(size_bytes.bit_length() - 1, 0))
            key = (begin if size_bytes >= _BIN_BYTES_MIN else 0, size_bytes < small_bytes_max)
            counts[key] = counts.get(key, 0) + 1
    return tuple(SizeBin(begin, count, small) for (begin, small), count in sorted(counts.items()))


def _plans(table: LakeTable) -> tuple[tuple[ServicePlan, ...], tuple[str, ...]]:
    """The plans of all services in order, and what stands in the way of others."""
    plans, unplanned = [], []
    for service in all_services():
        if service is ROLLBACK:
            continue
        try:
            plans.append(table.plan(service.name))
        except TidelineError as error:
            unplanned.append(f"{service.name} cannot be planned: {error}")
    return in_order(plans), tuple(unplanned)


def _about(table: LakeTable) -> dict[str, str]:
    """What the table is."""
    config = table.hoodie_table.config
    facts = {
        "type": str(config.table_type).lower().replace("_", "-"),
        "version": str(config.version),
        "record key": ", ".join(config.record_key_fields),
        "partitions by": ", ".join(config.partition_fields),
        "ordering": ", ".join(config.ordering_fields),
        "merge mode": str(merging_text(config)),
    }
    return {name: text for name, text in facts.items() if text}


def _small_bytes(properties: Mapping[str, str]) -> int:
    text = properties.get(SMALL_FILE_SETTING, "")
    return int(text) if text.isdecimal() else SMALL_FILE_BYTES
