"""Faults in tables whose columns schema on read changes: columns by name, versions forgotten."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_NAMES = "engine/tideline/hudi/table/stored_names.py"
_HISTORY_TESTS = ("engine/tests/hudi/table/test_schema_history.py",)
_TABLE_TESTS = ("engine/tests/hudi/write/test_altered_tables.py",)

SCHEMA_FAULTS = (
    Fault(
        "a renamed column is looked for by its new name",
        _NAMES,
        "StoredName(stored.name, _inner",
        "StoredName(item.name, _inner",
        _HISTORY_TESTS,
    ),
    Fault(
        "a column that was dropped and added again has its old values",
        _NAMES,
        "            found[item.name] = StoredName(None)\n",
        "            found[item.name] = StoredName(item.name)\n",
        _HISTORY_TESTS,
    ),
    Fault(
        "an id is given twice",
        "engine/tideline/hudi/table/schema_reconciliation.py",
        "    ids = _Ids(current.max_column_id + 1)\n",
        "    ids = _Ids(len(current.root.fields))\n",
        _HISTORY_TESTS,
    ),
    Fault(
        "blocks of logs are read by today's names",
        "engine/tideline/hudi/log/merged_log.py",
        "        stored = history.names_at(block.instant) if history else None\n",
        "        stored = None\n",
        _TABLE_TESTS,
    ),
    Fault(
        "base files are read by today's names",
        "engine/tideline/hudi/file_group/base_file_reader.py",
        "        names = history.names_at(self._base.instant) if history else None\n",
        "        names = None\n",
        _TABLE_TESTS,
    ),
    Fault(
        "an older plan is run with today's names",
        "engine/tideline/hudi/services/planned_run.py",
        "        before = transaction.timeline.before(instant.time)\n",
        "        before = transaction.timeline\n",
        _TABLE_TESTS,
    ),
    Fault(
        "an ALTER during a write goes unnoticed",
        "engine/tideline/hudi/commit/schema_carry.py",
        "    if (now and now.read_as) != (begun_with and begun_with.read_as):\n",
        "    if False:\n",
        _TABLE_TESTS,
    ),
    Fault(
        "the newest version is archived",
        "engine/tideline/hudi/services/archival/plan.py",
        "        _schema(facts),\n",
        "",
        ("engine/tests/hudi/services/test_archival_plan.py",),
    ),
)
