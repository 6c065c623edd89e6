"""A random history of one table: writes of every kind and every service, with deaths in between.

Settings and steps follow from a seed. After each step a fresh reader must find the rows of a plain
dictionary, now, as of each savepoint and for a pinned reader, and `check` nothing but what the dead
leave. Unlike in `simulated_lake` one step ends before the next begins: what is tried here is how
the traces of one service meet the plans of another.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from unittest.mock import patch

from tideline.check_finding import Finding, RepairKind, Severity
from tideline.errors import ConfigError, ConflictError
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.savepoint.execute import (
    create_savepoint,
    delete_savepoint,
    list_savepoints,
)
from tideline.hudi.services.service import TableService
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.history_model import ExpectedTable, Values, after_write, difference
from tideline.testing.history_settings import HistorySettings
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

STEPS = 45
KEYS = 12
_STEP_S = 1800.0
_DEAD_S = 7200.0
_DEATH_CHANCE = 0.25
_WRITES_UNTIL_DEATH_MAX = 25

Act = Callable[[ObjectStore], object]

_WEIGHTS = {"write": 6, "cleaning": 2, "archival": 2, "savepoint": 2}

_OPERATIONS = (
    *["upsert"] * 5,
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
)
# These may ask for what is gone: commits, cleaned files, archived instants.
_REFUSABLE = ("savepoint", "restore")


class ServiceHistory:
    """One history: `run` it, it raises AssertionError when something is wrong."""

    def __init__(self, seed: int) -> None:
        self.steps: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self._seed = seed
        self._random = Random(seed)
        self._settings = HistorySettings.drawn(self._random)
        properties, table_type = self._settings.properties, self._settings.table_type
        self._table = SmallTable.in_memory(properties, table_type=table_type)
        self._expected = ExpectedTable()
        self._has_died = False
        self._acts = self._possible_acts()

    def run(self, steps: int = STEPS) -> None:
        """All steps, each checked; in the end the newest savepoint is restored."""
        names = [name for name in self._acts for _ in range(_WEIGHTS.get(name, 1))]
        try:
            # File ids come from the seed too, so that it always gives the same history.
            with patch.object(os, "urandom", Random(self._seed).randbytes):
                for _ in range(steps):
                    self._take(self._random.choice(names))
                self._take("restore")
        except Exception as error:
            raise AssertionError(self._report(error)) from error
        finally:
            self._table.forget()

    def _possible_acts(self) -> dict[str, Act]:
        acts: dict[str, Act] = {
            "write": self._write,
            "cleaning": self._running(CLEANING),
            "archival": lambda store: archive_table(self._open(store), self._settings.archival),
            "rollback": self._running(ROLLBACK),
            "savepoint": self._create_savepoint,
            "delete savepoint": self._delete_savepoint,
            "restore": self._restore,
            "pin": self._pin,
            "unpin": self._unpin,
            "plan clustering": self._planning(CLUSTERING),
            "clustering": self._running(CLUSTERING),
            "planned clustering": lambda store: self._services(store).run_pending(CLUSTERING),
        }
        if self._settings.table_type is TableType.MERGE_ON_READ:
            acts["plan compaction"] = self._planning(COMPACTION)
            acts["compaction"] = self._running(COMPACTION)
            acts["log compaction"] = self._running(LOG_COMPACTION)
        return acts

    def _planning(self, service: TableService) -> Act:
        return lambda store: self._services(store).schedule(service)

    def _running(self, service: TableService) -> Act:
        return lambda store: self._services(store).run(service)

    def _report(self, error: Exception) -> str:
        happened = "\n".join(self.steps)
        return (
            f"{type(error).__name__}: {error}\n{self._settings}\n{happened}\n"
            f"Repeat it with TIDELINE_SEED={self._seed}"
        )

    def _take(self, name: str) -> None:
        """One step, which may die at one of its writes, and a look at the table."""
        self._table.fake_clock.advance(_STEP_S)
        plan = FaultPlan()
        if self._random.random() < _DEATH_CHANCE:
            plan = FaultPlan(crash_before_write=self._random.randint(1, _WRITES_UNTIL_DEATH_MAX))
        self.steps.append(f"{len(self.steps) + 1}. {name}")
        ending = "done"
        try:
            self._acts[name](FaultyStore(self._table.store(), plan))
        except SimulatedCrash as death:
            ending = "died"
            self._say(str(death))
            self._has_died = True
            self._table.fake_clock.advance(_DEAD_S)
        except (ConflictError, ConfigError) as error:
            if isinstance(error, ConfigError) and name not in _REFUSABLE:
                raise
            ending = "refused"
            self._say(error.message)
        self.outcomes[f"{name} {ending}"] += 1
        self._check()

    def _say(self, what: str) -> None:
        self.steps[-1] += f", {what}"

    # What a step does

    def _write(self, store: ObjectStore) -> None:
        operation = self._random.choice(_OPERATIONS)
        rows = batch(self._random.sample(range(KEYS), self._random.randint(1, 5)), len(self.steps))
        partitions = set(rows["part"].to_pylist())
        if operation == "delete_partition" and not partitions <= set(
            self._open().files.partitions()
        ):
            operation = "upsert"
        self._say(f"{operation} of {', '.join(rows['id'].to_pylist())}")
        after = replace(self._expected, rows=after_write(self._expected.rows, operation, rows))
        try:
            self._table.write(operation, rows, store=store)
        except SimulatedCrash:
            # It may have committed before.
            if self._rows() == after.rows:
                self._expected = after
            raise
        self._expected = after

    def _create_savepoint(self, store: ObjectStore) -> None:
        try:
            made = create_savepoint(self._open(store)).instant
        except SimulatedCrash:
            self._adopt_savepoints()
            raise
        self._say(str(made))
        self._expected = self._expected.with_savepoints({made, *self._expected.savepoints})

    def _delete_savepoint(self, store: ObjectStore) -> None:
        if not self._expected.savepoints:
            return
        chosen = self._random.choice(sorted(self._expected.savepoints))
        self._say(str(chosen))
        try:
            delete_savepoint(self._open(store), chosen)
        except SimulatedCrash:
            self._adopt_savepoints()
            raise
        self._expected = self._expected.with_savepoints({*self._expected.savepoints} - {chosen})

    def _adopt_savepoints(self) -> None:
        """Whether the one that a dead process was about is there, only the table knows."""
        found = [item.instant for item in list_savepoints(self._open()) if item.is_completed]
        self._expected = self._expected.with_savepoints(found)

    def _restore(self, store: ObjectStore) -> None:
        """To the newest savepoint. A table whose restore died is of no use until it is finished."""
        if not self._expected.savepoints:
            return
        newest = max(self._expected.savepoints)
        self._say(str(newest))
        try:
            restore_table(self._open(store), newest)
        except SimulatedCrash:
            self._table.fake_clock.advance(_DEAD_S)
            restore_table(self._open(), newest)
            self._expected = self._expected.restored(newest)
            raise
        self._expected = self._expected.restored(newest)

    def _pin(self, _store: ObjectStore) -> None:
        newest = self._open().timeline().of(*COMMIT_ACTIONS).completed().last()
        if newest is not None and not self._expected.pinned:
            self._say(str(newest.time))
            self._expected = self._expected.pinning(newest.time)

    def _unpin(self, _store: ObjectStore) -> None:
        self._expected = self._expected.unpinned()

    # What the table holds

    def _open(self, store: ObjectStore | None = None) -> HoodieTable:
        return open_fresh(self._table.location, store, self._table.clock)

    def _services(self, store: ObjectStore) -> TableServices:
        pinned = ",".join(map(str, self._expected.pinned))
        options = {"tideline.clean.pinned.instants": pinned} if pinned else {}
        return local_services(self._table, options, store)

    def _check(self) -> None:
        self._compare("now", None, self._expected.rows)
        for time, rows in self._expected.savepoints.items():
            self._compare(f"as of the savepoint {time}", time, rows)
        for time, rows in self._expected.pinned.items():
            self._compare(f"for a reader of {time}", time, rows)
        findings = [
            finding
            for finding in self._table.lake().check(keys=True)
            if not (self._has_died and is_of_the_dead(finding))
        ]
        assert not findings, f"check finds {findings}"

    def _compare(self, when: str, until: InstantTime | None, expected: Values) -> None:
        differing = difference(self._rows(until), expected)
        assert not differing, f"rows {when}:\n{differing}"

    def _rows(self, until: InstantTime | None = None) -> dict[str, int]:
        """What a fresh reader sees, now or as of an instant; no key twice."""
        found = self._table.merged_values(until)
        assert len(found) == len(dict(found)), f"keys twice: {found}"
        return dict(found)


_OF_THE_DEAD = (
    RepairKind.SWEEP_LEFTOVERS,
    RepairKind.FINISH_ARCHIVAL,
    RepairKind.RESTORE_PROPERTIES,
)


def is_of_the_dead(finding: Finding) -> bool:
    """What a death leaves for the next writer, rollback or archival: it is there, and reported."""
    if finding.check == "timeline":
        return finding.severity is not Severity.ERROR
    kind = finding.repair.kind if finding.repair else None
    return kind in _OF_THE_DEAD
