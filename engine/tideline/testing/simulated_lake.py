"""A simulated table: writers and readers under hazards, checked against a plain dictionary.

The model is moved on at the moment a completed instant appears in the store, regardless of who
wrote it and which reply its writer gets. Three things are checked:

1. A reader sees the rows of the commits that were complete when it read the timeline.
2. A writer never gets the answer that a visible write failed, or the reverse, unless the answer is
   that the outcome is unknown.
3. In the end the table holds the model's rows and no object that is unaccounted for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pyarrow as pa

from tideline.errors import (
    ConflictError,
    FailedAfterCommitError,
    InvalidDataError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from tideline.hudi.open_table import open_table
from tideline.hudi.table.properties import PROPERTIES_PATH
from tideline.hudi.table.table_config import METADATA_TABLE_PATH, TableType
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.simulator import (
    Hazards,
    SimulatedProcess,
    Simulation,
    StoreClock,
)
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import (
    missing_files,
    open_fresh,
    read_rows,
    unexplained_objects,
)

PARTITIONS = 2
KEYS = 12
OPERATIONS = (
    "upsert",
    "upsert",
    "upsert",
    "insert",
    "delete",
    "bulk_insert",
    "insert_overwrite",
    "delete_partition",
)
WEATHERS = (
    Hazards(crash=0, sleep=0, unavailable=0, lost_reply=0),
    Hazards(),
    Hazards(sleep=0.02),
    Hazards(crash=0.015),
    Hazards(unavailable=0.02, lost_reply=0.04),
)
"""Calm, mixed, writers that fall asleep, that die, and a store that is often away."""

_COMPLETING = (".commit", ".deltacommit", ".replacecommit")
_NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
_LONG_S = 4000.0

_names = itertools.count()

Model = dict[str, int]


@dataclass(slots=True)
class Attempt:
    """One write under way: what it saw when it began, and whether it became visible."""

    operation: str
    rows: pa.Table
    saw: Model = field(default_factory=dict)
    has_begun: bool = False
    is_visible: bool = False


class SimulatedLake:
    """One run: `run` it, it raises AssertionError when something is wrong."""

    def __init__(
        self,
        seed: int,
        hazards: Hazards,
        *,
        writers: int,
        writes: int,
        starts_empty: bool,
        table_type: TableType = TableType.COPY_ON_WRITE,
    ) -> None:
        self.simulation = Simulation(seed, hazards, _is_pressing)
        self._name = f"simulated-{next(_names)}"
        self._location = StoreLocation.of(f"memory://{self._name}")
        self._inner = MemoryStore(self._name, clock=StoreClock(self.simulation))
        self._model: Model = {}
        self._values = itertools.count(1)
        self._new_keys = itertools.count(100)
        self._attempts: dict[SimulatedProcess, Attempt] = {}
        self.commits = 0
        self.reads = 0
        clock = FakeClock(int(self.simulation.time_ms))
        table = SmallTable.create(self._location, clock, table_type=table_type)
        self._look = Step("list_directory", open_fresh(self._location).timelines.layout.directory)
        if not starts_empty:
            rows = batch(range(KEYS // 2), 0, partitions=PARTITIONS)
            with self.simulation.same_file_ids():
                table.write("insert", rows)
            self._model = _values(rows)
        for number in range(writers):
            self._spawn_writer(f"writer {number}", writes)
        self.simulation.spawn("reader", self._read)

    def run(self) -> None:
        """Run to the end, then let a last writer come and look at what is left."""
        try:
            self.simulation.run()
            self._check_the_end()
        finally:
            MemoryStore.forget(self._name)

    def _spawn_writer(self, name: str, writes: int) -> None:
        self.simulation.spawn(name, lambda process: self._write(process, writes))

    def _write(self, process: SimulatedProcess, writes: int) -> None:
        connection = SteppingStore(self._inner, lambda step: self._about_to(process, step))
        store = process.store_on(connection, lambda step: self._applied(process, step))
        table = SmallTable(self._location, process.clock)
        for done in range(writes):
            process.wait(self.simulation.time_ms + self.simulation.random.uniform(0, 100))
            attempt = self._attempts[process] = self._new_attempt()
            name = f"{process.name} {attempt.operation} {attempt.rows.column('id').to_pylist()}"
            self.simulation.say(f"{name} begins")
            try:
                ending = self._write_once(table, attempt, store)
            except SimulatedCrash:
                if not process.die_at_next_call:
                    self._spawn_writer(f"{process.name}'", writes - done - 1)
                raise
            self.simulation.say(f"{name} {ending}")

    def _write_once(self, table: SmallTable, attempt: Attempt, store: SteppingStore) -> str:
        """Write, and say how it ended; the writer must have got a true answer."""
        options = _NEW_FILES if self.simulation.random.random() < 0.3 else None
        try:
            table.write(attempt.operation, attempt.rows, store=store, options=options)
        except UnknownOutcomeError as error:
            return f"does not know: {error.message}"
        except (ConflictError, InvalidDataError, StorageUnavailableError) as error:
            assert not attempt.is_visible, f"the answer is that a visible write failed: {error}"
            # Deleting a partition of an empty table is refused; everything else is valid.
            assert (
                not isinstance(error, InvalidDataError) or attempt.operation == "delete_partition"
            ), error
            return f"fails: {error.message}"
        except FailedAfterCommitError as error:
            assert attempt.is_visible, f"the answer is that an invisible write succeeded: {error}"
            return f"succeeds, but: {error.message}"
        assert attempt.is_visible, "the answer is that an invisible write succeeded"
        return "succeeds"

    def _about_to(self, process: SimulatedProcess, step: Step) -> None:
        """Note the model as it is whenever the timeline is read before a write has begun."""
        attempt = self._attempts.get(process)
        if attempt is None:
            return
        if step == self._look and not attempt.has_begun:
            attempt.saw = dict(self._model)
        attempt.has_begun = attempt.has_begun or step.path.endswith("commit.requested")

    def _new_attempt(self) -> Attempt:
        random = self.simulation.random
        operation = random.choice(OPERATIONS)
        count = random.randint(1, 4)
        if operation in ("insert", "bulk_insert"):
            keys = [next(self._new_keys) for _ in range(count)]
        elif operation in ("insert_overwrite", "delete_partition"):
            partition = random.randrange(PARTITIONS)
            keys = [key for key in range(KEYS) if key % PARTITIONS == partition][:count]
        else:
            keys = random.sample(range(KEYS), count)
        return Attempt(operation, batch(keys, next(self._values), partitions=PARTITIONS))

    def _applied(self, process: SimulatedProcess, step: Step) -> None:
        if step.method == "put_if_absent" and _completes(step.path):
            attempt = self._attempts[process]
            self.simulation.say(f"{process.name} {attempt.operation} is visible: {step.path}")
            attempt.is_visible = True
            self.commits += 1
            _apply(self._model, attempt)

    def _read(self, process: SimulatedProcess) -> None:
        table = open_fresh(self._location, self._inner, process.clock)
        table = open_table(
            self._location, process.clock, process.store_on(self._inner), table.config
        )
        while not all(other.has_ended or other is process for other in self.simulation.processes):
            process.wait(self.simulation.time_ms + self.simulation.random.uniform(0, 12) ** 5)
            try:
                timeline = table.timeline()
                expected = dict(self._model)
                rows = read_rows(table, timeline)
            except StorageUnavailableError:
                continue
            self.reads += 1
            assert _pairs(rows) == sorted(expected.items()), (
                f"a reader saw {_pairs(rows)} instead of {sorted(expected.items())}"
            )

    def _check_the_end(self) -> None:
        assert self._rows_now() == sorted(self._model.items()), "at the end"
        self.simulation.time_ms += _LONG_S * 1000
        clock = FakeClock(int(self.simulation.time_ms))
        last = batch([900], 900, partitions=PARTITIONS)
        lake = LakeTable(open_fresh(self._location, self._inner, clock))
        lake.recover()
        SmallTable(self._location, clock).write("upsert", last)
        expected = self._model | _values(last)
        assert self._rows_now() == sorted(expected.items()), "after the last writer"
        table = open_fresh(self._location, self._inner, clock)
        left = [path for path in unexplained_objects(table) if not self._died_unchecked(path)]
        assert not left, f"left over: {left}"
        assert not missing_files(table), f"missing: {missing_files(table)}"

    def _died_unchecked(self, path: str) -> bool:
        """Whether the process that wrote a file died before it looked for its marker again: such a
        file stays where a rollback came between (`marked_file`)."""
        end = f"/{path}.marker."
        return any(" dies before head " in line and end in line for line in self.simulation.history)

    def _rows_now(self) -> list[tuple[str, int]]:
        return _pairs(read_rows(open_fresh(self._location, self._inner)))


def check_run(seed: int) -> SimulatedLake:
    """One run, whose weather and size follow from the seed; a failure says how to repeat it."""
    hazards = WEATHERS[seed % len(WEATHERS)]
    appends = seed // len(WEATHERS) % 2 == 1
    lake = SimulatedLake(
        seed,
        hazards,
        writers=3,
        writes=2,
        starts_empty=seed % 4 == 0,
        table_type=TableType.MERGE_ON_READ if appends else TableType.COPY_ON_WRITE,
    )
    try:
        lake.run()
    except Exception as error:
        history = "\n".join(lake.simulation.history)
        raise AssertionError(
            f"{type(error).__name__}: {error}\n{history}\nRepeat it with TIDELINE_SEED={seed}"
        ) from error
    return lake


def _completes(path: str) -> bool:
    """Whether an object makes a commit of the table itself visible."""
    return path.endswith(_COMPLETING) and METADATA_TABLE_PATH not in path


def _is_pressing(step: Step) -> bool:
    """The calls between the last look at lease and heartbeat and what these protect."""
    if step.method == "put_if_absent":
        return step.path.endswith((*_COMPLETING, "commit.requested"))
    if step.method == "head":
        return step.path.endswith(".inflight")
    # Where the metadata table is switched on and off, and its partitions go.
    return (step.method, step.path) == ("put", PROPERTIES_PATH) or step.method == "delete_prefix"


def _apply(model: Model, attempt: Attempt) -> None:
    """What the commit makes of the rows. Deleting reaches only what the writer saw."""
    rows = _values(attempt.rows)
    partitions = set(attempt.rows.column("part").to_pylist())
    match attempt.operation:
        case "delete":
            gone = set(rows) & set(attempt.saw)
        case "insert_overwrite" | "delete_partition":
            gone = {key for key in attempt.saw if _partition_of(key) in partitions}
        case _:
            gone = set()
    for key in gone:
        model.pop(key, None)
    if attempt.operation not in ("delete", "delete_partition"):
        model.update(rows)


def _partition_of(key: str) -> str:
    return f"p{int(key[1:]) % PARTITIONS}"


def _values(rows: pa.Table) -> Model:
    return dict(zip(rows.column("id").to_pylist(), rows.column("v").to_pylist(), strict=True))


def _pairs(rows: list[dict[str, object]]) -> list[tuple[str, int]]:
    return [(str(row["id"]), int(str(row["v"]))) for row in rows]
