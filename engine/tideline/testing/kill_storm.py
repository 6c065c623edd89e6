"""A storm of kills over one table: two writers, a mover and a keeper, all short-lived.

How they die: `storm_lives`. The mover runs the services that move rows, the keeper cleans, archives
and rolls back. Others may take part.

While the storm lasts every acknowledged row is seen once; after it each batch is in the table once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tideline.errors import ConflictError, StorageUnavailableError, UnknownOutcomeError
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.service import TableService
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.late_listings import late_listings
from tideline.testing.small_table import SmallTable
from tideline.testing.storm_lives import StormLives, Task
from tideline.testing.storm_writer import (
    Event,
    StormBatch,
    StormJob,
    acknowledged,
    expected_values,
    read_journal,
    write_in_a_storm,
)

WRITERS = (1, 2)
MOVER = (COMPACTION, CLUSTERING, LOG_COMPACTION)
KEEPER = (CLEANING, ARCHIVAL, ROLLBACK)
SERVICE_OPTIONS = {
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.clustering.inline.max.commits": "4",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "8",
}
AT_A_SERVER = {
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}
"""Of writes and services: the dead are waited for as briefly as can be."""
_KILLS_OF_A_GENERATION = 20
_SWEPT_S_MAX = 60.0
_ACKNOWLEDGED_PER_KILL = 0.5
"""Where fewer batches come about, lives are too short for this machine and become longer."""


Parts = Mapping[str, Callable[[FaultPlan], Task]]
"""What other processes in a storm do, by their names."""


@dataclass(slots=True)
class KillStorm:
    """The processes on one table and what they wrote down, in `folder`.

    `location` is how they reach the table, `table` how the audit does, by another way perhaps.
    """

    location: StoreLocation
    table: SmallTable
    folder: Path
    options: Mapping[str, str]
    seed: int
    life_s_max: float
    listing_delay_s_max: float = 0.0
    """See `LateListings`."""
    parts: Parts = field(default_factory=dict)
    looks: int = 0
    _batches: int = 0
    """Acknowledged when the last generation ended."""
    _lives: StormLives = field(init=False)

    def __post_init__(self) -> None:
        self._lives = StormLives(self.folder, Random(self.seed), self.life_s_max, self._task)
        self.folder.mkdir(parents=True, exist_ok=True)
        for writer in WRITERS:
            self._journal(writer).touch()

    def step(self) -> None:
        """Kill whose time has come, and replace the dead. Fails on a process that gave up."""
        before = self.kills // _KILLS_OF_A_GENERATION
        self._lives.step((*map(_writer, WRITERS), "mover", "keeper", *self.parts))
        if self.kills // _KILLS_OF_A_GENERATION > before:
            self._end_generation()

    def look(self) -> None:
        """What a fresh reader sees now: acknowledged rows that no writer deletes, none twice."""
        before = self.acknowledged()
        seen = Counter(key for key, _ in self.table.values())
        doubled = [key for key, count in seen.items() if count > 1]
        assert not doubled, doubled
        being_deleted = {
            key for storm_batch in self._begun_after(before) for key in storm_batch.deleted_keys
        }
        kept = {key for key, _ in expected_values(before)} - being_deleted
        assert kept <= seen.keys(), sorted(kept - seen.keys())
        self.looks += 1

    def calm(self) -> None:
        """No process is killed any more; writers settle what is in doubt, and all end.

        A mover stays as long: writers keep off what a clustering has planned, and a dead one's plan
        waits for a process to run it.
        """
        self.stop.touch()
        for role in ("mover", "keeper"):
            self._lives.kill(role)
        self._lives.start_immortal("mover")
        for role in (*map(_writer, WRITERS), *self.parts):
            self._lives.survive(role)
        self._lives.kill("mover")

    def audit(self) -> None:
        """Every batch is there once, and what was left behind can be finished and swept up."""
        expected = expected_values(self.acknowledged())
        assert self.table.values() == expected
        self.sweep()
        assert self.table.values() == expected
        assert self.table.merged_values() == expected
        assert self.table.lake().check(keys=True) == ()

    def sweep(self) -> None:
        """Finish or give up what the dead have left, as a table's keeper would: again while one of
        them still counts as alive."""
        ends_s = time.monotonic() + _SWEPT_S_MAX
        self._sweep_once()
        while self.table.lake().timeline().pending() and time.monotonic() < ends_s:
            time.sleep(1)
            self._sweep_once()

    def _sweep_once(self) -> None:
        services = self.table.lake().services(self.service_options)
        for service in (ROLLBACK, *MOVER):
            # A plan that another overtook is given up by the process that tries it.
            with suppress(ConflictError):
                services.run_pending(service)
        services.run(CLEANING)
        services.run(ROLLBACK)
        self.table.lake().repair()

    def acknowledged(self) -> dict[int, list[int]]:
        """The batches of each writer whose write returned."""
        return {writer: acknowledged(read_journal(self._journal(writer))) for writer in WRITERS}

    def events(self) -> Counter[Event]:
        """How often each thing happened to a batch."""
        return Counter(
            event for writer in WRITERS for event, _ in read_journal(self._journal(writer))
        )

    def end(self) -> None:
        """Kill the processes that are left, after a failure."""
        self._lives.end()

    @property
    def kills(self) -> int:
        return self._lives.kills

    def _end_generation(self) -> None:
        batches = sum(map(len, self.acknowledged().values()))
        if batches < self._batches + _ACKNOWLEDGED_PER_KILL * _KILLS_OF_A_GENERATION:
            self._lives.life_s_max *= 1.5
        self._batches = batches

    def _task(self, role: str, plan: FaultPlan) -> Task:
        delay_s_max = self.listing_delay_s_max
        if role in self.parts:
            return self.parts[role](plan)
        if role.startswith("writer-"):
            writer = int(role.removeprefix("writer-"))
            journal, stop = str(self._journal(writer)), str(self.stop)
            job = StormJob(self.location, writer, self.options, journal, stop, plan, delay_s_max)
            return write_in_a_storm, job
        services, options = MOVER if role == "mover" else KEEPER, self.service_options
        return serve_in_a_storm, ServiceJob(self.location, services, options, plan, delay_s_max)

    def _begun_after(self, done: Mapping[int, list[int]]) -> Iterator[StormBatch]:
        for writer, numbers in done.items():
            for _, number in read_journal(self._journal(writer)):
                if not numbers or number > numbers[-1]:
                    yield StormBatch(writer, number)

    def _journal(self, writer: int) -> Path:
        return self.folder / f"writer-{writer}"

    @property
    def stop(self) -> Path:
        """Exists once no new work is begun."""
        return self.folder / "stop"

    @property
    def service_options(self) -> Mapping[str, str]:
        """Of all services of the table."""
        return {**self.options, **SERVICE_OPTIONS}


@dataclass(frozen=True, slots=True)
class ServiceJob:
    """One life of what runs services, one at a time, by chance."""

    location: StoreLocation
    services: tuple[TableService, ...]
    options: Mapping[str, str]
    plan: FaultPlan
    listing_delay_s_max: float


def serve_in_a_storm(job: ServiceJob) -> None:
    """Until it is killed."""
    table = SmallTable(job.location)
    listed = late_listings(table.store(), job.listing_delay_s_max)
    store = FaultyStore(listed, job.plan, kernel_locks=True)
    random = Random()
    while True:
        service = random.choice(job.services)
        # A process that loses, or does not know, tries again: that is what services do.
        with suppress(ConflictError, StorageUnavailableError, UnknownOutcomeError):
            table.lake(store).run(str(service), options=job.options)
        time.sleep(random.uniform(0, 0.05))


def _writer(number: int) -> str:
    return f"writer-{number}"
