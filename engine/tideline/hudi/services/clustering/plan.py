"""Clustering planning: is it due, which partitions, which groups of file slices. Pure.

1. Commits completed since the last clustering, pending or done, are counted.
2. Partitions: selected ones, else those written to since the last clustering, else all; then a
   regular expression; then the filter.
3. Of each partition the newest slices with a small base file, largest first, fill groups up to a
   number of bytes; each group becomes as many files as the target size asks for. There is a limit
   to the groups of a plan: of more than that those are taken that save most for the bytes they
   move, and the others are left for the next plan to look at.
4. A group of one slice is kept only where that gains something or settings say so.

A plan names files by absolute paths, as Hudi does; only their last part is ever used.
Source: Hudi's ClusteringPlanActionExecutor, PartitionAwareClusteringPlanStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import parser
from tideline.errors import CorruptTableError
from tideline.hudi.index.bucket_layout import HAS_BUCKETS
from tideline.hudi.services.clustering.config import (
    LAYOUT_KEY,
    PARTITION_REGEX,
    SORT_COLUMNS_KEY,
    TARGET_BYTES_KEY,
    ClusteringConfig,
    PartitionFilter,
)
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.slice_benefit import benefit_of_rewrite
from tideline.hudi.services.slice_metrics import slice_metrics
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.row_layout import RowLayout
from tideline.hudi.table.settings import compiled_pattern
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import Explanation, NotDue
from tideline.wording import counted

_NO_LOGS = (
    "no file groups to rewrite; those with logs are left alone, because records are merged in a "
    "custom way"
)
_EXECUTION_CLASS = (
    "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
)
_HOURS_PER_DAY = 24


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """Slices of one partition that become `output_groups` new file groups."""

    slices: tuple[FileSlice, ...]
    output_groups: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def partition(self) -> str:
        return self.slices[0].group.partition

    @property
    def size_bytes(self) -> int:
        return sum(file_slice.size_bytes for file_slice in self.slices)

    @property
    def benefit_per_byte(self) -> float:
        """What rewriting it saves readers for each byte that is read, and written as well."""
        size_bytes = self.size_bytes
        benefit = benefit_of_rewrite(
            self.slices, files_after=self.output_groups, bytes_after=size_bytes
        )
        return benefit.benefit_per_byte(2 * size_bytes)


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """The groups to rewrite, and how. `reason` is not part of the stored plan."""

    groups: tuple[ClusteringGroup, ...]
    sort_columns: tuple[str, ...] = ()
    layout: RowLayout = RowLayout.LINEAR
    target_file_bytes: int | None = None
    missing_partitions: tuple[str, ...] = ()
    reason: str = ""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        return tuple(file_slice for group in self.groups for file_slice in group.slices)

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted({group.partition for group in self.groups}))

    def replaced(self) -> Mapping[str, tuple[str, ...]]:
        """The file ids it replaces, by partition."""
        found: dict[str, tuple[str, ...]] = {}
        for file_slice in self.slices:
            known = found.get(file_slice.group.partition, ())
            found[file_slice.group.partition] = (*known, file_slice.group.file_id)
        return found

    def explain(self) -> Explanation:
        """What it touches, saves and costs; rows are expected to keep their bytes."""
        paths = [_paths(file_slice) for file_slice in self.slices]
        size_bytes = sum(file_slice.size_bytes for file_slice in self.slices)
        files_after = sum(group.output_groups for group in self.groups)
        return Explanation(
            self.reason,
            tuple(path for found in paths for path in found),
            bytes_read=size_bytes,
            bytes_written=size_bytes,
            benefit=benefit_of_rewrite(
                self.slices, files_after=files_after, bytes_after=size_bytes
            ),
            details={
                "file groups": str(len(self.slices)),
                "new file groups": str(files_after),
                "groups": str(len(self.groups)),
                "sort columns": ", ".join(self.sort_columns) or "none",
                "layout": self.layout.value if self.sort_columns else "as read",
            },
        )

    def to_avro(self, base_uri: str) -> dict[str, Any]:
        """The HoodieRequestedReplaceMetadata record; `base_uri` is what file paths begin with."""
        params: dict[str, str] = {}
        if self.sort_columns:
            params = {
                SORT_COLUMNS_KEY: ",".join(self.sort_columns),
                LAYOUT_KEY: self.layout.value,
            }
        if self.target_file_bytes is not None:
            params[TARGET_BYTES_KEY] = str(self.target_file_bytes)
        plan = {
            "inputGroups": [_group_to_avro(group, base_uri) for group in self.groups],
            "strategy": {
                "strategyClassName": _EXECUTION_CLASS,
                "strategyParams": params,
                "version": 1,
            },
            "extraMetadata": {},
            "version": 1,
            "preserveHoodieMetadata": True,
            "missingSchedulePartitions": list(self.missing_partitions) or None,
        }
        return {
            "operationType": "CLUSTER",
            "clusteringPlan": plan,
            "extraMetadata": {},
            "version": 1,
        }

    @classmethod
    @parser("a clustering plan lacks a field, or one is wrong")
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> ClusteringPlan:
        """Read a plan of ours or of Hudi's; paths of any scheme.

        Raises CorruptTableError naming `path` when it holds no clustering plan, odd file names or
        odd parameters.
        """
        plan = record.get("clusteringPlan")
        if plan is None:
            raise CorruptTableError(
                "the requested replacecommit holds no clustering plan", path=path
            )
        params = (plan.get("strategy") or {}).get("strategyParams") or {}
        names = (params.get(SORT_COLUMNS_KEY) or "").split(",")
        target = params.get(TARGET_BYTES_KEY)
        try:
            layout = RowLayout(params.get(LAYOUT_KEY) or RowLayout.LINEAR.value)
            target_bytes = None if target is None else int(target)
        except ValueError as error:
            raise CorruptTableError(
                "a parameter of the clustering plan is not understood", path=path, value=error
            ) from error
        return cls(
            tuple(_group_from_avro(group, path) for group in plan.get("inputGroups") or ()),
            tuple(name.strip() for name in names if name.strip()),
            layout,
            target_bytes,
            tuple(plan.get("missingSchedulePartitions") or ()),
        )


def clustering_due(
    facts: DueFacts, config: ClusteringConfig, commits_max: int | None = None
) -> str | NotDue:
    """Why clustering is due, or why not, by the facts of the table.

    `commits_max`: commits that make it due, else those of an inline clustering.
    """
    return find_due(
        facts.timeline,
        config,
        clusterings=facts.clusterings,
        commits_max=commits_max or config.inline_commits_max,
    )


def find_due(
    timeline: ActiveTimeline,
    config: ClusteringConfig,
    *,
    clusterings: frozenset[InstantTime],
    commits_max: int,
) -> str | NotDue:
    """Why clustering is due, or why not. `clusterings` are those pending or completed."""
    if config.has_bucket_index:
        return NotDue(HAS_BUCKETS)
    completed = timeline.of(*COMMIT_ACTIONS).completed()
    last = max(clusterings, default=None)
    commits = len(completed.after(last) if last else completed)
    since = f"since clustering {last}" if last else "since the table began"
    reason = f"{commits} of {counted(commits_max, 'commit')} {since}"
    return reason if commits >= commits_max else NotDue(reason)


def partitions_to_cluster(
    partitions: Iterable[str], config: ClusteringConfig, now: InstantTime
) -> tuple[str, ...]:
    """Those of the partitions that regular expression and filter leave, sorted."""
    kept = sorted(partitions)
    if config.partition_regex:
        pattern = compiled_pattern(PARTITION_REGEX, config.partition_regex)
        kept = [partition for partition in kept if pattern.fullmatch(partition)]
    match config.partition_filter:
        case PartitionFilter.RECENT_DAYS:
            first = config.skip_latest_partitions
            kept = kept[::-1][first : first + config.lookback_partitions]
        case PartitionFilter.SELECTED_PARTITIONS:
            begin, end = config.begin_partition, config.end_partition
            kept = [p for p in kept if (not begin or p >= begin) and (not end or p <= end)]
        case PartitionFilter.DAY_ROLLING:
            hour = now.epoch_ms() // 3_600_000 % _HOURS_PER_DAY
            kept = kept[hour::_HOURS_PER_DAY]
        case PartitionFilter.NONE:
            pass
    return tuple(sorted(kept))


def plan_clustering(
    view: FileSystemView,
    config: ClusteringConfig,
    *,
    reason: str,
    pending_log_compaction: Mapping[FileGroupId, InstantTime] | None = None,
    looked_over: Sequence[str] = (),
    merges_logs: bool = True,
) -> ClusteringPlan | NotDue:
    """Group the slices of a view of the partitions to cluster.

    `looked_over` are partitions that were due to be looked at and filtered out; the next plan looks
    at them again. Where logs cannot be merged, slices that have any are left as they are.
    """
    busy = {**view.pending_compaction, **view.pending_clustering}
    busy |= dict(pending_log_compaction or {})
    groups: list[ClusteringGroup] = []
    missing = set(looked_over)
    for partition in view.partitions:
        latest = view.latest_slices(partition)
        slices = [
            file_slice
            for file_slice in latest
            if file_slice.group not in busy and (merges_logs or not file_slice.log_files)
        ]
        small = [
            file_slice for file_slice in slices if _base_bytes(file_slice) < config.small_file_bytes
        ]
        if len(slices) < len(latest):
            missing.add(partition)
        groups += _groups_of(small, config)
    groups, left = _within_limit(groups, config)
    missing |= {group.partition for group in left}
    if not groups:
        return NotDue("no file groups to rewrite" if merges_logs else _NO_LOGS)
    return ClusteringPlan(
        tuple(groups),
        config.sort_columns,
        config.layout,
        config.target_file_bytes,
        tuple(sorted(missing)),
        reason,
    )


def _within_limit(
    groups: list[ClusteringGroup], config: ClusteringConfig
) -> tuple[list[ClusteringGroup], list[ClusteringGroup]]:
    """The groups of one plan, in their order, and those that are left for the next.

    Where there are more than may be, those are taken that save most for the bytes they move; of
    recent days the first ones.
    """
    ranks = list(range(len(groups)))
    if config.partition_filter is not PartitionFilter.RECENT_DAYS:
        ranks.sort(key=lambda at: groups[at].benefit_per_byte, reverse=True)
    taken = frozenset(ranks[: config.groups_max])
    return (
        [group for at, group in enumerate(groups) if at in taken],
        [group for at, group in enumerate(groups) if at not in taken],
    )


def _groups_of(slices: Iterable[FileSlice], config: ClusteringConfig) -> Iterator[ClusteringGroup]:
    for taken, total_bytes in _filled(slices, config):
        outputs = max(1, -(-total_bytes // config.target_file_bytes))
        gains = len(taken) > 1 or outputs > 1 or config.sort_columns or config.single_groups
        if gains:
            yield ClusteringGroup(
                tuple(taken), outputs, slice_metrics(taken, config.base_file_bytes_max)
            )


def _filled(
    slices: Iterable[FileSlice], config: ClusteringConfig
) -> list[tuple[list[FileSlice], int]]:
    """Slices, largest first, in groups of limited bytes; log bytes do not count, as in Hudi."""
    filled: list[tuple[list[FileSlice], int]] = []
    current: list[FileSlice] = []
    current_bytes = 0
    for file_slice in sorted(slices, key=_base_bytes, reverse=True):
        weight = _base_bytes(file_slice) if file_slice.base_file else config.base_file_bytes_max
        if current and current_bytes + weight > config.group_bytes_max:
            filled.append((current, current_bytes))
            current, current_bytes = [], 0
        current.append(file_slice)
        current_bytes += weight
    if current:
        filled.append((current, current_bytes))
    return filled


def _base_bytes(file_slice: FileSlice) -> int:
    return file_slice.base_file.size_bytes if file_slice.base_file else 0


def _paths(file_slice: FileSlice) -> tuple[str, ...]:
    base = (file_slice.base_file.path,) if file_slice.base_file else ()
    return (*base, *(log.path for log in file_slice.log_files))


def _group_to_avro(group: ClusteringGroup, base_uri: str) -> dict[str, Any]:
    return {
        "slices": [
            {
                "dataFilePath": f"{base_uri}/{file_slice.base_file.path}"
                if file_slice.base_file
                else "",
                "deltaFilePaths": [f"{base_uri}/{log.path}" for log in file_slice.log_files],
                "fileId": file_slice.group.file_id,
                "partitionPath": file_slice.group.partition,
                "bootstrapFilePath": "",
                "version": 1,
            }
            for file_slice in group.slices
        ],
        "metrics": dict(group.metrics),
        "numOutputFileGroups": group.output_groups,
        "extraMetadata": None,
        "version": 1,
    }


def _group_from_avro(record: Mapping[str, Any], path: str) -> ClusteringGroup:
    return ClusteringGroup(
        tuple(_slice_from_avro(item, path) for item in record.get("slices") or ()),
        record.get("numOutputFileGroups") or 1,
        dict(record.get("metrics") or {}),
    )


def _slice_from_avro(record: Mapping[str, Any], path: str) -> FileSlice:
    partition = record.get("partitionPath") or ""
    group = FileGroupId(partition, record.get("fileId") or "")
    base_name = (record.get("dataFilePath") or "").rpartition("/")[2]
    base = BaseFile.parse(partition, base_name) if base_name else None
    names = [name.rpartition("/")[2] for name in record.get("deltaFilePaths") or ()]
    logs = [LogFile.parse(partition, name) for name in names]
    found = tuple(log for log in logs if log is not None)
    if (base_name and base is None) or len(found) < len(names) or not (base or found):
        raise CorruptTableError("a clustering plan names no data file", path=path, value=group)
    instant = base.instant if base else found[0].instant
    rows = tuple(log for log in found if not log.is_cdc)
    changes = tuple(log for log in found if log.is_cdc)
    return FileSlice(group, instant, base, rows, changes)
