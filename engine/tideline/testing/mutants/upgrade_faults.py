"""Faults in changes of a table's version: what is there when, what becomes of logs and times."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_ROOM = "engine/tideline/hudi/upgrade"
_EXECUTE = f"{_ROOM}/execute.py"
_CHANGE = ("engine/tests/hudi/upgrade/test_version_change.py",)
_OLDER_LOGS = (f"{_CHANGE[0]}::test_logs_of_older_slices_stop_a_downgrade",)
_DEATHS = ("engine/tests/hudi/upgrade/test_deaths_during_a_change.py",)
_PROPERTIES = ("engine/tests/hudi/upgrade/test_property_changes.py",)
_TIMES = ("engine/tests/hudi/upgrade/test_completion_times.py",)

UPGRADE_FAULTS = (
    Fault(
        "nothing says that a change of version is under way",
        _EXECUTE,
        "    table.properties.update({VERSION_CHANGE: said}, guard)\n",
        "",
        _CHANGE,
    ),
    Fault(
        "a change of version that died stays as it is",
        "engine/tideline/hudi/recovery/sweep.py",
        "    finish_version_change(table)\n",
        "",
        _DEATHS,
    ),
    Fault(
        "the timeline that counts is deleted",
        "engine/tideline/hudi/recovery/version_change.py",
        "        if layout.timeline.version != table.layout.timeline.version:\n",
        "        if layout.timeline.version == table.layout.timeline.version:\n",
        _CHANGE,
    ),
    Fault(
        "the version changes before the archive is written",
        _EXECUTE,
        "    archived = convert_archive(table, plan.after, guard)\n",
        "    archived = 0\n",
        _CHANGE,
    ),
    Fault(
        "logs of another writer are left for the other version",
        _EXECUTE,
        "            if file_slice.log_files:\n                return file_slice",
        "            if False:\n                return file_slice",
        _CHANGE,
    ),
    Fault(
        "logs of older slices are left for the other version",
        _EXECUTE,
        "        slices = whole if plan.forgets else iter(view.latest_slices(partition))\n",
        "        slices = iter(view.latest_slices(partition))\n",
        _OLDER_LOGS,
    ),
    Fault(
        "older slices are not cleaned before a downgrade",
        f"{_ROOM}/run.py",
        "    if plan.forgets:\n",
        "    if plan.forgets and not plan.compacts:\n",
        _OLDER_LOGS,
    ),
    Fault(
        "a metadata table continues under the other version",
        _EXECUTE,
        "    disable_metadata_table(table, guard)\n    guard()\n    adapt_definitions",
        "    guard()\n    adapt_definitions",
        _CHANGE,
    ),
    Fault(
        "an instant of whole seconds completes in the next one",
        f"{_ROOM}/completion_times.py",
        "    if len(time.value) == SECONDS_DIGITS:\n",
        "    if not time.value:\n",
        _TIMES,
    ),
    Fault(
        "who has the table open reads what is being deleted",
        "engine/tideline/hudi/table/table_instants.py",
        "        if found.is_moving or not len(found):\n",
        "        if not len(found):\n",
        _CHANGE,
    ),
    Fault(
        "a savepoint's logs are taken along",
        _EXECUTE,
        "                if file_slice.log_files:\n                    raise",
        "                if False:\n                    raise",
        _CHANGE,
    ),
    Fault(
        "other rows win after an upgrade",
        f"{_ROOM}/property_changes.py",
        "        keys.MERGE_MODE: mode.value,\n",
        "        keys.MERGE_MODE: _EVENT.value,\n",
        _PROPERTIES,
    ),
)
