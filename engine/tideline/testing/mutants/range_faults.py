"""Faults in reads of a range of commits, and in erasures: what was passed over, what was kept."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_STREAM = "engine/tideline/spark/read/stream_source.py"
_STREAM_TESTS = ("engine/tests/spark/read/test_stream_offsets.py",)

_ASKED = "engine/tideline/hudi/read/asked_range.py"
_NET = "engine/tideline/hudi/read/net_changes.py"
_COMPLETION_TESTS = ("engine/tests/spark/read/test_incremental_by_completion.py",)
_NET_TESTS = ("engine/tests/hudi/read/test_net_changes.py",)

_TRAVEL_TESTS = ("engine/tests/hudi/read/test_time_travel.py",)

_PRUNING = "engine/tideline/hudi/read/file_pruning.py"
_KNOWN = "engine/tideline/hudi/read/known_values.py"
_CERTAIN = "engine/tideline/hudi/metadata_table/certain_rows.py"
_PARTITIONS = "engine/tideline/hudi/read/partition_pruning.py"
_PARTITION_TESTS = ("engine/tests/hudi/read/test_partition_pruning.py", "-k", "not random")
_LOOKUP = "engine/tideline/hudi/read/key_lookup.py"
_IN_STEP = "engine/tideline/hudi/metadata_table/in_step.py"
_LOOKUP_TESTS = ("engine/tests/hudi/read/test_reads_by_key.py", "-k", "not random")
_PRUNING_TESTS = ("engine/tests/hudi/read/test_file_pruning.py", "-k", "not random")

RANGE_FAULTS = (
    Fault(
        "a slice is left out by its log alone",
        _PRUNING,
        "return any(self._file_may_hold(file, columns) for file in file_slice.row_files)\n",
        "return any(self._file_may_hold(file, columns) for file in file_slice.log_files)\n",
        _PRUNING_TESTS,
    ),
    Fault(
        "a file whose footer has no statistics counts as one of zeros",
        _KNOWN,
        "if found is None or not 0 <= found.nulls < found.values:\n",
        "if found is None:\n",
        _PRUNING_TESTS,
    ),
    Fault(
        "long text that has no bounds in some row groups is taken for short",
        _CERTAIN,
        "is_short = column in _NEVER_LONG or 0 < found.plain_bytes < LONG_TEXT_BYTES\n",
        "is_short = column in _NEVER_LONG or 0 < found.plain_bytes\n",
        _PRUNING_TESTS,
    ),
    Fault(
        "rows of a partition count that are made of other files",
        _PARTITIONS,
        "return said.columns if said is not None and said.files == files else frozenset()\n",
        "return said.columns if said is not None else frozenset()\n",
        _PARTITION_TESTS,
    ),
    Fault(
        "columns of a partition count whatever is known of its files",
        "engine/tideline/hudi/metadata_table/partition_stats.py",
        "if all(column in file.certain for file in files)]\n",
        "]\n",
        _PARTITION_TESTS,
    ),
    Fault(
        "an index that has lost file groups is believed",
        "engine/tideline/hudi/metadata_table/stored_count.py",
        "self.groups) != number:\n",
        "self.groups) < 0:\n",
        ("engine/tests/hudi/metadata_table/test_lost_file_groups.py",),
    ),
    Fault(
        "keys are where a commit puts them that never was completed",
        _IN_STEP,
        "        return found.is_completed\n",
        "        return True\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "keys are where later commits than a reader's have put them",
        _IN_STEP,
        "        and _have_not_moved(timeline, now := table.timeline())\n",
        "        and _have_not_moved(timeline, now := timeline)\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "an index is believed that Hudi is building",
        _IN_STEP,
        "        and not are_being_built(table, now, partitions)\n",
        "",
        ("engine/tests/hudi/read/test_indexes_in_doubt.py", "-k", "is_building"),
    ),
    Fault(
        "an index is believed that is made again while it is read",
        _IN_STEP,
        "        and _have_not_moved(read_by, metadata.timeline())\n",
        "        and _have_not_moved(read_by, read_by)\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "no key is stored twice among rows that are changed",
        "engine/tideline/hudi/read/table_scan.py",
        "        return replace(self, is_snapshot=False)\n",
        "        return self\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "an index without a file group has no keys",
        "engine/tideline/hudi/metadata_table/reader.py",
        "if missing and (has_all or None in missing or None in newest):\n",
        "if missing and None in newest:\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "one of several columns is taken for the whole key",
        _LOOKUP,
        "and len(values) == len(fields)\n",
        "and len(values) > 0\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "an index is believed whose partition was dropped meanwhile",
        _IN_STEP,
        "        set(partitions) <= set(table.properties.reload().metadata_partitions)\n",
        "        set(partitions) <= set(table.config.metadata_partitions)\n",
        _LOOKUP_TESTS,
    ),
    Fault(
        "a value's keys are in one file group of a secondary index of the first version",
        "engine/tideline/hudi/metadata_table/reader.py",
        "(own,) if are_hashed else range(len(newest))",
        "(own,)",
        _LOOKUP_TESTS,
    ),
    Fault(
        "a condition that holds of null allows the values that it names alone",
        "engine/tideline/formats/allowed_values.py",
        "    others = [column.is_null(), ",
        "    others = [",
        ("engine/tests/formats/test_allowed_values.py",),
    ),
    Fault(
        "a commit that a savepoint keeps is shown before it was made",
        "engine/tideline/hudi/timeline/active.py",
        "        return is_before and time not in self.kept\n",
        "        return is_before\n",
        ("engine/tests/hudi/read/test_changes.py",),
    ),
    Fault(
        "a read as of a time has archived commits that completed later",
        "engine/tideline/hudi/table/timeline_as_of.py",
        "    return timeline.completed_by(time).leaving_out(frozenset(later))\n",
        "    return timeline.completed_by(time) if later else timeline.completed_by(time)\n",
        _TRAVEL_TESTS,
    ),
    Fault(
        "a read as of a time has no archived log after a commit that a savepoint keeps",
        "engine/tideline/hudi/timeline/committed.py",
        "latest=until or (max(times, default=None) if timeline.left_out is None else None),\n",
        "latest=until or max(times, default=None),\n",
        ("engine/tests/hudi/read/test_histories_of_followers.py", "-k", "longer"),
    ),
    Fault(
        "a range may end in what a restore took back",
        "engine/tideline/hudi/read/change_plan.py",
        "    lost = None if end is None else taken_back(table, timeline, end)\n",
        "    lost = None if end else taken_back(table, timeline, begin)\n",
        ("engine/tests/hudi/read/test_changes.py",),
    ),
    Fault(
        "a read as of a time has what a restore left of it",
        "engine/tideline/hudi/read/taken_back.py",
        "        if first is not None and first <= time:\n",
        "        if first is None and first != time:\n",
        _TRAVEL_TESTS,
    ),
    Fault(
        "a read as of a time has what was requested by then",
        "engine/tideline/hudi/table/timeline_as_of.py",
        "    return timeline.completed_by(time).leaving_out(frozenset(later))\n",
        "    return timeline.up_to(time).leaving_out(frozenset(later))\n",
        _TRAVEL_TESTS,
    ),
    Fault(
        "a time at which a commit completed is taken for the request of another",
        _ASKED,
        "    if any(commit.completed_at == time for commit in commits):\n",
        "    if False:\n",
        _COMPLETION_TESTS,
    ),
    Fault(
        "the completions of archived commits are forgotten",
        _ASKED,
        "    if meant is None or time in archived_since(table, timeline, time).values():\n",
        "    if meant is None:\n",
        _COMPLETION_TESTS,
    ),
    Fault(
        "changes of an archived commit that completed last are passed over",
        "engine/tideline/hudi/read/change_plan.py",
        "        earliest = max(archived_after(table, timeline, begin).values(), default=begin)\n",
        "        earliest = begin\n",
        _COMPLETION_TESTS,
    ),
    Fault(
        "what came and went within a range is deleted",
        _NET,
        "        kept = (part == last[codes]) & ~(is_delete & is_new)\n",
        "        kept = part == last[codes]\n",
        _NET_TESTS,
    ),
    Fault(
        "a row that was deleted and came back counts as new",
        _NET,
        "        is_new = is_insert[first][codes]\n",
        "        is_new = is_insert\n",
        _NET_TESTS,
    ),
    Fault(
        "a proof does not read a column that Spark takes for a function",
        "engine/tideline/spark/read/matching.py",
        "    found = {*needed(names), *(name for name in names if name.lower() in text)}\n",
        "    found = {*needed(names)}\n",
        ("engine/tests/spark/read/test_matching.py",),
    ),
    Fault(
        "values in equality deletes outlive an erasure",
        "engine/tideline/erasure/iceberg_rows.py",
        "        or task.equality_deletes\n",
        "",
        ("engine/tests/erasure/test_erase_iceberg.py::test_no_file_holds_the_rows_afterwards",),
    ),
    Fault(
        "rows that position deletes keep outlive an erasure",
        "engine/tideline/erasure/iceberg_rows.py",
        "        or any(delete.file_path in in_deletes for delete in task.position_deletes)\n",
        "",
        (
            "engine/tests/erasure/test_erase_iceberg.py::"
            "test_rows_that_position_deletes_keep_are_erased",
        ),
    ),
    Fault(
        "a landing file that was replaced since it was read is deleted",
        "engine/tideline/erasure/source_files.py",
        "        return None if is_same else ",
        "        return None if is_same or path else ",
        (
            "engine/tests/erasure/test_erase_source_files.py::"
            "test_a_file_that_was_replaced_since_it_was_read_stays",
        ),
    ),
    Fault(
        "a stream goes back with a table that was restored",
        _STREAM,
        "if newest is None or newest <= begin:",
        "if newest is None or newest == begin:",
        _STREAM_TESTS,
    ),
    Fault(
        "a first batch that is run again begins where `after` is by now",
        _STREAM,
        "InstantTime(end[_AFTER]) if _AFTER in end else _time(start), _time(end)",
        "_time(start), _time(end)",
        _STREAM_TESTS,
    ),
    Fault(
        "a query of what is available follows the writers",
        _STREAM,
        "newest = self._last or newest_readable(table)",
        "newest = newest_readable(table)",
        _STREAM_TESTS,
    ),
    Fault(
        "a commit that is larger than a batch stops the stream",
        "engine/tideline/hudi/read/batch_limit.py",
        "if commits > 1 and self._is_exceeded(commits, size_bytes):",
        "if self._is_exceeded(commits, size_bytes):",
        _STREAM_TESTS,
    ),
    Fault(
        "a stream passes over a write that is pending",
        "engine/tideline/hudi/read/incremental.py",
        "newest = readable_commits(table, timeline).last()",
        "newest = timeline.of(*COMMIT_ACTIONS).completed().last()",
        _STREAM_TESTS,
    ),
)
