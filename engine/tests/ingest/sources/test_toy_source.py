"""A kind of source that only a test has: an append-only log of JSON lines with numbers.

It is ingested by the functions that ingest files: the room has no other entrance.
"""

# ruff: noqa: ARG002 -- this kind needs little of a protocol
from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError, CorruptTableError, InvalidDataError
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.locate import locate
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources import kinds
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.kinds import SourceKind
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.resume import Claim, Refused, resume_of
from tideline.ingest.sources.source import (
    Backlog,
    ClaimedPlace,
    Declared,
    ForSpark,
    Limits,
    Lost,
    Nothing,
    NothingHeldUp,
    Position,
    Range,
    Reach,
    Rows,
    SetAside,
    Settled,
    Shape,
    SparkRows,
)
from tideline.testing.faulty_store import SimulatedCrash

LOG, PART, ACKNOWLEDGED = "log.jsonl", "log", "acknowledged"
KIND = "lines"


@dataclass(frozen=True, slots=True)
class LinePosition:
    """The number of the next line."""

    next: int

    @property
    def kind(self) -> str:
        return KIND

    @property
    def needs_whole_look(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"line {self.next}"

    def stored(self) -> dict[str, Any]:
        return {"position": self.next}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> LinePosition:
        return cls(int(content["position"]))


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines from one number up to, and without, another."""

    first: int = 0
    end: int = 0
    start: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (PART,) if self.end > self.first else ()

    @property
    def size_bytes(self) -> int:
        return self.end - self.first

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def only(self, names: Collection[str]) -> LineRange:
        return self if PART in names else LineRange()

    def limited(self, bytes_max: int) -> LineRange:
        return replace(self, end=min(self.end, self.first + max(1, bytes_max)))

    def stored(self) -> dict[str, Any]:
        return {"lines": [self.first, self.end]}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> LineRange:
        return cls(*content["lines"])


@dataclass(frozen=True, slots=True)
class Lines(NothingHeldUp):
    """The lines from number `first` to `end` are there; earlier ones were cut off."""

    first: int = 0
    end: int = 0
    is_whole: bool = True
    exists: bool = True
    set_aside: SetAside = field(default_factory=SetAside)
    retained: None = None

    def at_once(self) -> Lines:
        return self

    def plan(self, after: Position | None, limits: Limits) -> LineRange | Nothing | Lost:
        begin = _next(after)
        if begin < self.first:
            return Lost(f"lines {begin} to {self.first} are cut off", "give the ingest a new name")
        end = min(self.end, begin + limits.parts_max)
        return LineRange(begin, end) if end > begin else Nothing()

    def plan_again(self, after: Position, *, inserts: bool) -> Lost:
        return Lost("lines are read once", "give the ingest a new name")

    def backlog(self, after: Position | None, limits: Limits) -> Backlog:
        return Backlog(parts=self.end - _next(after))

    def still_there(self, planned: Range, after: Position | None) -> LineRange:
        assert isinstance(planned, LineRange)
        return planned if planned.first == _next(after, planned.first) else LineRange()

    def advance(self, after: Position | None, taken: Range) -> LinePosition:
        assert isinstance(taken, LineRange)
        return LinePosition(taken.end)

    def look_after(self, position: Position) -> str:
        return ""

    def is_drained(self, position: Position) -> bool:
        return _next(position) == self.end

    def was_read_to(self, position: Position) -> bool:
        return False

    def describe_others(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class DeclaredLines:
    """A log in a store."""

    kind: ClassVar[str] = KIND
    part: ClassVar[str] = "log"
    content: ClassVar[str] = "lines"
    whereabouts: ClassVar[str] = "the log"
    quarantine: ClassVar[str] = "bad/"
    is_read_on_spark: ClassVar[bool] = False
    is_followed: ClassVar[bool] = False
    is_checked_on_spark: ClassVar[bool] = False

    place: Location
    settles: bool = True
    server: str | None = None
    columns: tuple[Column, ...] = ()

    @property
    def uri(self) -> str:
        return self.place.uri

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.place,)

    @property
    def claimed(self) -> tuple[ClaimedPlace, ...]:
        return (ClaimedPlace(self.place, "log"),)

    def address(self, table_uri: str) -> str:
        return self.place.uri

    def positions(
        self,
        reach: Reach,
        after: Position | None,
        start: str = "",
    ) -> Lines:
        return Lines(end=len(reach.open_store(self.place).get(LOG).splitlines()))

    def takes_from(self, other: Declared) -> bool:
        return False

    def with_places(self, moved: Callable[[Location], Location]) -> DeclaredLines:
        return replace(self, place=moved(self.place))

    def no_range(self) -> LineRange:
        return LineRange()

    def stored(self) -> dict[str, Any]:
        return {"place": self.place.to_json_object()}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> DeclaredLines:
        return cls(Location.from_json_object(content["place"]))


@dataclass(frozen=True, slots=True)
class LinesSource:
    """What reads a log, in this process alone."""

    declared: DeclaredLines

    def why_spark(self) -> str | None:
        return None

    def read(
        self,
        taken: Range,
        shape: Shape,
        bytes_max: int,
    ) -> Rows | ForSpark:
        assert isinstance(taken, LineRange)
        lines = locate(self.declared.place).open().get(LOG).splitlines()[taken.first : taken.end]
        good, bad = [], []
        for number, line in enumerate(lines, start=taken.first):
            try:
                good.append(json.loads(line))
            except ValueError:
                bad.append(BadRow(number, "", "is no JSON", line.decode(), number))
        rows = pa.Table.from_pylist(good, pa.schema({"id": pa.int64(), "v": pa.string()}))
        return Rows(rows, BadInput(rows={PART: tuple(bad)} if bad else {}))

    def on_spark(self, session: Any, shape: Shape, reading: Any) -> SparkRows:
        raise ConfigError("lines are not read by Spark")

    def release(self) -> None:
        """Nothing is kept."""

    def set_part_aside(self, taken: Range, name: str, reason: str, now_ms: int) -> bool:
        raise NotImplementedError

    def set_rows_aside(self, taken: Range, name: str, rows: Sequence[BadRow]) -> bool:
        store = locate(self.declared.place).open()
        for row in rows:
            store.put(f"bad/{row.row}", row.record.encode())
        return True

    def settle(self, position: Position, progress: Callable[[str], None]) -> Settled:
        store, up_to = locate(self.declared.place).open(), str(_next(position)).encode()
        if store.head(ACKNOWLEDGED) is not None and store.get(ACKNOWLEDGED) == up_to:
            return Settled()
        store.put(ACKNOWLEDGED, up_to)
        return Settled(1, f"acknowledged up to {position}")


def _next(position: Position | None, at_start: int = 0) -> int:
    if position is None:
        return at_start
    assert isinstance(position, LinePosition)
    return position.next


LINES = SourceKind(KIND, DeclaredLines, Lines, LineRange, LinePosition, f"{__name__}:LinesSource")


@dataclass
class Feed:
    """A log, a table, and the operations between them, each as a new process gets it."""

    folder: Path

    @property
    def source(self) -> DeclaredLines:
        return DeclaredLines(Location(f"file://{self.folder}/log"))

    @property
    def target(self) -> TableTarget:
        columns = (Column("id", ColumnType.parse("long")), Column("v", ColumnType.parse("string")))
        return TableTarget("t", Location(f"file://{self.folder}/t"), ("id",), schema=columns)

    def append(self, *lines: str) -> None:
        store = locate(self.source.place).open()
        before = b"" if store.head(LOG) is None else store.get(LOG)
        store.put(LOG, before + "".join(f"{line}\n" for line in lines).encode())

    def checkpoint(self) -> Checkpoint | None:
        return current_checkpoints(open_table(self.target), "feed").get("feed")

    def run(self, parts_max: int = 100, **settings: Any) -> OperationResult:
        checkpoint = self.checkpoint()
        position = None if checkpoint is None else checkpoint.position
        available = self.source.positions(own_reach(), position)
        planned = available.plan(position, Limits(parts_max, 0))
        assert not isinstance(planned, Lost)
        taken = self.source.no_range() if isinstance(planned, Nothing) else planned
        generation = 0 if checkpoint is None else checkpoint.generation
        work = IngestRange("feed", self.source, taken, generation, **settings)
        operation = Operation("feed-ingest-1", self.target, work)
        read = Operation.from_json_object(json.loads(json.dumps(operation.to_json_object())))
        assert read == operation
        return execute_operation(read, session_factory=no_spark)

    def ids(self) -> list[int]:
        table = open_table(self.target)
        assert table is not None
        return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())

    def acknowledged(self) -> str:
        store = locate(self.source.place).open()
        return "" if store.head(ACKNOWLEDGED) is None else store.get(ACKNOWLEDGED).decode()


def no_spark(_: Iterable[object]) -> Any:
    raise AssertionError("nothing here is Spark's")


def line(number: int) -> str:
    return json.dumps({"id": number, "v": f"v{number}"})


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    monkeypatch.setitem(kinds.KINDS, KIND, LINES)
    feed = Feed(tmp_path)
    feed.append(*map(line, range(5)))
    return feed


def test_lines_go_in_range_by_range_each_once(feed: Feed) -> None:
    first = feed.run(parts_max=3)
    assert (first.outcome, first.rows_inserted) == (Outcome.SUCCEEDED, 3)
    assert (feed.ids(), feed.acknowledged()) == ([0, 1, 2], "3")
    feed.append(line(5))
    assert feed.run().rows_inserted == 3
    assert feed.run().outcome is Outcome.NOTHING
    assert feed.ids() == [0, 1, 2, 3, 4, 5]
    checkpoint = feed.checkpoint()
    assert checkpoint is not None
    assert str(checkpoint) == "generation 2 up to line 6"
    assert checkpoint.encode().startswith('{"version":1,"kind":"lines","generation":2,"position":6')


def test_after_a_death_between_commit_and_settling_the_next_operation_settles(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> Settled:
        raise SimulatedCrash("behind the commit")

    with monkeypatch.context() as patched:
        patched.setattr(LinesSource, "settle", die)
        with pytest.raises(SimulatedCrash):
            feed.run()
    assert (feed.ids(), feed.acknowledged()) == ([0, 1, 2, 3, 4], "")
    result = feed.run()
    assert (result.outcome, result.message) == (Outcome.SUCCEEDED, "acknowledged up to line 5")
    assert (feed.ids(), feed.acknowledged()) == ([0, 1, 2, 3, 4], "5")


def test_an_operation_that_another_process_overtook_takes_nothing_in(feed: Feed) -> None:
    work = IngestRange("feed", feed.source, LineRange(0, 2), 0)
    late = Operation("feed-ingest-late", feed.target, work)
    feed.run()
    assert execute_operation(late, session_factory=no_spark).outcome is Outcome.NOTHING
    assert feed.ids() == [0, 1, 2, 3, 4]


def test_bad_rows_are_kept_before_the_commit_or_fail_the_range(feed: Feed) -> None:
    feed.append("no json", line(6))
    failed = feed.run(quarantines=False)
    assert (failed.outcome, failed.exit_code) == (Outcome.FAILED, InvalidDataError.exit_code)
    assert "is no JSON" in failed.message
    kept = feed.run(bad_rows_max=1)
    assert (kept.rows_inserted, kept.rows_set_aside) == (6, 1)
    assert "1 row of log set aside in bad/: row 5: is no JSON" in kept.notes
    assert locate(feed.source.place).open().get("bad/5") == b"no json"
    assert feed.ids() == [0, 1, 2, 3, 4, 6]


def test_what_is_cut_off_is_lost_with_a_remedy() -> None:
    lost = Lines(first=7, end=9).plan(LinePosition(3), Limits(10, 0))
    assert lost == Lost("lines 3 to 7 are cut off", "give the ingest a new name")


def test_a_checkpoint_of_another_kind_is_refused(feed: Feed) -> None:
    feed.run()
    checkpoint = feed.checkpoint()
    assert checkpoint is not None
    claim = Claim("feed", frozenset({"feed"}), "upsert", "files", checkpoint.address)
    assert isinstance(resume_of(claim, {"feed": checkpoint}, None), Refused)


def test_a_release_without_the_kind_says_so(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    feed.run()
    monkeypatch.delitem(kinds.KINDS, KIND)
    with pytest.raises(CorruptTableError, match="no source of this kind, but files"):
        feed.checkpoint()
