"""A storm of kills over streams: ingests of one source into several tables, all short-lived.

Each table has two ingests that race, and a process that compacts, cleans, archives and rolls back.
They die as `storm_lives` says, half of them at commits. Meanwhile and beside that the server of the
source and the store are killed and started again, the source does what sources do
(`StormSource.event`), and a reader sees no key twice. After it the table has what the source says,
row by row.

Ingests that insert write to file groups of their own, else the file groups alone would keep the
second commit of a range away.

An ingest's journal says what it has had acknowledged. A commit that no journal has was in doubt:
its process died, or lost the answer, after it had become visible.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import IO, Any, Protocol

from tideline.check_finding import Severity
from tideline.errors import (
    ConfigError,
    ConflictError,
    CorruptTableError,
    FailedAfterCommitError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.rollback.service import ROLLBACK

# Operations load it where rows move: here before processes are forked.
from tideline.ingest.execute import ingest  # noqa: F401
from tideline.ingest.execute.table_access import create_declared_table
from tideline.ingest.locate import locate
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres.ranges import Again
from tideline.ingest.sources.source import Nothing
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.kill_storm import SERVICE_OPTIONS, ServiceJob, serve_in_a_storm
from tideline.testing.storm_lives import StormLives, Task
from tideline.testing.storm_states import Line, read_lines
from tideline.testing.stream_feed import StreamFeed

SERVICES = (COMPACTION, LOG_COMPACTION, CLEANING, ARCHIVAL, ROLLBACK)
_INGESTS = ("ingest-1", "ingest-2")
_KEEPER = "keeper"
_PAUSE_S = 0.03
_FAST_S, _SLOW_S = 0.02, 0.5
_KILLS_PER_EVENT = 5
_KILLS_OF_A_GENERATION = 20
_LIVES_PER_COPY = 5
"""Of ingests, where the table is read again."""
_PLANNED = "planned"
"""In a journal: what an ingest was about to take in, before it died or did."""
_OF_A_COPY = (Again.SLOT.value, Again.SWEEP.value)
_ATTEMPTS = 5
_BEHIND_MAX = 4
_NEW_FILE_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
_COMMITS_PER_KILL = 0.3
"""Where fewer commits come about, lives are too short for this machine and become longer."""

Row = tuple[Any, ...]


class StormSource(Protocol):
    """What is ingested, and what changes it as long as the storm lasts."""

    names: tuple[str, ...]
    """Columns that are compared; the first is a key."""
    pace: ChangePace
    """Of its changes."""
    reads_again: bool
    """Whether tables are read from it again, now and then."""
    kills_per_server_kill: int
    """Of processes, to one of its server or the store."""

    def event(self, random: Random) -> str:
        """Do what may happen to such a source; its name."""

    def kill(self) -> None:
        """Kill its server, and start it again."""

    def calm(self) -> None:
        """End the changes, and what is open."""

    def missing(self, found: Sequence[Row]) -> tuple[Sequence[Row], int]:
        """The rows that a table must have that has these, and how many others it was allowed to
        pass over."""


@dataclass(slots=True)
class ChangePace:
    """How fast a source changes: so many times for each commit, so that tables are neither far
    behind nor without work, and slowly where there is none."""

    per_commit: int
    commits: int = 0
    changes: int = 0

    def wait(self) -> None:
        """After a change, until the next one."""
        self.changes += 1
        is_ahead = self.changes > self.per_commit * (self.commits + 1)
        time.sleep(_SLOW_S if is_ahead else _FAST_S)


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One life of an ingest; `plan` may end it at a write of its own. Some begin with a resync."""

    feed: StreamFeed
    plan: FaultPlan
    journal: str
    stop: str
    reads_again: bool = False


@dataclass(slots=True)
class StormTable:
    """One table of a storm: how processes reach it, and how the audit does."""

    name: str
    feed: StreamFeed
    direct: StreamFeed
    folder: Path
    options: Mapping[str, str]
    lives: StormLives = field(init=False)
    commits: int = 0
    """When the last generation ended."""
    reads_again: bool = False

    def start(self, random: Random, life_s_max: float, *, reads_again: bool) -> None:
        self.folder.mkdir(parents=True)
        self.reads_again = reads_again
        create_declared_table(self.direct.target)
        self.lives = StormLives(self.folder, random, life_s_max, self._task, at_commits=True)

    def step(self) -> int:
        """Kill whose time has come, and replace the dead."""
        before = self.lives.kills // _KILLS_OF_A_GENERATION
        kills = self.lives.step((*_INGESTS, _KEEPER))
        if self.lives.kills // _KILLS_OF_A_GENERATION > before:
            self._end_generation()
        return kills

    def calm(self) -> None:
        """No process is killed any more once `last` has replaced it."""
        self.lives.kill(_KEEPER)
        self.reads_again = False
        (self.folder / "stop").touch()

    def last(self, role: str) -> None:
        """Start the process of a role that takes in what is left."""
        self.lives.kill(role)
        self.lives.start_immortal(role)

    def look(self) -> None:
        """No key is there twice, whenever a reader looks."""
        with suppress(ObjectNotFoundError, CorruptTableError):
            # Files that are cleaned while they are read.
            seen = Counter(row[0] for row in self.direct.rows("id"))
            doubled = [key for key, count in seen.items() if count > 1]
            assert not doubled, f"{self.name}: {len(doubled)} doubled: {doubled[:10]}"

    def audit(self, source: StormSource) -> StormFigures:
        """Raise AssertionError for what is lost, doubled or broken."""
        figures = self._compared(source)
        for service in SERVICES:
            table = self.direct.table()
            assert table is not None
            table.run(str(service), options={**self.options, **SERVICE_OPTIONS})
        assert self._compared(source) == figures
        table = self.direct.table()
        assert table is not None
        found = table.check(keys=True)
        assert not [item for item in found if item.severity is Severity.ERROR], found
        return figures

    def acknowledged(self) -> list[int]:
        """Generations of the checkpoint whose commit an ingest knows of."""
        return [number for kind, number, _ in self._journals() if kind == Outcome.SUCCEEDED.value]

    def _compared(self, source: StormSource) -> StormFigures:
        found = self.direct.rows(*source.names)
        expected, passed_over = source.missing(found)
        wanted, here = Counter(map(repr, expected)), Counter(map(repr, found))
        lost, doubled = wanted - here, here - wanted
        assert not lost and not doubled, (
            f"{self.name}: {lost.total()} lost, {doubled.total()} doubled or wrong: "
            f"{sorted(lost)[:5]}, {sorted(doubled)[:5]}"
        )
        acknowledged = self.acknowledged()
        twice = [number for number, count in Counter(acknowledged).items() if count > 1]
        assert not twice, f"{self.name}: generations {twice} were committed twice"
        checkpoint = self.direct.checkpoint()
        commits = 0 if checkpoint is None else checkpoint.generation
        copies, whole = self._copies()
        return StormFigures(
            self.name,
            kills=self.lives.kills,
            rows=len(found),
            commits=commits,
            in_doubt=commits - len(acknowledged),
            raced=sum(error == ConflictError.kind for _, _, error in self._journals()),
            copies=copies,
            copies_whole=whole,
            passed_over=passed_over,
        )

    def _copies(self) -> tuple[int, int]:
        """Copies into the table that began after the first one, and those of them that ended before
        another one did: the ranges that were planned say so, whatever became of their processes."""
        planned = {number: name for kind, number, name in self._journals() if kind == _PLANNED}
        names = [planned[number] for number in sorted(planned)]
        whole = sum(
            name == Again.SWEEP.value and after not in _OF_A_COPY for name, after in pairwise(names)
        )
        return max(0, names.count(Again.SLOT.value) - 1), whole

    def _journals(self) -> list[Line]:
        return [line for role in _INGESTS for line in read_lines(self.folder / role)]

    def _task(self, role: str, plan: FaultPlan) -> Task:
        if role == _KEEPER:
            options = {**self.options, **SERVICE_OPTIONS}
            location = locate(self.feed.target.location)
            return serve_in_a_storm, ServiceJob(location, SERVICES, options, plan, 0.0)
        feed = self.feed
        if role == _INGESTS[1] and feed.operation == "insert":
            properties = {**feed.write_properties, **_NEW_FILE_GROUPS}
            feed = replace(feed, write_properties=properties)
        journal, stop = str(self.folder / role), str(self.folder / "stop")
        again = self.reads_again and self.lives.random.random() < 1 / _LIVES_PER_COPY
        return ingest_in_a_storm, IngestJob(feed, plan, journal, stop, again)

    def _end_generation(self) -> None:
        commits = len(self.acknowledged())
        if commits < self.commits + _COMMITS_PER_KILL * _KILLS_OF_A_GENERATION:
            self.lives.life_s_max *= 1.5
        self.commits = commits


@dataclass(frozen=True, slots=True)
class StormFigures:
    """What a storm came to, for one table without a row that is lost or doubled."""

    name: str
    kills: int
    rows: int
    commits: int
    in_doubt: int
    raced: int
    """Attempts that another ingest of the table was faster than."""
    copies: int
    """Into the table, after the first one."""
    copies_whole: int
    """That no other one of them began before the end of."""
    passed_over: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.kills} kills, {self.commits} commits, {self.in_doubt} in doubt, "
            f"{self.raced} overtaken, {self.copies} copies started, {self.copies_whole} ended, "
            f"{self.rows} rows, 0 lost, 0 doubled, "
            f"{self.passed_over} passed over as declared"
        )


@dataclass(slots=True)
class StreamStorm:
    """All tables of one source. `kill_store` kills their store and starts it again, where it is a
    server."""

    source: StormSource
    tables: Sequence[StormTable]
    seed: int
    life_s_max: float
    kill_store: Callable[[], None] | None = None
    server_kills: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    _random: Random = field(init=False)
    _beside: _Beside = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._beside = _Beside()
        for table in self.tables:
            random = Random(self._random.random())
            table.start(random, self.life_s_max, reads_again=self.source.reads_again)

    @property
    def kills(self) -> int:
        """Of processes and of servers."""
        return sum(table.lives.kills for table in self.tables) + self.server_kills.total()

    def rage(self, kills: int, seconds_max: float) -> list[StormFigures]:
        """Until enough died or it takes too long; then all is calm, and compared."""
        try:
            # The server that processes are forked from takes its time.
            self._step()
            with self._timed("kills"):
                ends_s = time.monotonic() + seconds_max
                while self.kills < kills and time.monotonic() < ends_s:
                    self._step()
                    time.sleep(_PAUSE_S)
                self._beside.finish()
            with self._timed("the rest"):
                self._calm()
            with self._timed("comparing"):
                return [table.audit(self.source) for table in self.tables]
        finally:
            self._beside.end()
            for table in self.tables:
                table.lives.end()

    def _step(self) -> None:
        for table in self.tables:
            for _ in range(table.step()):
                if self._random.random() < 1 / _KILLS_PER_EVENT:
                    self._beside.do(self._event)
                if self._random.random() < 1 / self.source.kills_per_server_kill:
                    self._beside.do(self._kill_server)
                if self._random.random() < 1 / _KILLS_OF_A_GENERATION:
                    self._beside.do(table.look)
        self._beside.check()
        self.source.pace.commits = min(len(table.acknowledged()) for table in self.tables)

    def _calm(self) -> None:
        self.source.calm()
        for table in self.tables:
            table.calm()
        for role in _INGESTS:
            for table in self.tables:
                table.last(role)
            for table in self.tables:
                table.lives.join(role)

    def _event(self) -> None:
        self.events[self.source.event(self._random)] += 1

    def _kill_server(self) -> None:
        if self.kill_store is not None and self._random.random() < 0.5:
            self.kill_store()
            self.server_kills["store"] += 1
        else:
            self.source.kill()
            self.server_kills["source"] += 1

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started_s = time.monotonic()
        yield
        self.seconds[part] = round(time.monotonic() - started_s, 1)


class _Beside:
    """What takes its time, done in a thread of its own, so that processes die meanwhile; it is at
    most a little behind. What fails there fails the storm."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()

    def do(self, what: Callable[[], None]) -> None:
        self._waiting.append(self._pool.submit(what))
        while len(self._waiting) > _BEHIND_MAX:
            self._waiting.popleft().result()

    def check(self) -> None:
        """Raise what was raised there."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()

    def finish(self) -> None:
        """Wait for all of it."""
        while self._waiting:
            self._waiting.popleft().result()

    def end(self) -> None:
        """Wait for what is under way, and leave the rest."""
        self._pool.shutdown(cancel_futures=True)


def ingest_in_a_storm(job: IngestJob) -> None:
    """Ingest what comes, until the file `stop` exists and there is nothing more."""
    feed, stop = job.feed, Path(job.stop)
    with Path(job.journal).open("a") as lines, _killed_at_writes(job.plan):
        if job.reads_again:
            _resync(feed, lines)
        while True:
            is_over = stop.exists()
            try:
                planned = feed.plan()
            except StorageUnavailableError:
                # A server, or the store.
                time.sleep(_PAUSE_S)
                continue
            if not isinstance(planned, Operation):
                assert isinstance(planned, Nothing), planned
                if is_over:
                    return
                time.sleep(_PAUSE_S)
                continue
            _execute(feed, planned, lines)


def _execute(feed: StreamFeed, planned: Operation, lines: IO[str]) -> Outcome:
    """Carry an operation out; what came of it is a line of the journal."""
    work = planned.work
    assert isinstance(work, IngestRange)
    for name in work.range.names[:1]:
        _write_line(lines, _PLANNED, work.generation, name)
    result = feed.execute(planned)
    outcome = result.outcome
    if result.error == FailedAfterCommitError.kind:
        # Of a service that followed it.
        outcome = Outcome.SUCCEEDED
    assert outcome is not Outcome.FAILED or result.is_safe_to_retry, result.message
    if work.range.names:
        _write_line(lines, outcome.value, work.generation, result.error or "")
    return outcome


def _write_line(lines: IO[str], *words: str | int) -> None:
    lines.write(f"{json.dumps(words)}\n")
    lines.flush()


def _resync(feed: StreamFeed, lines: IO[str]) -> None:
    """Have the table read from its source again, unless it has read nothing; several times where
    another commit is faster."""
    for _ in range(_ATTEMPTS):
        try:
            planned = feed.plan_again()
        except (ConfigError, StorageUnavailableError):
            return
        if _execute(feed, planned, lines) is Outcome.SUCCEEDED:
            return


@contextmanager
def _killed_at_writes(plan: FaultPlan) -> Iterator[None]:
    """This process dies at a write to any store, however it was opened."""
    if not plan.kill_process:
        yield
        return
    opened, stores = StoreLocation.open, dict[str, FaultyStore]()

    def open_faulty(location: StoreLocation, connection: Any = None) -> ObjectStore:
        if location.uri not in stores:
            inner = opened(location, connection)
            stores[location.uri] = FaultyStore(inner, plan, kernel_locks=True)
        return stores[location.uri]

    StoreLocation.open = open_faulty  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        StoreLocation.open = opened  # type: ignore[method-assign]
