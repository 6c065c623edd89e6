"""Upsert, insert and delete through an index that reads base files.

1. Tag: find which incoming keys are stored, and where. Rows that were read from the table are where
   they were read. Of others a record index says which file groups have to be looked into; else
   these are all of the partitions, or of the table.
2. Profile: count rows per partition and file group.
3. Partition: assign updates to their file groups, inserts to small files and new ones. File groups
   that a pending clustering is going to replace are left to it, or it is withdrawn, by policy.
4. Save the profile in the inflight instant.
5. Write: every bucket through its handle.

Source: Hudi's BaseCommitActionExecutor and its subclasses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tideline.errors import InvalidDataError
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.placement.file_choice import choose_targets, lookup_candidates, small_files
from tideline.hudi.placement.rows_in_logs import may_have_rows_in_logs
from tideline.hudi.placement.upsert_partitioner import plan_buckets, with_room_for_inserts
from tideline.hudi.placement.workload_profile import (
    PartitionWorkload,
    WorkloadProfile,
    inflight_metadata,
)
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.properties import TableType
from tideline.hudi.write.config import InsertDuplicates
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.held_file_groups import settle_with_clustering, updated_groups
from tideline.hudi.write.known_places import known_places
from tideline.hudi.write.known_ranges import with_key_ranges
from tideline.hudi.write.new_file_id import new_file_id
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import WrittenFiles
from tideline.hudi.write.write_step import (
    check_new_partitions,
    combines,
    handle_context,
    record_bytes,
    slice_context,
)
from tideline.index_lookups import count_lookup
from tideline.wording import counted


def write_by_location(transaction: WriteTransaction, engine: WriteEngine) -> WrittenFiles:
    """Upsert, insert and delete through an index that reads base files."""
    operation, config, table = transaction.operation, transaction.config, transaction.table
    matched, table_type = transaction.request.matched, table.config.table_type
    view, candidates = _looked_into(transaction, engine)
    if _leaves_out_stored(transaction):
        _settle_duplicates(transaction, engine, candidates)
    profile = engine.profile(candidates if operation.tags_keys else (), transaction.timeline)
    if matched is not None:
        matched.require_found(profile.total_updates, table.uri, transaction.timeline)
    if operation.writes_rows:
        check_new_partitions(table, view, engine.partitions)
    else:
        profile = _without_inserts(profile)
    plan = plan_buckets(
        profile,
        small_files(view, profile, config.sizing, table_type),
        config.sizing,
        new_file_id,
        average_record_bytes=record_bytes(table, transaction.timeline, config),
    )
    if operation.writes_rows and table_type is TableType.MERGE_ON_READ:
        plan = with_room_for_inserts(plan, profile.partitions, new_file_id)
    settle_with_clustering(transaction, view, updated_groups(plan))
    transaction.to_inflight(inflight_metadata(profile, operation.json_name))
    stats = engine.write(
        plan,
        choose_targets(plan, view, table_type, slice_context(transaction, engine)),
        handle_context(transaction, engine),
        drops_duplicates=combines(operation, config),
    )
    if matched is not None and not operation.writes_rows:
        deleted = sum(stat.num_deletes for stat in stats)
        matched.require_deleted(deleted, table.uri, transaction.timeline)
    return WrittenFiles(stats)


def _looked_into(
    transaction: WriteTransaction, engine: WriteEngine
) -> tuple[FileSystemView, tuple[LookupCandidate, ...]]:
    """The table's files as far as the write has to see them, and those that may have its keys."""
    table, timeline, matched = transaction.table, transaction.timeline, transaction.request.matched
    is_global = transaction.config.index.type.is_global
    read_from = None if matched is None else matched.groups
    looks = transaction.operation.tags_keys or _leaves_out_stored(transaction)

    @cache
    def everything() -> tuple[FileSystemView, tuple[LookupCandidate, ...]]:
        view = table.files.view(timeline, None if is_global else engine.partitions)
        return view, _candidates(transaction, view)

    if not looks:
        return everything()[0], ()

    def searched() -> Sequence[LookupCandidate]:
        found = everything()[1]
        return found if read_from is None else _in_groups(found, read_from)

    indexed = None
    if read_from is None or not transaction.operation.writes_rows:
        indexed = known_places(table, timeline, engine, searched, is_global=is_global)
    places = indexed if read_from is None else read_from.union(indexed or ())
    if places is not None:
        if is_global and everything.cache_info().currsize:
            view, candidates = everything()
        else:
            view = table.files.view(timeline, {*engine.partitions, *(p.partition for p in places)})
            candidates = _candidates(transaction, view)
        found = {candidate.file_slice.group for candidate in candidates}
        is_known = places <= found
        if indexed is not None:
            count_lookup(is_answered=is_known)
        if is_known:
            return view, with_key_ranges(table, _in_groups(candidates, places))
    view, candidates = everything()
    return view, with_key_ranges(table, candidates)


def _in_groups(
    candidates: Sequence[LookupCandidate], groups: frozenset[FileGroupId]
) -> tuple[LookupCandidate, ...]:
    return tuple(candidate for candidate in candidates if candidate.file_slice.group in groups)


def _candidates(transaction: WriteTransaction, view: FileSystemView) -> tuple[LookupCandidate, ...]:
    table, matched = transaction.table, transaction.request.matched
    return lookup_candidates(
        view,
        table.config.table_type,
        is_global=transaction.config.index.type.is_global,
        separates_deleted=transaction.operation is WriteOperation.INSERT,
        has_rows_in_logs=may_have_rows_in_logs(table, transaction.timeline)
        if matched is None
        else lambda _: True,
    )


def _leaves_out_stored(transaction: WriteTransaction) -> bool:
    is_insert = transaction.operation is WriteOperation.INSERT
    return is_insert and transaction.config.insert_duplicates is not InsertDuplicates.NONE


def _settle_duplicates(
    transaction: WriteTransaction, engine: WriteEngine, candidates: Sequence[LookupCandidate]
) -> None:
    """Leave rows out of an insert whose keys are stored, or refuse it, as settings say.

    Raises InvalidDataError with the number of such rows.
    """
    stored = engine.leave_out_stored(candidates, transaction.timeline)
    if stored and transaction.config.insert_duplicates is InsertDuplicates.FAIL:
        raise InvalidDataError(
            f"this insert has {counted(stored, 'row')} whose key is stored already; nothing was "
            "written (hoodie.datasource.insert.dup.policy=fail)",
            table=transaction.table.location.uri,
        )


def _without_inserts(profile: WorkloadProfile) -> WorkloadProfile:
    return WorkloadProfile(
        {
            partition: PartitionWorkload(0, workload.updates)
            for partition, workload in profile.partitions.items()
            if workload.updates
        }
    )
