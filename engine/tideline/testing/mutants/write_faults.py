"""Faults in writes: conflicts, completion, markers, placing and merging of rows."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_FILE_GROUP = "engine/tideline/hudi/file_group"
_KEYS = "engine/tideline/hudi/keys"
_WRITE = "engine/tideline/hudi/write"
_TESTS = "engine/tests/hudi/write"
_COMMIT_TESTS = "engine/tests/hudi/commit"
_FILE_GROUP_TESTS = "engine/tests/hudi/file_group"
_COMMIT = "engine/tideline/hudi/commit"
_COMPLETION, _CONFLICT = f"{_COMMIT}/completion.py", f"{_COMMIT}/conflict.py"
_CONFLICT_TESTS = (f"{_COMMIT_TESTS}/test_write_conflict.py",)
_CRASH = "engine/tests/simulation/test_crash_every_write.py"
_COPIES = (f"{_FILE_GROUP_TESTS}/test_copy_plan.py", f"{_FILE_GROUP_TESTS}/test_copied_columns.py")
_PARTIAL_UPDATES = ("engine/tests/hudi/write/test_partial_update_writes.py",)
_SPLICED = "engine/tideline/parquet/spliced_file.py"
_SPLICES = "engine/tests/parquet/test_spliced_file.py"
_PARALLEL = "engine/tests/parquet/test_parallel_sink.py"
_SPLICED_ORDER = (f"{_SPLICES}::test_the_order_of_rows_goes_with_columns_that_are_replaced",)
_SPLICED_SIZES = (f"{_SPLICES}::test_places_and_sizes_of_a_row_group_are_those_of_its_columns",)
_SPLICED_BLOOM = (f"{_SPLICES}::test_a_bloom_filter_is_where_the_footer_says",)
_SPLICED_NO_BLOOM = (f"{_SPLICES}::test_of_a_bloom_filter_that_is_not_copied_nothing_is_said",)
_TRANSCODED = (
    "engine/tests/parquet/test_page_transcoder.py::"
    "test_bloom_filters_and_columns_of_the_codec_are_copied",
)
_COMPLETING = ("engine/tests/hudi/commit/test_completion.py",)

_LOCK = "engine/tideline/hudi/table/table_lock.py"
_HELD_LOCK = ("engine/tests/hudi/table/test_held_lock.py",)

WRITE_FAULTS = (
    Fault(
        "others get the lock while their clocks may be behind a time given under it",
        _LOCK,
        "            self._held.until_s = max(self._held.until_s, until_s)\n",
        "",
        _HELD_LOCK,
    ),
    Fault(
        "a table keeps its lock for good",
        _LOCK,
        "        is_young = now_s - lease.acquired_s < HELD_S_MAX\n",
        "        is_young = True\n",
        _HELD_LOCK,
    ),
    Fault(
        "a lease is released while it is held again",
        _LOCK,
        "            self._resting, resting.is_over = None, True\n        resting.cancel()\n",
        "            self._resting = None\n",
        _HELD_LOCK,
    ),
    Fault(
        "a commit is completed with a lease about to end",
        _COMPLETION,
        "LEASE_MARGIN_S = 5.0",
        "LEASE_MARGIN_S = 0.0",
        _COMPLETING,
    ),
    Fault(
        "a commit appears before what others have seen",
        _COMPLETION,
        "        if newest is not None and newest > sent.completion_time:\n",
        "        if False:\n",
        _COMPLETING,
    ),
    Fault(
        "a second attempt completes an instant under a second name",
        _COMPLETION,
        "        return sent\n",
        "        return self._table.completed_now(pending, timeline)\n",
        _COMPLETING,
    ),
    Fault(
        "a log of version 9 is named after its slice",
        f"{_FILE_GROUP}/handle_context.py",
        "        return slice_instant if self.logs_name_slice else self.instant\n",
        "        return slice_instant\n",
        ("engine/tests/hudi/services/test_services_of_version_9.py",),
    ),
    Fault(
        "a writer that others take for dead completes",
        _COMPLETION,
        "        require_alive(self._heartbeat, self._table, pending.time)\n",
        "",
        _COMPLETING,
    ),
    Fault(
        "a commit that took place in doubt counts as undone",
        f"{_WRITE}/transaction.py",
        "        self.pending.tidy_up()\n        return self._completing\n",
        "        return CommitState.UNDONE\n",
        (f"{_TESTS}/test_unknown_outcome.py",),
    ),
    Fault(
        "a commit that may still arrive is undone",
        _COMPLETION,
        "        return self.is_sent and not self._is_local\n",
        "        return False\n",
        (f"{_TESTS}/test_unknown_outcome.py",),
    ),
    Fault(
        "the heartbeat of a commit in doubt is taken away",
        _COMPLETION,
        "            if self.is_sent:\n                self._heartbeat.lapse()\n",
        "            if not instant:\n                self._heartbeat.lapse()\n",
        (_CRASH, "-k", "may_still_arrive"),
    ),
    Fault(
        "a write repeated with its token is written again",
        f"{_WRITE}/token.py",
        "            if metadata.extra_metadata.get(TOKEN_KEY) == self.token:\n",
        "            if not self.token:\n",
        (f"{_TESTS}/test_token.py",),
    ),
    Fault(
        "a write with the token of one under way begins",
        f"{_WRITE}/token.py",
        "            if instant.state is not State.INFLIGHT or "
        "self._pending_token(instant) != self.token:\n",
        "            if instant.state is not None:\n",
        (f"{_TESTS}/test_token.py",),
    ),
    Fault(
        "the workload profile is not saved",
        f"{_WRITE}/transaction.py",
        '        self.pending.to_inflight(encode(profile) if profile else b"")\n',
        "        self.pending.to_inflight()\n",
        (f"{_TESTS}/test_inflight_profile.py",),
    ),
    Fault(
        "a write that was rolled back completes all the same",
        f"{_WRITE}/transaction.py",
        "            self._require_pending(timeline)\n",
        "",
        ("engine/tests/simulation/test_two_writers.py",),
    ),
    Fault(
        "only writes that began later are compared",
        _CONFLICT,
        "instant.action in COMMIT_ACTIONS and instant.time not in start.completed",
        "instant.action in COMMIT_ACTIONS and instant.time > mine.time",
        _CONFLICT_TESTS,
    ),
    Fault(
        "an overwrite and a write of one partition do not meet",
        _CONFLICT,
        "if group.partition in contested or _identity(group, by_bucket) in ours",
        "if _identity(group, by_bucket) in ours",
        _CONFLICT_TESTS,
    ),
    Fault(
        "two inserts of one key both commit",
        _CONFLICT,
        "_overlap(mine, other, by_bucket) | _new_keys(mine, other, unique_keys)",
        "_overlap(mine, other, by_bucket)",
        _CONFLICT_TESTS,
    ),
    Fault(
        "buckets are compared by file id",
        _CONFLICT,
        "    if by_bucket:\n        return group.partition, bucket_of_file_id",
        "    if False:\n        return group.partition, bucket_of_file_id",
        _CONFLICT_TESTS,
    ),
    Fault(
        "the generation of an ingest is not compared",
        _CONFLICT,
        "        if theirs is not None and theirs >= ours:\n            return instant\n",
        "",
        _CONFLICT_TESTS,
    ),
    Fault(
        "what a retried task left is committed over",
        f"{_COMMIT}/finalize.py",
        "    for path in leftover:\n        scope.remove(path)\n",
        "",
        (f"{_COMMIT_TESTS}/test_finalize.py",),
    ),
    Fault(
        "a log that another writer appended to is deleted",
        f"{_COMMIT}/finalize.py",
        "if marker.path not in reported and not _belongs_to_others(store, instant, marker)",
        "if marker.path not in reported",
        (f"{_COMMIT_TESTS}/test_finalize.py",),
    ),
    Fault(
        "a data file is written without a marker",
        f"{_FILE_GROUP}/marked_file.py",
        "    create_marker(store, ctx.instant, marker)\n",
        "",
        (f"{_FILE_GROUP_TESTS}/test_create_handle.py",),
    ),
    Fault(
        "a task leaves the file of a write that was undone by another process",
        f"{_FILE_GROUP}/marked_file.py",
        '        DeleteScope(store, f"a task of {ctx.instant}").remove(marker.path)\n',
        "",
        (f"{_FILE_GROUP_TESTS}/test_marked_file.py",),
    ),
    Fault(
        "of doubled keys the first row wins",
        f"{_FILE_GROUP}/dedupe.py",
        "            body = batch.slice(0, last)\n",
        "            body = batch.slice(1, last)\n",
        (f"{_FILE_GROUP_TESTS}/test_dedupe.py",),
    ),
    Fault(
        "the older of two rows wins",
        f"{_FILE_GROUP}/record_merge.py",
        "    return ~is_lower(\n",
        "    return is_lower(\n",
        (f"{_FILE_GROUP_TESTS}/test_merge_handle.py",),
    ),
    Fault(
        "what a row lacks is gone once its base file is rewritten",
        f"{_FILE_GROUP}/merge_handle.py",
        "    rows = filled_up(won.rows, users.take(pa.array(updates.stored)), partial)\n",
        "    rows = won.rows\n",
        _PARTIAL_UPDATES,
    ),
    Fault(
        "a stored row that wins is not filled up",
        f"{_FILE_GROUP}/merge_handle.py",
        "    lost = lost.where(gaining)\n",
        "    lost = lost.where(~gaining & ~gaining)\n",
        _PARTIAL_UPDATES,
    ),
    Fault(
        "what only a losing row of a batch has is lost",
        "engine/tideline/hudi/log/column_sources.py",
        "            source[keys[under]] = entries[under]\n",
        "            pass\n",
        _PARTIAL_UPDATES,
    ),
    Fault(
        "a delete keeps the row it merges into",
        f"{_FILE_GROUP}/record_merge.py",
        "            merged = np.delete(gather, self.dropped)\n",
        "            merged = gather\n",
        (f"{_FILE_GROUP_TESTS}/test_merge_handle.py",),
    ),
    Fault(
        "keys are hashed otherwise than by Hudi",
        "engine/tideline/hudi/index/bucket.py",
        "    value = 1\n    for key_value in key_values:\n",
        "    value = 0\n    for key_value in key_values:\n",
        ("engine/tests/hudi/index/test_bucket_index.py",),
    ),
    Fault(
        "a number of buckets is guessed",
        "engine/tideline/hudi/placement/stored_buckets.py",
        "    if found is None or (found and not is_proof):\n",
        "    if found is None:\n",
        (f"{_TESTS}/test_index_choice.py",),
    ),
    Fault(
        "buckets of Hudi's are clustered",
        f"{_WRITE}/index_choice.py",
        'settings if self.layout() is None else {**settings, INDEX_TYPE: "BUCKET"}',
        "settings",
        (f"{_TESTS}/test_index_choice.py",),
    ),
    Fault(
        "a resize of buckets counts before it is complete",
        "engine/tideline/hudi/index/hashing_metadata.py",
        "        if counts or _has_files(ring, view):\n",
        "        if ring:\n",
        (f"{_TESTS}/test_index_choice.py",),
    ),
    Fault(
        "key ranges that touch do not overlap",
        "engine/tideline/hudi/index/key_range.py",
        "        return java_order(self.min_key) <= java_order(other.max_key) and java_order(\n",
        "        return java_order(self.min_key) < java_order(other.max_key) and java_order(\n",
        ("engine/tests/hudi/index/test_key_range.py",),
    ),
    Fault(
        "a bloom filter of several rows forgets keys",
        "engine/tideline/formats/bloom.py",
        "        return block.indices[hits.any(axis=0)]\n",
        "        return block.indices[hits.all(axis=0)]\n",
        ("engine/tests/formats/test_bloom_filter.py",),
    ),
    Fault(
        "a small filter continues although it has no room for the new keys",
        "engine/tideline/hudi/file_group/merge_handle.py",
        "    return inserts <= bloom.room or ",
        "    return inserts <= bloom.room + 10**9 or ",
        ("engine/tests/hudi/file_group/test_merge_handle.py",),
    ),
    Fault(
        "a row group is copied in which a row was replaced",
        f"{_FILE_GROUP}/wanted_keys.py",
        "    return bool(pc.any(within).as_py())\n",
        "    return False\n",
        _COPIES,
    ),
    Fault(
        "pages are copied whose bounds hide NaN",
        f"{_FILE_GROUP}/copy_plan.py",
        "        and not _hides_nan(chunk, leaf, leaves_nan_out=leaves_nan_out)\n",
        "",
        _COPIES,
    ),
    Fault(
        "rows count as sorted after the columns of their order were replaced",
        _SPLICED,
        "                self._groups[-1].drop(GroupField.SORTING)\n",
        "                pass\n",
        _SPLICED_ORDER,
    ),
    Fault(
        "a bloom filter is looked for where it was in another file",
        _SPLICED,
        "            metadata.put(ColumnField.BLOOM_OFFSET, Kind.I64, self._write(bloom))\n",
        "            old = chunk.metadata.get(ColumnField.BLOOM_OFFSET)\n"
        "            self._write(bloom)\n"
        "            metadata.put(ColumnField.BLOOM_OFFSET, Kind.I64, old)\n",
        _SPLICED_BLOOM,
    ),
    Fault(
        "a bloom filter that was not copied is looked for",
        _SPLICED,
        "        metadata.drop(ColumnField.BLOOM_OFFSET)\n",
        "",
        _SPLICED_NO_BLOOM,
    ),
    Fault(
        "a row group has the compressed size of another",
        _SPLICED,
        "        entry.put(GroupField.COMPRESSED_BYTES, Kind.I64, compressed_bytes)\n",
        "",
        _SPLICED_SIZES,
    ),
    Fault(
        "a row group has the size of the columns that were replaced",
        _SPLICED,
        "        entry.put(GroupField.BYTES, Kind.I64, "
        "group.struct.get(GroupField.BYTES) + grown)\n",
        "",
        _SPLICED_SIZES,
    ),
    Fault(
        "a row group begins where it did in another file",
        _SPLICED,
        "        entry.put(GroupField.FILE_OFFSET, Kind.I64, chunks[0].start)\n",
        "",
        _SPLICED_SIZES,
    ),
    Fault(
        "columns of other rows make one row group",
        _SPLICED,
        "len({group.rows for group in groups}) != 1",
        "len(groups) != len(parts)",
        (f"{_PARALLEL}::test_columns_of_other_files_or_rows_are_refused",),
    ),
    Fault(
        "a column that was recompressed has the size it had",
        _SPLICED,
        "            metadata.put(ColumnField.COMPRESSED_BYTES, Kind.I64, places.chunk_bytes)\n",
        "            metadata.put(ColumnField.COMPRESSED_BYTES, Kind.I64, chunk.size_bytes)\n",
        _TRANSCODED,
    ),
    Fault(
        "a partition path is formatted in the wrong zone",
        f"{_KEYS}/partition_time.py",
        "    return _formatted(_in_zone(millis, settings.output_zone or UTC), is_time, settings)\n",
        "    return _formatted(millis, is_time, settings)\n",
        ("engine/tests/spark/write/test_partition_times.py",),
    ),
    Fault(
        "a delete that fills nothing up goes to the partition of its own columns",
        "engine/tideline/in_process/filled_rows.py",
        "        paths = pc.if_else(pa.array(merged.deletes), own, paths)\n",
        "        paths = pc.if_else(pa.array(merged.deletes), paths, own)\n",
        ("engine/tests/spark/write/test_write_partial_updates.py", "-k", "in_process"),
    ),
)
