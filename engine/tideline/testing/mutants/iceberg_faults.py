"""Faults in the maintenance of Iceberg tables."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_ICEBERG = "engine/tideline/iceberg"
_TESTS = "engine/tests/iceberg"

ICEBERG_FAULTS = (
    Fault(
        "a rewrite commits over a delete that came concurrently",
        f"{_ICEBERG}/commit/validation.py",
        "            if path is not None:\n                return (\n",
        "            if path is not None and not path:\n                return (\n",
        (f"{_TESTS}/test_commit_races.py",),
    ),
    Fault(
        "a rewrite commits to a branch that was reset",
        f"{_ICEBERG}/commit/validation.py",
        "    if since is None:\n        return (\n",
        "    if since is None:\n        since = ()\n    if len(since) > 999:\n        return (\n",
        (f"{_TESTS}/test_commit_races.py",),
    ),
    Fault(
        "files of a commit in doubt are removed",
        f"{_ICEBERG}/commit/snapshot_producer.py",
        "    if isinstance(outcome, Conflicted):\n        remove_quietly",
        "    if not isinstance(outcome, Committed):\n        remove_quietly",
        (f"{_TESTS}/test_commit_faults.py",),
    ),
    Fault(
        "a commit in doubt is called refused",
        f"{_ICEBERG}/table/file_system_table.py",
        "        return Unknown(reason, arguments=self.arguments)\n",
        "        return Conflicted(failure)\n",
        (f"{_TESTS}/test_commit_faults.py",),
    ),
    Fault(
        "a table's next version is made on top of an old one",
        f"{_ICEBERG}/table/file_system_table.py",
        "        if now.version != base.version:\n",
        "        if now.version is None:\n",
        (f"{_TESTS}/test_file_system_table.py", f"{_TESTS}/test_commit_races.py"),
    ),
    Fault(
        "an equality delete deletes rows of its own commit",
        f"{_ICEBERG}/scan/delete_index.py",
        "        return self.entries[bisect_right(self.numbers, number) :]\n",
        "        return self.entries[bisect_left(self.numbers, number) :]\n",
        (f"{_TESTS}/test_delete_index.py",),
    ),
    Fault(
        "a position delete misses rows of its own commit",
        f"{_ICEBERG}/scan/delete_index.py",
        "        return self.entries[bisect_left(self.numbers, number) :]\n",
        "        return self.entries[bisect_right(self.numbers, number) :]\n",
        (f"{_TESTS}/test_delete_index.py",),
    ),
    Fault(
        "expiry ignores branches and tags",
        f"{_ICEBERG}/maintenance/expire_plan.py",
        "    kept = retention.snapshots(refs) - named\n",
        "    kept = retention.snapshots({MAIN: refs[MAIN]} if MAIN in refs else {}) - named\n",
        (f"{_TESTS}/test_expire_plan.py",),
    ),
    Fault(
        "files of a commit under way are orphans",
        f"{_ICEBERG}/maintenance/orphan_plan.py",
        "        if not self.is_forced and now_ms - self.older_than_ms < AGE_MS_MIN:\n",
        "        if not self.is_forced and self.older_than_ms > now_ms:\n",
        (f"{_TESTS}/test_orphan_files.py",),
    ),
    Fault(
        "another table at the place is taken for the one that was loaded",
        f"{_ICEBERG}/table/table_identity.py",
        "found is None or found == self.table_uuid:",
        "found is None or found:",
        (f"{_TESTS}/test_replaced_table.py",),
    ),
    Fault(
        "files of a second table in the folder are orphans",
        f"{_ICEBERG}/maintenance/second_table.py",
        "        if found not in allowed:\n",
        "        if not found:\n",
        (f"{_TESTS}/test_replaced_table.py",),
    ),
    Fault(
        "an expiry takes for granted that branches and tags have not moved",
        f"{_ICEBERG}/maintenance/expire_plan.py",
        "for name, ref in refs),\n",
        "for name, ref in refs if name == MAIN),\n",
        (f"{_TESTS}/test_maintenance_catalog.py",),
    ),
    Fault(
        "files that only a branch or tag leads to are expired",
        f"{_ICEBERG}/maintenance/expired_files.py",
        "        kept = self._by_place(after.snapshots, places)\n",
        "        kept = self._by_place(after.ancestors(after.current_snapshot_id), places)\n",
        (f"{_TESTS}/test_expire_snapshots.py",),
    ),
    Fault(
        "snapshots are expired without access to their files",
        f"{_ICEBERG}/maintenance/expire_snapshots.py",
        "        if attempt == 1 and options.clean_expired_files:\n",
        "        if attempt == 0 and options.clean_expired_files:\n",
        (f"{_TESTS}/test_expire_snapshots.py",),
    ),
    Fault(
        "a deletion of expired files that failed is no error",
        f"{_ICEBERG}/maintenance/expire_snapshots.py",
        "        failure = _failure(operations, deleted, error)\n",
        "        _failure(operations, deleted, error)\n",
        (f"{_TESTS}/test_expire_snapshots.py", f"{_TESTS}/test_commands_in_messages.py"),
    ),
    Fault(
        "bounds of paths outside ASCII are compared as bytes",
        f"{_ICEBERG}/commit/validation.py",
        "    return bound if bound is not None and bound.isascii() else None\n",
        "    return bound\n",
        (f"{_TESTS}/test_commit_races.py",),
    ),
    Fault(
        "the last path that a delete names does not count",
        f"{_ICEBERG}/commit/validation.py",
        "paths[start] > upper",
        "paths[start] >= upper",
        (f"{_TESTS}/test_commit_races.py",),
    ),
    Fault(
        "the first path that a delete names does not count",
        f"{_ICEBERG}/commit/validation.py",
        "        start = 0 if lower is None else bisect_left(paths, lower)\n",
        '        start = 0 if lower is None else bisect_left(paths, lower + b"\\0")\n',
        (f"{_TESTS}/test_commit_races.py",),
    ),
    Fault(
        "an equality delete as old as the new files counts as younger",
        f"{_ICEBERG}/commit/validation.py",
        "delete.sequence_number > sequence_number",
        "delete.sequence_number >= sequence_number",
        (f"{_TESTS}/test_commit_races.py",),
    ),
    Fault(
        "a refusal after an answer in doubt counts as certain",
        f"{_ICEBERG}/table/catalog_http.py",
        "(is_change and status >= 400)",
        "(is_change and status >= 500)",
        (f"{_TESTS}/test_busy_catalog.py",),
    ),
    Fault(
        "a commit is reported as none because of what follows it",
        f"{_ICEBERG}/rewrite/run.py",
        "        except TidelineError as error:\n            self.deletes_left = str(error)\n",
        "        except TidelineError as error:\n            raise error\n",
        (f"{_TESTS}/test_random_rest_server.py::test_what_fails_after_a_commit_does_not_hide_it",),
    ),
    Fault(
        "a table that was made anew in a folder is taken for the one before",
        f"{_ICEBERG}/table/file_system_table.py",
        "        is_known = known.stored is not None and _is_same_file(known.stored, found)\n",
        "        is_known = known.stored is not None\n",
        ("operator/tests/observe/test_iceberg_observation.py",),
    ),
)
