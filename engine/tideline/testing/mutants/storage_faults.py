"""Faults in stores, locks and heartbeats."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_STORAGE = "engine/tideline/storage"
_TESTS = "engine/tests/storage"
_LOCAL, _LOCK = f"{_STORAGE}/local/store.py", f"{_STORAGE}/storage_lock.py"
_HEARTBEAT, _PROBE = f"{_STORAGE}/heartbeat.py", f"{_STORAGE}/probe/conditions.py"
_SCOPE, _SCOPE_TESTS = f"{_STORAGE}/delete_scope.py", (f"{_TESTS}/test_delete_scope.py",)
_POWER = ("engine/tests/simulation/test_power_loss.py",)
_LOCAL_STORE = (f"{_TESTS}/test_local_store.py",)
_LOCK_TESTS = (f"{_TESTS}/test_storage_lock.py",)

STORAGE_FAULTS = (
    Fault(
        "a create on a folder replaces what a faster one wrote",
        _LOCAL,
        "                target.hardlink_to(temporary)\n",
        "                temporary.replace(target)\n",
        _LOCAL_STORE,
    ),
    Fault(
        "compare-and-swap on a folder compares nothing",
        _LOCAL,
        "if _version(body_now, os.fstat(current)) != version:",
        "if not version:",
        _LOCAL_STORE,
    ),
    Fault(
        "a body is not flushed before it gets its name",
        _LOCAL,
        "                    os.fsync(file.fileno())\n",
        "                    pass\n",
        _POWER,
    ),
    Fault(
        "an upload is not flushed",
        _LOCAL,
        "                os.fsync(descriptor)\n            finally:\n"
        "                os.close(descriptor)\n            flush_folder(self._file.parent)\n",
        "                pass\n            finally:\n"
        "                os.close(descriptor)\n            flush_folder(self._file.parent)\n",
        _POWER,
    ),
    Fault(
        "the name of an upload is not flushed",
        _LOCAL,
        "            flush_folder(self._file.parent)\n",
        "",
        _POWER,
    ),
    Fault(
        "the name of a body is not flushed",
        _LOCAL,
        "        if flush:\n            flush_folder(target.parent)\n",
        "",
        _POWER,
    ),
    Fault(
        "the name of a new folder is not flushed",
        f"{_STORAGE}/local/folders.py",
        "        flush_folder(made.parent)\n",
        "        pass\n",
        _POWER,
    ),
    Fault(
        "a lock is taken before its lease has ended",
        _LOCK,
        "now_ms > self.valid_until_ms + DRIFT_MS_MAX",
        "now_ms > self.valid_until_ms - DRIFT_MS_MAX",
        _LOCK_TESTS,
    ),
    Fault(
        "a lease that has ended is renewed",
        _LOCK,
        "                if not self.is_held():\n                    self._lost = True\n",
        "                if False:\n                    self._lost = True\n",
        _LOCK_TESTS,
    ),
    Fault(
        "a lease trusts the wall clock alone",
        _LOCK,
        "return max(0.0, min(wall_s, self.valid_until_monotonic_s - clock.monotonic_s()))",
        "return max(0.0, wall_s)",
        _LOCK_TESTS,
    ),
    Fault(
        "a lease is renewed over a foreign owner",
        _LOCK,
        "        if holder.owner != self.owner or holder.expired:\n            return False\n",
        "",
        _LOCK_TESTS,
    ),
    Fault(
        "a heartbeat never expires for its own writer",
        _HEARTBEAT,
        "        if silent_s > self._limits.silent_s_max:\n",
        "        if silent_s < 0:\n",
        (f"{_TESTS}/test_heartbeat.py",),
    ),
    Fault(
        "a heartbeat that lapses is deleted",
        _HEARTBEAT,
        "        if self._stop_renewing():\n            self._release_lock()\n\n    def renew",
        "        self.stop()\n\n    def renew",
        (f"{_TESTS}/test_heartbeat.py",),
    ),
    Fault(
        "a silent writer counts as alive",
        _HEARTBEAT,
        "    return age_ms is None or age_ms > limits.silent_s_max * 1000\n",
        "    return age_ms is None\n",
        (f"{_TESTS}/test_heartbeat.py",),
    ),
    Fault(
        "another process' clock overrules the kernel's word",
        _HEARTBEAT,
        "    if word is not KernelWord.NOTHING:\n",
        "    if not name:\n",
        (f"{_TESTS}/test_writer_liveness.py",),
    ),
    Fault(
        "a delete reaches into a table below",
        _SCOPE,
        "        if root is not None:\n            return real,",
        "        if root and not root:\n            return real,",
        _SCOPE_TESTS,
    ),
    Fault(
        "a delete reaches into the control folder",
        _SCOPE,
        'return real, None if is_entitled else "it is in the control folder of a table"',
        "return real, None",
        _SCOPE_TESTS,
    ),
    Fault(
        "a delete follows a link out of the table",
        _SCOPE,
        "real = real_path_in(self.store, checked_path(path))",
        "real = checked_path(path)",
        _SCOPE_TESTS,
    ),
    Fault(
        "a delete does not ask its operation",
        _SCOPE,
        "        return real, self.objection(real)\n",
        "        return real, None\n",
        _SCOPE_TESTS,
    ),
    Fault(
        "one refused delete of many does not stop the others",
        _SCOPE,
        "        if refused:\n            raise self._refused(refused)\n        return tuple(",
        "        if len(refused) == len(checked):\n            raise self._refused(refused)\n"
        "        return tuple(",
        _SCOPE_TESTS,
    ),
    Fault(
        "the probe has no races",
        _PROBE,
        "        for attempt in range(arena.effort.rounds):\n"
        '            wrong = _race_to_create(arena, arena.path(f"race-{key}-{attempt}"))\n',
        "        for attempt in range(0):\n"
        '            wrong = _race_to_create(arena, arena.path(f"race-{key}-{attempt}"))\n',
        (f"{_TESTS}/test_store_probe.py", "-m", "not minio"),
    ),
    Fault(
        "the probe takes any number of winners",
        f"{_STORAGE}/probe/race.py",
        "    if len(winners) > 1:\n",
        "    if len(winners) > len(results):\n",
        (f"{_TESTS}/test_store_probe.py", "-m", "not minio"),
    ),
    Fault(
        "a check removes what no check made",
        f"{_STORAGE}/probe/left_behind.py",
        "        if _OF_A_CHECK.fullmatch(folder):\n",
        "        if True:\n",
        (f"{_TESTS}/test_store_probe.py", "-m", "not minio"),
    ),
    Fault(
        "a check removes the objects of another that is under way",
        f"{_STORAGE}/probe/left_behind.py",
        "            if is_mine or at_ms < now_ms - LASTS_MS_MAX:\n",
        "            if True:\n",
        (f"{_TESTS}/test_store_probe.py", "-m", "not minio"),
    ),
    Fault(
        "authorities that Java trusts are lost with the next",
        "engine/tideline/spark/session/store_connection.py",
        "            store.setCertificateEntry(alias, known.getCertificate(alias))\n",
        "            pass\n",
        ("engine/tests/spark/session/test_session_configuration.py",),
    ),
)
