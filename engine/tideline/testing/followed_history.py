"""A random history of one table, and of those who follow it: readers as of times, consumers of
changes, and readers of what is published.

Settings and steps follow from a seed: writes of every kind, dead writers, commits that overlap,
services, savepoints and restores, archival, cleaning of another engine, new and wider columns,
publications and outages of their catalog. After each step `followed_checks` compares what followers
see with a model. Each step has a seed of its own, so that a history can be played without some of
its steps: `shortest` finds the fewest that still fail.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa

from tideline.errors import ConfigError, ConflictError, CorruptTableError, TidelineError
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.savepoint.execute import list_savepoints
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import UTC_ZONE
from tideline.hudi.write.work_parts import ThreadRunner
from tideline.in_process.run import open_matched_engine
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore
from tideline.testing.archival_of_others import archive_beyond_savepoints
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.followed_model import Restore, Values
from tideline.testing.followed_settings import PARTITIONS
from tideline.testing.followed_table import KEYS, FollowedTable
from tideline.write_and_serve import followed

STEPS = 14
_STEP_S = 600.0
_DEAD_S = 7200.0
_WRITES_UNTIL_DEATH_MAX = 20
_LATE_BY = 7
_WEIGHTS = {
    "upsert": 5, "insert": 2, "several upserts": 3, "savepoint": 2, "restore": 2, "archival": 3,
    "cleaning": 2, "publish": 3, "dead write": 2, "overlap": 2,
}  # fmt: skip


@dataclass
class FollowedHistory(FollowedTable):
    """One history: `run` it, it raises AssertionError when something is wrong.

    `only` are the numbers of the steps that are taken, all unless given.
    """

    def run(self, count: int = STEPS) -> None:
        """All steps, each checked, and in the end everything."""
        with (
            tempfile.TemporaryDirectory(prefix="tideline-history-") as folder,
            # File ids come from the seed too, so that it always gives the same history.
            patch.object(os, "urandom", Random(self.seed).randbytes),
            patch.dict(os.environ),
        ):
            try:
                self._start(Path(folder))
                self._acts = self._possible_acts()
                for number in range(1, count + 1):
                    if self.only is None or number in self.only:
                        self._take(number)
                self._random = Random(f"{self.seed}/end")
                self.steps.append("the end")
                self._outage_ends()
                self._publish()
                self._followers.check_all(self._is_outage)
            except Exception as error:
                raise AssertionError(self._report(error)) from error
            finally:
                MemoryStore.forget(self._location.uri.removeprefix("memory://"))

    def _report(self, error: Exception) -> str:
        happened = "\n".join(self.steps)
        steps = ",".join(map(str, self.taken))
        return (
            f"{type(error).__name__}: {error}\n{self._settings}\n{happened}\n"
            f"Repeat it with TIDELINE_SEED={self.seed} TIDELINE_STEPS={steps}"
        )

    def _possible_acts(self) -> dict[str, Callable[[], object]]:
        acts: dict[str, Callable[[], object]] = {
            "upsert": self._upsert,
            "several upserts": self._several_upserts,
            "insert": self._insert,
            "delete": self._delete,
            "delete by condition": self._delete_where,
            "insert_overwrite": lambda: self._overwrite("insert_overwrite"),
            "insert_overwrite_table": lambda: self._overwrite("insert_overwrite_table"),
            "delete_partition": self._drop_partition,
            "overlap": self._overlap,
            "new column": self._new_column,
            "wider columns": self._wider_columns,
            "dead write": self._dead_write,
            "rollback": lambda: self._lake().recover(),
            "savepoint": self._savepoint,
            "delete savepoint": self._delete_savepoint,
            "restore": self._restore,
            "cleaning": lambda: self._run("cleaning"),
            "cleaning by another engine": self._foreign_clean,
            "archival": lambda: self._run("archival"),
            "archival by another engine": self._foreign_archival,
            "clustering": lambda: self._run("clustering"),
            "dead service": self._dead_service,
            "publish": self._publish,
            "dead publication": self._dead_publication,
        }
        if self._settings.in_catalog:
            acts |= {"outage begins": self._outage_begins, "outage ends": self._outage_ends}
        if self._settings.table_type is TableType.MERGE_ON_READ:
            acts["compaction"] = lambda: self._run("compaction")
            acts["plan compaction"] = lambda: self._lake().schedule("compaction")
            acts["log compaction"] = lambda: self._run("log_compaction")
        return acts

    def _take(self, number: int) -> None:
        """One step and a look at what followers see."""
        self._random = Random(f"{self.seed}/{number}")
        names = [name for name in self._acts for _ in range(_WEIGHTS.get(name, 1))]
        name = "upsert" if number == 1 else self._random.choice(names)
        self._clock.advance(_STEP_S)
        self.taken.append(number)
        self._has_died = False
        self.steps.append(f"{number}. {self._clock_text()} {name}")
        ending, moments = "done", len(self._model.moments)
        try:
            self._acts[name]()
        except ConflictError as error:
            ending = "conflict"
            self._say(error.message)
        is_published = (
            self._settings.follows
            and not (self._is_outage or self._has_died)
            and len(self._model.moments) > moments
        )
        self.outcomes[f"{name} {ending}"] += 1
        self._clock.advance(60)
        self._followers.after_step(is_published=is_published)
        self._followers.check_some(Random(f"{self.seed}/{number}/check"), self._is_outage)

    def _clock_text(self) -> str:
        return str(UTC_ZONE.instant_at(self._clock.now_ms()))

    # Writes

    def _upsert(self) -> None:
        rows: list[Values] = [self._values(number) for number in self._some(6)]
        if self._random.random() < 0.3:
            rows = [self._changed(row) for row in rows]
        self._commit("upsert", rows)

    def _changed(self, row: Values) -> Values:
        """Late, or in another partition where keys are unique in the table."""
        known = self._rows_now.get(row["id"])
        if known is None:
            return row
        if self._settings.is_global and self._random.random() < 0.5:
            return {**row, "part": f"p{self._random.randrange(PARTITIONS)}"}
        return {**row, "v": known["v"] - _LATE_BY}

    def _several_upserts(self) -> None:
        for _ in range(4):
            self._clock.advance(60)
            self._upsert()

    def _insert(self) -> None:
        free = [n for n in range(KEYS) if f"k{n:02d}" not in self._rows_now]
        if free:
            self._commit("insert", [self._values(number) for number in self._some(4, free)])

    def _delete(self) -> None:
        self._commit("delete", [self._values(number) for number in self._some(4)])

    def _delete_where(self) -> None:
        """What `LakeTable.delete` does once Spark has found the rows."""
        if not self._rows_now:
            return
        least = self._random.choice(sorted(row["v"] for row in self._rows_now.values()))
        gone = [row for row in self._rows_now.values() if row["v"] >= least]
        self._say(f"v >= {least}")
        before, lake = self._known_commits(), self._lake()
        operation, config = lake.writer.planned_delete({})
        timeline = lake.timeline()
        found = lake.to_arrow(
            columns=["_hoodie_record_key", "_hoodie_partition_path"], filter=[("v", ">=", least)]
        )
        engine = open_matched_engine(
            found,
            lake.hoodie_table,
            config,
            TransactionStart.of(timeline),
            runner=ThreadRunner(lake.hoodie_table.store, 1),
        )
        try:
            lake.writer.write(engine, lake.writer.request(operation, config))
            followed(lake.hoodie_table)
        finally:
            self._note("delete", gone, before)

    def _overwrite(self, operation: str) -> None:
        rows = [self._values(number) for number in self._some(4)]
        if not self._settings.is_partitioned:
            operation = "insert_overwrite_table"
        self._commit(operation, rows)

    def _drop_partition(self) -> None:
        parts = sorted({row["part"] for row in self._rows_now.values()})
        if parts and self._settings.is_partitioned:
            chosen = self._random.choice(parts)
            self._commit("delete_partition", [{**self._values(0), "part": chosen}])

    def _overlap(self) -> None:
        """A commit that completes while another is being written, to other partitions."""
        first = [self._values(n) for n in self._some(4, range(0, KEYS, PARTITIONS))]
        taken = {row["part"] for row in first}
        second = [row for n in self._some(5) if (row := self._values(n))["part"] not in taken]

        def meanwhile() -> None:
            self._clock.advance(60)
            if second and not self._settings.is_partitioned:
                return
            for _ in range(self._random.randint(1, 2)):
                self._commit("upsert", [self._values(int(row["id"][1:])) for row in second])
                self._followers.note_end()
                self._clock.advance(60)

        self._commit("upsert", first, before_files=meanwhile if second else None)

    def _new_column(self) -> None:
        if len(self._extra) < 2:
            self._extra.append(f"extra{len(self._extra)}")
        self._upsert()

    def _wider_columns(self) -> None:
        self._types = {"v": pa.int64(), "w": pa.float64()}
        self._upsert()

    # Deaths

    def _dying_store(self) -> FaultyStore:
        self._has_died = True
        count = self._random.randint(1, _WRITES_UNTIL_DEATH_MAX)
        self._say(f"dies at write {count}")
        return FaultyStore(self._location.open(), FaultPlan(crash_before_write=count))

    def _dead_write(self) -> None:
        rows = [self._values(number) for number in self._some(5)]
        with suppress(SimulatedCrash):
            self._commit("upsert", rows, self._dying_store())
        self._after_death()

    def _after_death(self) -> None:
        """Long enough that it counts as dead, or not yet."""
        if self._random.random() < 0.7:
            self._clock.advance(_DEAD_S)

    def _dead_service(self) -> None:
        names = ["cleaning", "archival", "clustering"]
        if self._settings.table_type is TableType.MERGE_ON_READ:
            names.append("compaction")
        with suppress(SimulatedCrash):
            self._run(self._random.choice(names), self._dying_store())
        self._clock.advance(_DEAD_S)

    def _dead_publication(self) -> None:
        with suppress(SimulatedCrash):
            self._publish(self._dying_store())

    # Services

    def _run(self, service: str, store: ObjectStore | None = None) -> None:
        try:
            run = self._lake(store).run(service)
            self._say(f"{service}: {len(run.done)} done, {run.not_due and run.not_due.reason}")
        except TidelineError as error:
            if not (service == "cleaning" and self._is_outage):
                raise
            assert "nothing was deleted" in error.message, error
            self._say(error.message)
        finally:
            if service == "archival" and store is not None:
                self._followers.cleaned(1)  # it may be in the archive, and active still
            if service == "cleaning":
                versions = self._settings.keeps_versions
                self._followers.cleaned(1 if versions else self._settings.retained)

    def _foreign_clean(self) -> None:
        """No publication is told of it."""
        retained = self._random.randint(1, 2)
        clean_table(self._lake().hoodie_table, CleaningConfig(commits_retained=retained))
        self._followers.cleaned(retained, foreign=True)

    def _foreign_archival(self) -> None:
        goes_beyond = self._random.random() < 0.3
        config = ArchivalConfig(1, 2, compaction_delta_commits=None)
        archive = archive_beyond_savepoints if goes_beyond else archive_table
        done = archive(self._lake().hoodie_table, config)
        self._say(f"{len(done.instants)} archived")

    def _savepoint(self) -> None:
        commits = self._commits()
        if commits:
            newest = self._random.random() < 0.6
            chosen = commits[-1] if newest else self._random.choice(commits)
            try:
                self._say(self._lake().savepoint(chosen.time).instant)
            except ConfigError as error:
                self._say(error.message)

    def _delete_savepoint(self) -> None:
        saved = list_savepoints(self._lake().hoodie_table)
        if saved:
            chosen = self._random.choice(saved).instant
            self._say(chosen)
            self._lake().delete_savepoint(chosen)

    def _restore(self) -> None:
        """To the newest savepoint, or another one."""
        lake = self._lake()
        saved = [
            savepoint.instant
            for savepoint in list_savepoints(lake.hoodie_table)
            if savepoint.is_completed
        ]
        if not saved:
            return
        chosen = saved[-1] if self._random.random() < 0.7 else self._random.choice(saved)
        self._say(chosen)
        before = {commit.time: commit.completed_at for commit in self._commits()}
        try:
            if self._random.random() < 0.3:
                with suppress(SimulatedCrash):
                    self._lake(self._dying_store()).restore(chosen)
                self._clock.advance(_DEAD_S)
            lake.restore(chosen)
        except (ConfigError, CorruptTableError) as error:
            if self._commits_are(before):
                self._say(error.message)
                return
            raise
        restore = lake.timeline().of(Action.RESTORE).completed().last()
        assert restore is not None and restore.completed_at is not None
        remaining = self._known_commits()
        undone = frozenset(instant_time for instant_time in before if instant_time not in remaining)
        self._say(f"at {restore.completed_at}, undone {', '.join(map(str, sorted(undone)))}")
        known = {commit.requested for commit in self._model.commits}
        to = before[chosen]
        assert to is not None
        self._model.restore(Restore(restore.completed_at, to, undone & known))
        schema = self._lake().schema
        self._extra = [name for name in self._extra if schema and name in schema.names]
        if schema and "v" in schema.names:
            self._types = {name: schema.field(name).type for name in self._types}

    def _commits_are(self, before: Collection[InstantTime]) -> bool:
        return self._known_commits() == frozenset(before)

    # Publications

    def _publish(self, store: ObjectStore | None = None) -> None:
        try:
            self._lake(store).publish()
        except TidelineError as error:
            if not self._is_outage:
                raise
            self._say(error.message)
        else:
            self._followers.published()

    def _outage_begins(self) -> None:
        """The catalog's database cannot be opened."""
        if self._database.is_file():
            self._database.rename(self._database.with_suffix(".away"))
            self._database.mkdir()
            self._is_outage = True

    def _outage_ends(self) -> None:
        if self._is_outage:
            self._database.rmdir()
            self._database.with_suffix(".away").rename(self._database)
            self._is_outage = False


def shortest(seed: int, steps: Sequence[int]) -> AssertionError | None:
    """The failure of a history's fewest steps that fail; None where it does not fail again."""
    failure = _failure(seed, steps)
    kept = list(steps)
    at = len(kept)
    while failure is not None and at > 0:
        at -= 1
        fewer = kept[:at] + kept[at + 1 :]
        found = _failure(seed, fewer)
        if found is not None:
            kept, failure = fewer, found
    return failure


def _failure(seed: int, steps: Sequence[int]) -> AssertionError | None:
    try:
        FollowedHistory(seed, only=steps).run(max(steps, default=0))
    except AssertionError as failure:
        return failure
    return None
