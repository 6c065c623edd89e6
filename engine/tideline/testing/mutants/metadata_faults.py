"""Faults in the metadata table: what it lists, in which order it is written, when it goes."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_ROOM = "engine/tideline/hudi/metadata_table"
_KEEP, _WRITER = f"{_ROOM}/keep.py", f"{_ROOM}/writer.py"
_BY_SLICE, _FILES_PARTITION = f"{_ROOM}/form_by_slice.py", f"{_ROOM}/files_partition.py"
_NAMED_BY_SLICE = ("engine/tests/hudi/metadata_table/test_logs_named_by_slice.py",)
_KEEPING = ("engine/tests/hudi/metadata_table/test_keeping_files.py",)
_FILES = ("engine/tests/hudi/metadata_table/test_files_partition.py",)
_INDEXES = ("engine/tests/hudi/metadata_table/test_dropped_indexes.py",)
_MADE = ("engine/tests/hudi/metadata_table/test_making_indexes.py",)
_STATISTICS = ("engine/tests/hudi/metadata_table/test_statistics.py",)
_ALTERED = ("engine/tests/hudi/metadata_table/test_altered_columns.py",)
_FILTERS = ("engine/tests/hudi/metadata_table/test_bloom_filters.py",)
_HFILE = "engine/tideline/formats/hfile.py"
_KEYS = ("engine/tests/hudi/metadata_table/test_record_index.py",)
_PLACES = ("engine/tests/hudi/write/test_known_places.py",)
_LOOKED_UP = ("engine/tests/formats/test_hfile.py",)

METADATA_FAULTS = (
    Fault(
        "stale statistics stay in the list of the metadata table",
        _KEEP,
        "    if others:\n",
        "    if False:\n",
        _KEEPING,
    ),
    Fault(
        "slices of the metadata table go that a pending write of Hudi's has seen",
        _WRITER,
        "        pending = data_timeline.of(*COMMIT_ACTIONS).pending()\n",
        "        pending = data_timeline.of().pending()\n",
        ("engine/tests/hudi/metadata_table/test_slices_of_pending_writes.py",),
    ),
    Fault(
        "files of dropped partitions go before the list says so",
        f"{_ROOM}/index_dropping.py",
        "    table.properties.update(listed, guard)\n",
        "",
        _KEEPING,
    ),
    Fault(
        "an instant that is rolled back stays in the metadata table",
        _WRITER,
        "            self._metadata.timelines.remove(found)\n        self._delete_pending(found, ",
        "            pass\n        self._delete_pending(found, ",
        _KEEPING,
    ),
    Fault(
        "an instant is taken out of what a compaction has taken in",
        _WRITER,
        "            return False\n        written = self._files_of(time)\n",
        "            pass\n        written = self._files_of(time)\n",
        _KEEPING,
    ),
    Fault(
        "a commit takes away the index that Hudi builds",
        f"{_ROOM}/index_build.py",
        "        if instant.state is State.INFLIGHT and",
        "        if instant.state is None and",
        _INDEXES,
    ),
    Fault(
        "an index that Hudi failed to build stops every commit for good",
        f"{_ROOM}/index_build.py",
        "State.INFLIGHT and not _has_failed(table, instant):",
        "State.INFLIGHT:",
        _INDEXES,
    ),
    Fault(
        "an index that has not begun to be written counts as failed at once",
        f"{_ROOM}/index_build.py",
        "found.modified_ms <= silent_ms_max:",
        "found.modified_ms < 0:",
        _INDEXES,
    ),
    Fault(
        "a metadata table is switched off under the index that Hudi builds",
        f"{_ROOM}/disable.py",
        "    if in_use or exists:\n        require_no_index_build",
        "    if in_use and not exists:\n        require_no_index_build",
        _INDEXES,
    ),
    Fault(
        "a restore begins under the index that Hudi builds",
        "engine/tideline/hudi/services/restore/execute.py",
        "        require_no_index_build(table, timeline)\n",
        "",
        _INDEXES,
    ),
    Fault(
        "what is there as another action counts as undone",
        _WRITER,
        "            return timeline.find(time) is None\n",
        "            return True\n",
        _KEEPING,
    ),
    Fault(
        "a metadata table stays in use that a rolled back instant cannot be taken out of",
        _KEEP,
        "    if not is_undone:\n        disable_metadata_table(table)\n",
        "    if False:\n        disable_metadata_table(table)\n",
        _KEEPING,
    ),
    Fault(
        "what may still be rolled back is compacted",
        f"{_ROOM}/form_by_commit.py",
        "        return not any(instant.time in pending for instant in since)\n",
        "        return bool(since or pending)\n",
        _KEEPING,
    ),
    Fault(
        "a partition that Hudi is building is swept away",
        _WRITER,
        "            if not _may_be_build(instant.time) or not self._is_built():\n",
        "            if instant.time:\n",
        _KEEPING,
    ),
    Fault(
        "a block in a metadata table's log counts without its commit",
        _BY_SLICE,
        "            if time not in without and timeline.is_committed(time):\n",
        "            if time not in without:\n",
        _NAMED_BY_SLICE,
    ),
    Fault(
        "a log of a metadata table replaces one that another writer left",
        _BY_SLICE,
        "            if not isinstance(\n                store.put_if_absent("
        "log.path, body, token=uuid4().hex), AlreadyExists\n            ):\n",
        "            if store.put(log.path, body):\n",
        _NAMED_BY_SLICE,
    ),
    Fault(
        "a metadata table is compacted over a commit that is yet to come into it",
        _BY_SLICE,
        "        return len(data_timeline.pending().up_to(newest)) == 0\n",
        "        return newest is not None\n",
        _NAMED_BY_SLICE,
    ),
    Fault(
        "logs that a rollback leaves are not listed",
        _FILES_PARTITION,
        "*_appended(change.appended), ",
        "",
        _NAMED_BY_SLICE,
    ),
    Fault(
        "a block of an HFile has the first key of the file",
        _HFILE,
        "        if not self._current:\n            self._first_key = key\n",
        "        if not self._count:\n            self._first_key = key\n",
        _LOOKED_UP,
    ),
    Fault(
        "a block of an HFile has its last key as the first",
        _HFILE,
        "        if not self._current:\n            self._first_key = key\n",
        "        self._first_key = key\n",
        _LOOKED_UP,
    ),
    Fault(
        "a commit to the metadata table is published without the lock",
        _WRITER,
        "        self._guard()\n        timed",
        "        timed",
        _KEEPING,
    ),
    Fault(
        "the base file of an index is written without the lock",
        _WRITER,
        "            self._guard()\n            stats",
        "            stats",
        _MADE,
    ),
    Fault(
        "what a sleeper left in the metadata table stays",
        _WRITER,
        "            self.undo(instant.time, timeline)\n",
        "            pass\n",
        _KEEPING,
    ),
    Fault(
        "the slice that a reader may be at is deleted",
        _WRITER,
        "        return slices[1:]\n",
        "        return slices\n",
        _KEEPING,
    ),
    Fault(
        "a broken metadata table stays in use",
        _KEEP,
        "            if mode is not MetadataTableMode.ON:\n"
        "                return MetadataOutcome(is_disabled=disable_metadata_table(table, "
        "guard))\n",
        "            return MetadataOutcome()\n",
        _KEEPING,
    ),
    Fault(
        "a deleted file is listed",
        "engine/tideline/hudi/metadata_table/files_partition.py",
        "        del known[name]\n",
        "        pass\n",
        _FILES,
    ),
    Fault(
        "a metadata table that is switched off is read",
        "engine/tideline/hudi/table/table_files.py",
        "        if not self._properties.reload().keeps_metadata_table:\n",
        "        if False:\n",
        _KEEPING,
    ),
    Fault(
        "bounds of a column are not united over the files of a partition",
        f"{_ROOM}/partition_stats.py",
        "with_room(united(known, wanted)",
        "with_room(united(known[:1], wanted)",
        _STATISTICS,
    ),
    Fault(
        "a partition keeps the statistics of rows that are gone",
        f"{_ROOM}/partition_stats.py",
        "        return [MetadataRecord(key, None) for key in gone]\n",
        "        return []\n",
        _STATISTICS,
    ),
    Fault(
        "statistics of a file stay when it is cleaned",
        f"{_ROOM}/column_stats.py",
        "        return gone + rows\n",
        "        return rows\n",
        _STATISTICS,
    ),
    Fault(
        "statistics are made of what was committed before the lock",
        "engine/tideline/hudi/metadata_indexes/table_indexes.py",
        "next_time(timeline))\n            whole = replace(whole, timeline=timeline)\n",
        "next_time(timeline))\n",
        _MADE,
    ),
    Fault(
        "a write that began before the table had statistics ends them",
        f"{_ROOM}/measured_files.py",
        "    if unknown and change.contents is not None:\n",
        "    if False:\n",
        _MADE,
    ),
    Fault(
        "bounds of a writer that leaves NaN out are taken as they are",
        "engine/tideline/hudi/file_group/file_contents.py",
        "        leaves_nan_out=not is_ours and not metadata.created_by.startswith(_PARQUET_MR),\n",
        "",
        ("engine/tests/hudi/metadata_table/test_index_command.py",),
    ),
    Fault(
        "statistics stay where their names are those of other columns",
        f"{_ROOM}/altered_columns.py",
        "    return there.name != now.name or not _keeps_order(there.type, now.type)\n",
        "    return False\n",
        _ALTERED,
    ),
    Fault(
        "values in older files of a column that is listed later count as none",
        f"{_ROOM}/column_stats.py",
        "    return found if are_absent else {}\n",
        "    return found\n",
        _ALTERED,
    ),
    Fault(
        "NaN has bounds in statistics",
        f"{_ROOM}/measured_files.py",
        "        if isinstance(typed.greatest, float) and isnan(typed.greatest):\n",
        "        if False:\n",
        _STATISTICS,
    ),
    Fault(
        "the greatest bound of a long text is cut down",
        "engine/tideline/hudi/file_group/column_ranges.py",
        "        greatest = text_after(greatest[:BOUND_LENGTH_MAX]) or greatest\n",
        "        greatest = greatest[:BOUND_LENGTH_MAX]\n",
        _STATISTICS,
    ),
    Fault(
        "a column without bounds in a footer counts as one of nulls",
        "engine/tideline/hudi/file_group/column_ranges.py",
        "        if not statistics.has_min_max:\n            return None\n",
        "        if not statistics.has_min_max:\n"
        "            return ColumnRange(kind, None, None, 0, 0)\n",
        _STATISTICS,
    ),
    Fault(
        "keys that a write deletes stay in the record index",
        f"{_ROOM}/record_index.py",
        "            if keys.removed is not None:\n",
        "            if False:\n",
        _KEYS,
    ),
    Fault(
        "logs of version 6 are named as those of others that were deleted",
        f"{_ROOM}/form_by_slice.py",
        '        return f"0-{int(day)}-{int(clock)}"\n',
        '        return "0-0-0"\n',
        ("engine/tests/hudi/metadata_table/test_logs_named_by_slice.py",),
    ),
    Fault(
        "a key that moves is deleted from the record index",
        f"{_ROOM}/record_index.py",
        "KeyRuns((*gone, *there, ",
        "KeyRuns((*there, *gone, ",
        _KEYS,
    ),
    Fault(
        "keys of replaced file groups stay in the record index",
        f"{_ROOM}/record_index.py",
        "    replaced = [group for group in before if group not in after]\n",
        "    replaced: list[FileGroupId] = []\n",
        _KEYS,
    ),
    Fault(
        "a clustering leaves keys at their old places",
        f"{_ROOM}/record_index.py",
        '_COMPACTIONS = ("COMPACT", "LOG_COMPACT")\n',
        '_COMPACTIONS = ("COMPACT", "LOG_COMPACT", "CLUSTER")\n',
        _KEYS,
    ),
    Fault(
        "a partition without keys has no shard",
        f"{_ROOM}/record_index.py",
        "    return sorted(missing)\n",
        "    return []\n",
        _KEYS,
    ),
    Fault(
        "a delete in a log counts whether it wins or not",
        "engine/tideline/hudi/file_group/key_changes.py",
        "        return not may_delete(selected, self.after)\n",
        "        return True\n",
        _KEYS,
    ),
    Fault(
        "keys that are appended are read from the front of a file",
        "engine/tideline/hudi/file_group/key_changes.py",
        "keys.slice(len(keys) - count)",
        "keys.slice(0, count)",
        _KEYS,
    ),
    Fault(
        "a place that the table does not have is believed",
        "engine/tideline/hudi/write/write_by_location.py",
        "        is_known = places <= found\n",
        "        is_known = bool(places)\n",
        _PLACES,
    ),
    Fault(
        "files that have none of the keys are counted as read",
        "engine/tideline/hudi/placement/lookup_plan.py",
        "        return index_s <= files_s * left_out\n",
        "        return index_s <= files_s\n",
        ("engine/tests/hudi/placement/test_lookup_plan.py",),
    ),
    Fault(
        "the greatest key of a file is left out",
        "engine/tideline/hudi/file_group/wanted_keys.py",
        "bisect_right(self.keys, bounds[1]",
        "bisect_left(self.keys, bounds[1]",
        ("engine/tests/hudi/file_group/test_wanted_keys.py",),
    ),
    Fault(
        "a block that is copied loses a change that falls into it",
        "engine/tideline/formats/hfile_splice.py",
        "            if not its and number < len(blocks) - 1:\n",
        "            if number < len(blocks) - 1:\n",
        ("engine/tests/formats/test_hfile_splice.py",),
    ),
    Fault(
        "rows of statistics that are added up replace each other in a compaction",
        f"{_ROOM}/column_row.py",
        "    return list(newest.values()) if is_replaced else None\n",
        "    return list(newest.values())\n",
        _STATISTICS,
    ),
    Fault(
        "a value that is replaced stays in a secondary index",
        f"{_ROOM}/secondary_index.py",
        "KeyRuns((*gone, *there), are_values",
        "KeyRuns((*there,), are_values",
        _KEYS,
    ),
    Fault(
        "records of a secondary index are in the file group of their whole key",
        f"{_ROOM}/secondary_index.py",
        "are_values=self.hashes_value)",
        "are_values=False)",
        _KEYS,
    ),
    Fault(
        "the bloom filter of a file stays when it is cleaned",
        f"{_ROOM}/bloom_filters.py",
        "        return gone + [",
        "        return [",
        _FILTERS,
    ),
    Fault(
        "a file without a bloom filter is left out of those that have one",
        f"{_ROOM}/bloom_filters.py",
        '                    return CannotFollow(f"{file.path} has no bloom filter of its keys")\n',
        "                    continue\n",
        _FILTERS,
    ),
    Fault(
        "a bloom filter is under the file's name alone",
        f"{_ROOM}/bloom_filters.py",
        "    return partition_id(file.partition) + file_id_hash(file.name)\n",
        "    return file_id_hash(file.name)\n",
        _FILTERS,
    ),
    Fault(
        "a key that was deleted comes back at a compaction",
        f"{_ROOM}/optional_partition.py",
        "        return tuple({record.key: record for record in records}.values())\n",
        "        said = (record for record in records if not record.is_deleted)\n"
        "        return tuple({record.key: record for record in said}.values())\n",
        _KEYS,
    ),
    Fault(
        "of two writers of a partition the one that began last counts",
        f"{_ROOM}/form_by_commit.py",
        "            return completed(log.instant), log.instant, log.version, log.write_token\n",
        "            return log.instant, log.instant, log.version, log.write_token\n",
        _STATISTICS,
    ),
    Fault(
        "adopt keeps what is looked up in an index that goes",
        "engine/tideline/hudi/adoption/kept_partitions.py",
        "        yield PartitionState(name, why_dropped=reason) if gone else partition\n",
        "        yield partition\n",
        ("engine/tests/hudi/adoption/test_kept_partitions.py",),
    ),
    Fault(
        "a restore takes indexes away",
        "engine/tideline/hudi/services/restore/execute.py",
        "        there.make_again(table, guard)\n",
        "",
        _KEYS,
    ),
)
