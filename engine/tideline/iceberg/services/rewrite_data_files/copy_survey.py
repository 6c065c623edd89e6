"""What a planned rewrite will copy, transcode or re-encode, and why: for dry runs.

The footers of files that may have row groups to copy are read, a few at a time; small files are not
opened. Files with position deletes count as encoded here: which of their row groups no position is
deleted from, and are copied after all, is only known once the deletes are read. Needs no Arrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tideline.iceberg.data.copy_rules import CopyRules, Treatment
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.row_lineage import fields_with_lineage, has_lineage
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup, RewritePlan
from tideline.iceberg.services.rewrite_data_files.stored_file import open_stored, reason_to_encode
from tideline.iceberg.table.file_io import FileIO

_FOOTERS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a group's bytes; `row_groups` counts those of files that were opened."""

    size_bytes: int
    row_groups: int

    def json(self) -> dict[str, int]:
        """For machines."""
        return {"row_groups": self.row_groups, "bytes": self.size_bytes}


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    """What becomes of the bytes of one file group."""

    shares: Mapping[Treatment, Share]

    @property
    def copied(self) -> Share:
        return self.shares.get(Treatment.COPIED, Share(0, 0))

    @property
    def transcoded(self) -> Share:
        return self.shares.get(Treatment.TRANSCODED, Share(0, 0))

    @property
    def encoded_because(self) -> tuple[Treatment, ...]:
        """Reasons to encode, the one for most bytes first."""
        reasons = (share for share in self.shares if not share.keeps_values)
        return tuple(sorted(reasons, key=lambda reason: -self.shares[reason].size_bytes))

    def json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "copied": self.copied.json(),
            "transcoded": self.transcoded.json(),
            "encoded": [
                {"reason": treatment.value, "bytes": self.shares[treatment].size_bytes}
                for treatment in self.encoded_because
            ],
        }


def survey_groups(
    io: FileIO, metadata: TableMetadata, options: RewriteOptions, plan: RewritePlan
) -> list[GroupSurvey]:
    """One for each group of a plan. Raises ObjectNotFoundError, StorageUnavailableError,
    ConfigError, UnsupportedTableError."""
    if not plan.groups:
        return []
    schema = metadata.schema()
    rules = CopyRules.of(
        fields_with_lineage(schema.fields, has_lineage=has_lineage(metadata)),
        ParquetSettings.of(metadata.properties, schema),
        MetricsConfig.of(metadata.properties, schema, metadata.sort_order()),
    )
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        return [_survey(io, metadata, rules, options, group, pool) for group in plan.groups]


def _survey(
    io: FileIO,
    metadata: TableMetadata,
    rules: CopyRules,
    options: RewriteOptions,
    group: FileGroup,
    pool: ThreadPoolExecutor,
) -> GroupSurvey:
    reason = _reason_of_group(metadata, options, group)
    if reason is not None:
        return GroupSurvey({reason: Share(group.input_bytes, 0)})
    size_bytes: Counter[Treatment] = Counter()
    row_groups: Counter[Treatment] = Counter()
    for found in pool.map(lambda task: list(_shares(io, rules, task)), group.tasks):
        for treatment, share in found:
            size_bytes[treatment] += share.size_bytes
            row_groups[treatment] += share.row_groups
    return GroupSurvey({size: Share(size_bytes[size], row_groups[size]) for size in size_bytes})


def _reason_of_group(
    metadata: TableMetadata, options: RewriteOptions, group: FileGroup
) -> Treatment | None:
    """Why all of a group is encoded, whatever its files are."""
    if options.strategy.shuffles:
        return Treatment.ORDER
    spec = metadata.spec(group.output_spec_id)
    partitions = {(task.spec_id, task.data_file.partition) for task in group.tasks}
    is_one = len(partitions) == 1 and not group.needs_partitioning
    return None if spec.is_unpartitioned or is_one else Treatment.PARTITIONS


def _shares(io: FileIO, rules: CopyRules, task: FileScanTask) -> Iterator[tuple[Treatment, Share]]:
    size_bytes = task.data_file.file_size_bytes
    reason = Treatment.DELETES if task.deletes else reason_to_encode(rules, task)
    source = open_stored(io, task.data_file) if reason is None else None
    if source is None:
        yield reason or Treatment.UNREADABLE, Share(size_bytes, 0)
        return
    groups = source.footer.row_groups
    treatments = rules.treatments(source, lambda _: False)
    for group, treatment in zip(groups, treatments, strict=True):
        yield treatment, Share(group.size_bytes, 1)
