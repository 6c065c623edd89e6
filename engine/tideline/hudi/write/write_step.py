"""What the steps of every operation need to know: contexts for handles, sizes, duplicates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.keys.partition_path import check_new_partition
from tideline.hudi.placement.upsert_partitioner import average_record_size
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import MergeMode, TableType
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.write_operation import WriteOperation

if TYPE_CHECKING:
    from tideline.hudi.file_group.file_slice_merge import SliceContext


def handle_context(transaction: WriteTransaction, engine: WriteEngine) -> HandleContext:
    """What the handles of this write know: schema, merging, naming of files."""
    config, operation = transaction.config, transaction.operation
    known = schema_history(transaction.table, transaction.timeline)
    history = known and known.reading(engine.schema, transaction.instant)
    context = HandleContext.of(
        transaction.table, transaction.instant, engine.schema, config.files, history
    )
    if operation is WriteOperation.DELETE:
        # An explicit delete carries no ordering value: it wins over any stored value.
        merge_mode = MergeMode.COMMIT_TIME_ORDERING
        context = replace(context, merge_mode=merge_mode, ordering_fields=())
    return replace(
        context,
        merges_inserts=operation is not WriteOperation.INSERT
        or not config.allows_duplicate_inserts,
        partial_update_columns=config.partial_update_columns,
    )


def slice_context(transaction: WriteTransaction, engine: WriteEngine) -> SliceContext | None:
    """How to read what is stored, for a write that appends and has to know it."""
    table = transaction.table
    if (
        transaction.config.partial_update_columns is None
        or table.config.table_type is TableType.COPY_ON_WRITE
    ):
        return None
    from tideline.hudi.file_group.file_slice_merge import SliceContext
    from tideline.hudi.table.schema import stored_schema

    return SliceContext.of(table, transaction.timeline, stored_schema(engine.schema))


def combines(operation: WriteOperation, config: WriteConfig) -> bool:
    """Whether rows of one key in the batch become one before they are written."""
    if operation is WriteOperation.UPSERT:
        return config.combine_before_upsert
    if operation is WriteOperation.DELETE:
        return True
    return config.combine_before_insert


def record_bytes(table: HoodieTable, timeline: ActiveTimeline, config: WriteConfig) -> int:
    """Bytes per record in base files, as the newest large commit shows; see average_record_size."""
    is_merged = table.config.table_type is TableType.MERGE_ON_READ
    actions = (Action.COMMIT, Action.DELTACOMMIT) if is_merged else (Action.COMMIT,)

    newest_first = reversed(timeline.completed().of(*actions).instants)
    notes = map(table.commits.note, newest_first)
    return average_record_size(
        ((note.base_bytes, note.base_records) for note in notes), config.sizing
    )


def check_new_partitions(
    table: HoodieTable, view: FileSystemView, partitions: Iterable[str]
) -> None:
    """Raise InvalidDataError when a partition without files would nest two of the table's."""
    for partition in partitions:
        if not view.latest_slices(partition):
            check_new_partition(table.store, partition)
