"""Does a table have a bucket index? Decided from what is on disk when it is opened for writing.

1. Properties that name an index answer at once, and nothing is read.
2. `.hoodie/.bucket_index/` holds what consistent hashing and partition-level rules need.
3. The newest commit that wrote files says how file ids look; clusterings are passed over.
4. Where they begin with bucket numbers, two of its partitions are listed; where these were dropped
   since, those of the commit before.

Costs one listing and one commit, which the schema is read from anyway, for a table without buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from tideline.bounded.parsing import faults_named, parse_json
from tideline.errors import (
    ConfigError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.hudi.index.bucket_layout import (
    BUCKET_INDEX_FOLDER,
    HASHING_CONFIG_FOLDER,
    HASHING_METADATA_FOLDER,
    BucketEngine,
    BucketLayout,
    KnownFrom,
    has_bucket_ids,
    without_bucket,
)
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.partition_rules import PartitionRules
from tideline.hudi.table.file_group import FileGroupId, FileSlice, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import is_table_metadata
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action

COMMITS_MAX = 10
"""Commits asked for files. Where none wrote any, the folder's first files are."""
FILES_MAX = 1000
PARTITIONS_MAX = 2
_CONFIG_SUFFIX = ".hashing_config"


@dataclass(frozen=True, slots=True)
class Recognition:
    """What was found: None for a table without a bucket index.

    `slices` are the newest ones of the partitions that were listed. `is_final` is false for a
    table without files: the next writer may choose any index.
    """

    layout: BucketLayout | None = None
    slices: tuple[FileSlice, ...] = ()
    is_final: bool = True


def declared_layout(config: TableConfig) -> BucketLayout | None:
    """The bucket index that the properties name."""
    if config.index_type is None or not IndexType.parse(config.index_type).places_by_hash:
        return None
    return BucketLayout(
        BucketEngine.SIMPLE, KnownFrom.PROPERTIES, config.bucket_count, config.bucket_hash_fields
    )


def names_layout(config: TableConfig) -> bool:
    """Whether the properties say if there are buckets.

    A record index does not: it may exist alongside them.
    """
    named = config.index_type
    return named is not None and IndexType.parse(named) is not IndexType.RECORD_INDEX


def recognise_buckets(table: HoodieTable, timeline: ActiveTimeline) -> Recognition:
    """Look at the table as `timeline` shows it.

    What cannot be read is skipped, or recorded in the layout: the table can still be maintained.
    """
    if names_layout(table.config):
        return Recognition(declared_layout(table.config))
    if not timeline.of(*COMMIT_ACTIONS).completed().instants and not timeline.has_archive:
        return Recognition(is_final=False)
    folders = table.store.list_directory(BUCKET_INDEX_FOLDER).directories
    if HASHING_METADATA_FOLDER in folders:
        return Recognition(
            BucketLayout(BucketEngine.CONSISTENT_HASHING, KnownFrom.HASHING_METADATA)
        )
    config = _hashing_config(table, timeline) if folders else None
    if config is not None:
        return Recognition(config)
    return _by_file_ids(table, timeline)


def written_partitions(table: HoodieTable, timeline: ActiveTimeline) -> tuple[str, ...]:
    """Partitions that the newest commits wrote to, latest first."""
    groups = (group for written in _written(table, timeline) for group in written)
    return tuple(dict.fromkeys(group.partition for group in groups))


def partition_slices(table: HoodieTable, timeline: ActiveTimeline) -> tuple[FileSlice, ...]:
    """The newest file slices of a few partitions that were written to last."""
    found = (_slices(table, timeline, written) for written in _written(table, timeline))
    return next(filter(None, found), ())


def _by_file_ids(table: HoodieTable, timeline: ActiveTimeline) -> Recognition:
    layout = BucketLayout(BucketEngine.SIMPLE, KnownFrom.FILE_IDS)
    had_buckets = False
    for written in _written(table, timeline):
        if not has_bucket_ids(written):
            return Recognition()
        had_buckets = True
        slices = _slices(table, timeline, written)
        if slices and not has_bucket_ids(file_slice.group for file_slice in slices):
            return Recognition()
        if slices:
            mixed = without_bucket(file_slice.group for file_slice in slices)
            return Recognition(replace(layout, mixed=mixed), slices)
        # Those partitions were dropped since.
    return Recognition(layout if had_buckets else None, is_final=had_buckets)


def _written(table: HoodieTable, timeline: ActiveTimeline) -> Iterator[Sequence[FileGroupId]]:
    """File groups that each of the newest commits wrote to; in the end, of any files there are."""
    commits = reversed(timeline.of(*COMMIT_ACTIONS).completed().instants)
    for instant in islice(commits, COMMITS_MAX):
        # What cannot be read stops the operations that need it; the services that repair do not.
        with suppress(CorruptTableError, ObjectNotFoundError):
            note = table.commits.note(instant)
            if note.groups and not note.is_clustering:
                yield note.groups
    listed = tuple(islice(_groups_in_folder(table), FILES_MAX))
    if listed:
        yield listed


def _groups_in_folder(table: HoodieTable) -> Iterator[FileGroupId]:
    for info in table.store.list():
        file = None
        if not is_table_metadata(info.path):
            file = parse_data_file(*split_path(info.path), info.size_bytes)
        if file is not None:
            yield file.group


def _slices(
    table: HoodieTable, timeline: ActiveTimeline, written: Sequence[FileGroupId]
) -> tuple[FileSlice, ...]:
    most = Counter(group.partition for group in written).most_common(PARTITIONS_MAX)
    view = table.files.read_view(timeline, [partition for partition, _ in most])
    return tuple(
        file_slice for partition in view.partitions for file_slice in view.latest_slices(partition)
    )


def _hashing_config(table: HoodieTable, timeline: ActiveTimeline) -> BucketLayout | None:
    """The rules of the newest hashing config that no pending replacecommit is about to bring.

    Source: Hudi `PartitionBucketIndexHashingConfig.getCommittedHashingConfigInstants`.
    """
    replacing = timeline.of(Action.REPLACECOMMIT, Action.CLUSTERING)
    pending = {str(instant.time) for instant in replacing.pending()}
    listed = table.store.list_directory(HASHING_CONFIG_FOLDER).objects
    paths = {
        split_path(info.path)[1].removesuffix(_CONFIG_SUFFIX): info.path
        for info in listed
        if info.path.endswith(_CONFIG_SUFFIX)
    }
    newest = max((time for time in paths if time not in pending), default=None)
    if newest is None:
        return None
    try:
        return _read_config(table, paths[newest])
    except (ConfigError, CorruptTableError, UnsupportedTableError) as error:
        return replace(_CONFIGURED, problem=str(error))


_CONFIGURED = BucketLayout(BucketEngine.SIMPLE, KnownFrom.HASHING_CONFIG)


def _read_config(table: HoodieTable, path: str) -> BucketLayout:
    content = parse_json(table.store.get(path), path=path, what="hashing config")
    with faults_named("hashing config is not understood", path=path):
        expressions, rule = str(content["expressions"]), str(content["rule"])
        count = int(content["defaultBucketNumber"])
    if count < 1:
        raise CorruptTableError("hashing config has no number of buckets", path=path, value=count)
    try:
        rules = PartitionRules.parse(expressions, rule)
    except ConfigError as error:
        raise ConfigError(error.message, path=path, value=error.value) from error
    return replace(_CONFIGURED, num_buckets=count, rules=rules)
