"""Faults in what a table is taken for, and in the care of tables that are not written here."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_CAPABILITIES = "engine/tideline/hudi/capabilities"
_LAYOUT = "engine/tideline/hudi/table/layout"
_SLICE_TESTS = ("engine/tests/hudi/table/test_slices_by_completion.py",)
_CHANGES_TESTS = ("engine/tests/hudi/services/test_logs_of_changes.py",)
_NATURE_TESTS = ("engine/tests/hudi/capabilities/test_table_capabilities.py",)

NATURE_FAULTS = (
    Fault(
        "a table of another zone is written without a declaration",
        f"{_CAPABILITIES}/guard.py",
        "    _require(table, permission, facts_of(table, permission, timeline))\n"
        "    return timeline\n",
        "    return timeline\n",
        ("engine/tests/hudi/services/test_services_in_a_zone.py",),
    ),
    Fault(
        "a table that logs its changes is written",
        f"{_CAPABILITIES}/rules.py",
        "    if not logs_changes or not facts.config.logs_changes:\n",
        "    if True:\n",
        _NATURE_TESTS,
    ),
    Fault(
        "base files of another format are written",
        f"{_CAPABILITIES}/rules.py",
        "    if found == PARQUET or not permission",
        "    if True or not permission",
        _NATURE_TESTS,
    ),
    Fault(
        "a column of Hudi's type variant becomes a struct at the next write",
        f"{_CAPABILITIES}/rules.py",
        "    if facts.schema_json is None or not permission",
        "    if True or not permission",
        _NATURE_TESTS,
    ),
    Fault(
        "a condition keeps a stored row from meeting its log entry",
        "engine/tideline/hudi/file_group/file_slice_merge.py",
        "        self._row_filter = None if file_slice.log_files or ctx.history else row_filter\n",
        "        self._row_filter = row_filter\n",
        ("engine/tests/hudi/read/test_row_groups_of_slices.py",),
    ),
    Fault(
        "the rows of a skeleton are joined with those of other row groups",
        "engine/tideline/hudi/file_group/base_file_reader.py",
        "        row_filter = row_filter if base.is_plain else None\n",
        "",
        ("engine/tests/hudi/table/test_bootstrapped_tables.py",),
    ),
    Fault(
        "statistics are taken to speak of nulls",
        "engine/tideline/formats/row_group_statistics.py",
        "    return [within, column.is_null()] if statistics.null_count else [within]\n",
        "    return [within]\n",
        ("engine/tests/formats/test_row_groups_by_statistics.py",),
    ),
    Fault(
        "statistics without bounds are compared all the same",
        "engine/tideline/formats/row_group_statistics.py",
        "    if not statistics.has_min_max:\n",
        "    if False:\n",
        ("engine/tests/formats/test_row_groups_by_statistics.py",),
    ),
    Fault(
        "times in ORC files are taken for those of a clock in UTC",
        "engine/tideline/formats/orc_rows.py",
        "            if zone not in _UTC:\n",
        "            if False:\n",
        ("engine/tests/formats/test_orc_rows.py",),
    ),
    Fault(
        "a source that was written again gives its rows to the keys of others",
        "engine/tideline/hudi/file_group/bootstrapped_rows.py",
        "    if info.size_bytes != source.size_bytes:\n",
        "    if False:\n",
        ("engine/tests/hudi/table/test_bootstrapped_tables.py",),
    ),
    Fault(
        "another lock provider stops no writer",
        f"{_CAPABILITIES}/rules.py",
        "_endangered(facts.config, Risk.LOCKING) if permission.changes_table else None",
        "None",
        _NATURE_TESTS,
    ),
    Fault(
        "cleaning leaves logs of changes behind",
        "engine/tideline/hudi/table/file_group.py",
        "        return (*self.row_files, *self.cdc_files)\n",
        "        return self.row_files\n",
        _CHANGES_TESTS,
    ),
    Fault(
        "the rollback of a compaction takes what others appended next to its log of changes",
        "engine/tideline/hudi/recovery/plan.py",
        "        if marker.is_cdc:\n",
        "        if marker.is_cdc and not self.files:\n",
        _CHANGES_TESTS,
    ),
    Fault(
        "logs are merged by another rule than the table's own",
        "engine/tideline/hudi/file_group/file_slice_merge.py",
        "        if file_slice.log_files and ctx.merge_mode is None:\n",
        "        if file_slice.log_files and ctx.merge_mode is None and not ctx.table:\n",
        _CHANGES_TESTS,
    ),
    Fault(
        "a log is ordered by the time its commit was requested, not completed",
        f"{_LAYOUT}/version_8.py",
        "        completed = self.completed.get(log.instant) or self.archived(log.instant)\n",
        "        completed = log.instant\n",
        _SLICE_TESTS,
    ),
    Fault(
        "a commit that completes as a slice begins is merged into the one before",
        f"{_LAYOUT}/version_8.py",
        "if start <= completed), default=log.instant)",
        "if start < completed), default=log.instant)",
        _SLICE_TESTS,
    ),
    Fault(
        "logs of commits that did not complete are merged",
        f"{_LAYOUT}/version_8.py",
        "committed = [item for item in files if self.timeline.is_committed(item.instant)]",
        "committed = [*files]",
        _SLICE_TESTS,
    ),
    Fault(
        "a table that is only read is written",
        f"{_CAPABILITIES}/rules.py",
        "    _unreadable,\n    _not_changed,\n",
        "    _unreadable,\n",
        ("engine/tests/hudi/capabilities/test_table_capabilities.py",),
    ),
    Fault(
        "properties of a table that is only read are changed",
        "engine/tideline/hudi/table/table_config.py",
        "        if not layout.is_written:\n",
        "        if False:\n",
        ("engine/tests/hudi/table/test_table_properties.py",),
    ),
)
