"""Faults in table services: rollback, cleaning, archival, savepoints, restore, rewrites."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_SERVICES = "engine/tideline/hudi/services"
_TESTS, _RECOVERY_TESTS = "engine/tests/hudi/services", "engine/tests/hudi/recovery"
_ROLLBACK, _CLEANING = "engine/tideline/hudi/recovery", f"{_SERVICES}/cleaning"
_HERE, _HERE_TESTS = "engine/tideline/in_process", "engine/tests/in_process"
_CLEANING_TESTS = (f"{_TESTS}/test_cleaning_plan.py",)
_ZONE_TESTS = (f"{_TESTS}/test_services_in_a_zone.py",)
_ARCHIVAL_TESTS = (f"{_TESTS}/test_archival_plan.py",)

SERVICE_FAULTS = (
    Fault(
        "an index that cannot be made keeps others from being made",
        f"{_SERVICES}/indexing/execute.py",
        "                failed[name] = error\n",
        "                raise\n",
        (f"{_TESTS}/test_indexing.py",),
    ),
    Fault(
        "the columns of statistics are those of a secondary index",
        f"{_SERVICES}/indexing/execute.py",
        "    return {**given, COLUMN_LIST: name.removeprefix(SECONDARY_INDEX)}\n",
        "    return given\n",
        (f"{_TESTS}/test_indexing.py",),
    ),
    Fault(
        "a rollback does not delete once more what a late task published",
        f"{_ROLLBACK}/execute.py",
        "        _remove_markers(table, marked)\n",
        "        delete_markers(table.store, plan.instant)\n",
        (f"{_RECOVERY_TESTS}/test_rollback_of_failed_writes.py",),
    ),
    Fault(
        "a sweep does not delete once more what a late task published",
        f"{_ROLLBACK}/execute.py",
        "    undo_files(table, plan, table.timeline().newest_time() or time)\n"
        "    _remove_markers(table, plan)\n\n\ndef _roll_back",
        "    undo_files(table, plan, table.timeline().newest_time() or time)\n"
        "    delete_markers(table.store, time)\n\n\ndef _roll_back",
        (f"{_RECOVERY_TESTS}/test_rollback_of_failed_writes.py",),
    ),
    Fault(
        "a rollback removes the instant before its files",
        f"{_ROLLBACK}/execute.py",
        "    undone = undo_files(table, plan, rollback.time)\n    if not keeps_plan:\n"
        "        remove_pending_states(table, failed)\n",
        "    if not keeps_plan:\n        remove_pending_states(table, failed)\n"
        "    undone = undo_files(table, plan, rollback.time)\n",
        (f"{_RECOVERY_TESTS}/test_rollback_order.py",),
    ),
    Fault(
        "a live writer is rolled back",
        f"{_ROLLBACK}/execute.py",
        "instant.time: policy.eager or policy.is_dead(table, instant.time) for",
        "instant.time: True for",
        (f"{_RECOVERY_TESTS}/test_rollback_of_failed_writes.py",),
    ),
    Fault(
        "the sweep ignores a heartbeat",
        f"{_ROLLBACK}/sweep.py",
        "        if not policy.is_dead(table, time):\n            return False\n",
        "",
        (f"{_RECOVERY_TESTS}/test_rollback_resume.py",),
    ),
    Fault(
        "a rollback trusts a marker of another instant",
        f"{_ROLLBACK}/plan.py",
        "            if file is None or file.instant != self.instant.time:\n",
        "            if file is None:\n",
        (f"{_RECOVERY_TESTS}/test_rollback_of_failed_writes.py",),
    ),
    Fault(
        "an appended block is not taken back",
        f"{_ROLLBACK}/undo.py",
        "    logs = (_write_command_block(table.store, plan, item, rollback)"
        " for item in plan.log_rollbacks)\n",
        "    logs: tuple[LogFile, ...] = ()\n",
        (f"{_RECOVERY_TESTS}/test_rollback_of_log_appends.py",),
    ),
    Fault(
        "cleaning keeps one commit less than it is to",
        f"{_CLEANING}/retention.py",
        "            earliest = completed[-config.commits_retained]\n",
        "            earliest = completed[1 - config.commits_retained]\n",
        _CLEANING_TESTS,
    ),
    Fault(
        "cleaning goes past a pending write",
        f"{_CLEANING}/retention.py",
        "            if pending is not None and earliest.time > pending.time:\n"
        "                earliest = _last_before(completed, pending.time)\n",
        "",
        _CLEANING_TESTS,
    ),
    Fault(
        "cleaning deletes the version that the earliest commit saw",
        f"{_CLEANING}/plan.py",
        "for file_slice in below[1:] if not",
        "for file_slice in below if not",
        _CLEANING_TESTS,
    ),
    Fault(
        "cleaning deletes what a savepoint names",
        f"{_CLEANING}/plan.py",
        "    protected = set(facts.savepointed.get(partition, ()))\n"
        "    for time in (*retention.pinned, *facts.timeline.savepointed_times()):\n",
        "    protected: set[str] = set()\n    for time in retention.pinned:\n",
        _CLEANING_TESTS,
    ),
    Fault(
        "cleaning deletes what a pending plan reads",
        f"{_CLEANING}/plan.py",
        "    return since is None or file_slice.base_instant >= since\n",
        "    return False\n",
        _CLEANING_TESTS,
    ),
    Fault(
        "archival goes past a savepoint",
        f"{_SERVICES}/archival/plan.py",
        "        _savepoint(timeline, config),\n",
        "",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "archival goes past a pending write",
        f"{_SERVICES}/archival/plan.py",
        "        _oldest_unsettled(timeline, facts),\n",
        "",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "a clean stays that is older than an archived commit",
        f"{_SERVICES}/archival/plan.py",
        "        if commits:\n",
        "        if commits and len(commits) > config.commits_max:\n",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "archival takes what the metadata table has in a log alone",
        f"{_SERVICES}/archival/plan.py",
        "        if max(instant.time, instant.completed_at or instant.time) >= compaction:\n",
        "        if instant.time >= compaction:\n",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "archival goes beyond a savepoint",
        f"{_SERVICES}/archival/plan.py",
        "    if first is None:\n        return None\n    reason = ",
        "    if first is None or config.beyond_savepoint:\n        return None\n    reason = ",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "a commit after a restore leaves the timeline before its logs leave the table",
        f"{_SERVICES}/archival/plan.py",
        "for time in facts.with_logs),",
        "for time in facts.with_logs if not time),",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "archival brings replaced files back to life",
        f"{_SERVICES}/archival/plan.py",
        "for time in facts.not_cleaned),",
        "for time in facts.not_cleaned if not time),",
        _ARCHIVAL_TESTS,
    ),
    Fault(
        "a savepoint is made of what was cleaned",
        f"{_SERVICES}/savepoint/execute.py",
        "    _refuse_cleaned(table, timeline, commit)\n",
        "",
        (f"{_TESTS}/test_savepoints.py",),
    ),
    Fault(
        "a restore spares what completed later and began before",
        f"{_SERVICES}/restore/plan.py",
        "        return when > reached or (when == reached and by_time)\n",
        "        return by_time\n",
        (f"{_TESTS}/test_restore.py",),
    ),
    Fault(
        "compaction takes a file group that is being clustered",
        f"{_SERVICES}/compaction/plan.py",
        "    busy = {**view.pending_compaction, **view.pending_clustering}\n",
        "    busy = {**view.pending_compaction}\n",
        (f"{_TESTS}/test_compaction_plan.py",),
    ),
    Fault(
        "compaction overtakes a write under way",
        f"{_SERVICES}/compaction/plan.py",
        "    if blocking:\n",
        "    if len(blocking) > 99:\n",
        (f"{_TESTS}/test_compaction_plan.py",),
    ),
    Fault(
        "clustering takes a file group that is being compacted",
        f"{_SERVICES}/clustering/plan.py",
        "    busy = {**view.pending_compaction, **view.pending_clustering}\n",
        "    busy = {**view.pending_clustering}\n",
        (f"{_TESTS}/test_clustering_plan.py",),
    ),
    Fault(
        "archival takes the table lock for another time than asked for",
        "engine/tideline/hudi/services/archival/execute.py",
        "        with table.lock(lock_timing).acquire() as lease:\n",
        "        with table.lock().acquire() as lease:\n",
        ("engine/tests/hudi/services/test_services_among_others.py",),
    ),
    Fault(
        "archival continues without its lock",
        "engine/tideline/hudi/services/archival/lock_loss.py",
        "        if not has_lease(lease):\n",
        "        if False:\n",
        ("engine/tests/hudi/services/test_archival_without_its_lock.py",),
    ),
    Fault(
        "a service completes although its rollback has begun",
        "engine/tideline/hudi/services/service_transaction.py",
        "        if find_undoing(timeline, now, self.table.timelines.read) is not None:\n",
        "        if now.is_completed:\n",
        ("engine/tests/hudi/services/test_services_among_others.py",),
    ),
    Fault(
        "cleaning by hours takes digits of a zone for UTC",
        f"{_CLEANING}/retention.py",
        "(instant for instant in completed if known.zone.epoch_ms(instant.time) >= oldest_ms)",
        "(instant for instant in completed if instant.time.epoch_ms() >= oldest_ms)",
        _ZONE_TESTS,
    ),
    Fault(
        "digits that come twice count as the earlier moment",
        "engine/tideline/hudi/timeline/zone.py",
        "        return self._moments_ms(time)[-1]\n",
        "        return self._moments_ms(time)[0]\n",
        _ZONE_TESTS,
    ),
    Fault(
        "a trigger takes the time of a delta commit for that of its completion",
        f"{_SERVICES}/compaction/plan.py",
        "        completed_at=completion_times(facts.timeline, facts.zone.zone),\n",
        "        completed_at={},\n",
        ("operator/tests/decide/test_due_answers_agree.py",),
    ),
    Fault(
        "a service is missing from the registry",
        f"{_SERVICES}/registry.py",
        "    COMPACTION,\n    LOG_COMPACTION,\n",
        "    COMPACTION,\n",
        (f"{_TESTS}/test_service_registry.py",),
    ),
    Fault(
        "a table counts as without log files once a commit has written one",
        "operator/tideline_operator/observe/instant_reader.py",
        "            return self._content(instant).has_logs\n",
        "            return False\n",
        ("operator/tests/observe/test_observing_services.py",),
    ),
    Fault(
        "the operator does not see what keeps instants from being archived",
        "operator/tideline_operator/observe/instant_reader.py",
        "        return replace(seen, history=replace(seen.history, archival_holds=holds))\n",
        "        return seen\n",
        ("operator/tests/decide/test_due_answers_agree.py",),
    ),
    Fault(
        "a history forgets what was archived before",
        "engine/tideline/hudi/timeline/lsm_writer.py",
        "    files = [*(file for file in manifest.files if file not in replaced), written]\n",
        "    files = [written]\n",
        ("engine/tests/hudi/timeline/test_lsm_writer.py",),
    ),
    Fault(
        "a history's data files go while a manifest that is kept names them",
        "engine/tideline/hudi/timeline/lsm_writer.py",
        "(number for number in keeping.values() if number <= newest)",
        "[newest]",
        ("engine/tests/hudi/timeline/test_lsm_writer.py",),
    ),
    Fault(
        "threads begin work for which there is no memory",
        "engine/tideline/hudi/write/bounded_threads.py",
        "if not running or held + sizes[n] <= held_bytes_max",
        "if not running or sizes[n] <= held_bytes_max",
        (f"{_HERE_TESTS}/test_service_size.py",),
    ),
    Fault(
        "threads continue after another one has failed",
        "engine/tideline/hudi/write/bounded_threads.py",
        "            stop()\n            raise\n",
        "            raise\n",
        (f"{_HERE_TESTS}/test_service_size.py",),
    ),
    Fault(
        "a plan counts as small by its largest file group",
        f"{_HERE}/service_size.py",
        "sum(file_slice.size_bytes for file_slice in slices)\n    if",
        "max((file_slice.size_bytes for file_slice in slices), default=0)\n    if",
        (f"{_HERE_TESTS}/test_service_size.py",),
    ),
    Fault(
        "parts of a file are written in another order",
        f"{_HERE}/split_clustering.py",
        "    return sorted(set().union(*(routed_slice.parts(file) for routed_slice in routed)))\n",
        "    return sorted(set().union(*(routed_slice.parts(file) for routed_slice in routed)), "
        "reverse=True)\n",
        (f"{_HERE_TESTS}/test_services_without_spark.py",),
    ),
    Fault(
        "only the first batch of a part is read back",
        f"{_HERE}/split_clustering.py",
        "            for number in numbers:\n",
        "            for number in numbers[:1]:\n",
        (f"{_HERE_TESTS}/test_services_without_spark.py",),
    ),
    Fault(
        "a service in this process knows no time limit",
        f"{_HERE}/service_work.py",
        "        if seconds_max is None:\n",
        "        if seconds_max is not None:\n",
        (f"{_HERE_TESTS}/test_services_without_spark.py",),
    ),
    Fault(
        "what saves least goes first",
        "engine/tideline/services/ranking.py",
        "        best = max(free, key",
        "        best = min(free, key",
        ("engine/tests/hudi/services/test_ranking.py",),
    ),
    Fault(
        "what a compaction leaves to merge counts as saved",
        "engine/tideline/services/benefit.py",
        "            + self.delta_bytes * DELTA_MERGED_FACTOR\n",
        "            - self.delta_bytes * DELTA_MERGED_FACTOR\n",
        (
            "engine/tests/hudi/services/test_ranking.py",
            "engine/tests/hudi/services/test_what_services_save.py",
        ),
    ),
)
