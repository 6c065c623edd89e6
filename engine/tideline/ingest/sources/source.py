"""A source of rows: what an ingest, a checkpoint and a planner see of it, whatever its kind.

1. `Declared` is a source as a LakeTable declares it: a value. Its `positions` are what is there
   now, as another value.
2. `Available.plan` chooses what comes after a position: a `Range`. It is fixed before any of it is
   read, and travels in the operation, so that an attempt that is repeated reads the same.
3. `Source.read` gives the rows of a range to this process, and `on_spark` to Spark; bad rows and
   parts are found before the commit and set aside.
4. The commit holds the position behind the range, in the checkpoint. After it `settle` does what
   is left to do in the source. A death in between is settled by the next operation.

Parts of a range have names: the paths of files, the partitions of a topic.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from tideline.bad_input import BadInput, BadRow
from tideline.errors import TidelineError
from tideline.ingest.column_type import Column
from tideline.ingest.location import Location
from tideline.storage.object_store import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


OpenStore = Callable[[Location], ObjectStore]
Connect = Callable[[str, int], socket.socket]
"""A connection to a host and a port. Raises StorageUnavailableError."""


@dataclass(frozen=True, slots=True, repr=False)
class Reach:
    """How a look reaches what a source names: stores, and servers with the credentials that
    `variables` have, by the names that they have in an environment. Where it `asks_age` a look says
    of what age the oldest part is that waits, though that costs more than the look. Where it
    `compares` it says also where a table begins that has read nothing, and whether all that was
    read is as it was.

    All connections to servers are made by `connect`, where somebody decides which may be; None is
    for a process that works for one user.
    """

    open_store: OpenStore
    variables: Mapping[str, str] = field(default_factory=dict)
    asks_age: bool = False
    compares: bool = False
    connect: Connect | None = None


class Position(Protocol):
    """How far a table has read a source: a frozen value, whose text is for people."""

    @property
    def kind(self) -> str:
        """The name of the kind of source."""

    @property
    def needs_whole_look(self) -> bool:
        """Whether only a whole look lets it become smaller."""

    def stored(self) -> dict[str, Any]:
        """Its fields in a checkpoint, as JSON."""

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Self: ...


class Range(Protocol):
    """What one commit is to hold. Without names there is nothing to read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its parts, in the order in which they are read."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def start(self) -> str:
        """Where the look began that it was planned with; empty for a whole one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the result, once it is in the table."""

    def only(self, names: Collection[str]) -> Range:
        """Those of its parts that have these names."""

    def limited(self, bytes_max: int) -> Range:
        """As many of its first parts as have so many bytes, at least one."""

    def stored(self) -> dict[str, Any]:
        """Its fields in an operation, as JSON."""

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Self: ...


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to take in now; perhaps at `until_ms`, for a `reason`. Where it
    `may_be_earlier` looks do not wait for that."""

    until_ms: int | None = None
    reason: str = ""
    may_be_earlier: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """What comes after the position cannot be read any more, and what to do."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one commit may take in, and what time it is."""

    parts_max: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits behind a position, the next range among it; `records` where a look shows them.

    `unsettled` parts may still be being written. `late` ones cannot be distinguished from others
    that were taken in. `remembered` ones are certainly in the table, and still in the source. The
    oldest part that waits is of `oldest_ms`. Where it is not `is_seen` the look could not see what
    waits: records and their age are not known.
    """

    parts: int = 0
    size_bytes: int = 0
    records: int = 0
    unsettled: int = 0
    late: int = 0
    remembered: int = 0
    oldest_ms: int | None = None
    is_seen: bool = True


@dataclass(frozen=True, slots=True)
class Retained:
    """What a server keeps until this table has it: how much, how much more before it gives that up,
    None where it never does, and its word for that. `risk` says what is to be done where it is
    about to give it up; empty where it is not."""

    size_bytes: int
    safe_bytes: int | None = None
    state: str = ""
    risk: str = ""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Parts and rows that wait for a person, and a sentence about them, None where none does."""

    parts: int = 0
    rows: int = 0
    words: str | None = None


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A sentence about what cannot be read yet, and what to do. A `fault` is one of the source,
    which somebody has to correct; what is none may well pass."""

    words: str
    is_fault: bool = False


class Available(Protocol):
    """What one look found in a source. One that is not whole shows only what is new."""

    @property
    def is_whole(self) -> bool: ...

    @property
    def exists(self) -> bool:
        """Whether the source is there at all."""

    @property
    def set_aside(self) -> SetAside: ...

    @property
    def retained(self) -> Retained | None:
        """None where no server keeps anything for the table."""

    def at_once(self) -> Available:
        """The same, where nothing waits because it may still be being written."""

    def plan(self, after: Position | None, limits: Limits) -> Range | Nothing | Lost:
        """What is next."""

    def plan_again(self, after: Position, *, inserts: bool) -> Range | Lost:
        """A range without rows, whose commit says that the source is read again from its start, by
        an operation that `inserts`; or why it is not."""

    def backlog(self, after: Position | None, limits: Limits) -> Backlog: ...

    def still_there(self, planned: Range, after: Position | None) -> Range:
        """What of a range is as it was when it was planned, and not in the table yet."""

    def advance(self, after: Position | None, taken: Range) -> Position:
        """The position behind `taken`, which is not empty."""

    def look_after(self, position: Position) -> str:
        """Where the next look that is not whole may begin, for the checkpoint."""

    def is_drained(self, position: Position) -> bool:
        """Whether all that is here is in the table."""

    def was_read_to(self, position: Position) -> bool:
        """Whether the position is of what is here: old checkpoints do not name their source."""

    def held_up(self, since_before_ms: int | None = None) -> tuple[HeldUp, ...]:
        """What keeps rows from being read. Of what may well pass what has been there since that
        time; without one all, with their numbers."""

    def describe_others(self) -> str | None:
        """A sentence about what is there and left alone; None where nothing is."""


class NothingHeldUp:
    """What a source has that is always there as a whole."""

    __slots__ = ()

    def held_up(self, since_before_ms: int | None = None) -> tuple[HeldUp, ...]:  # noqa: ARG002
        """See `Available`."""
        return ()


@dataclass(frozen=True, slots=True)
class ClaimedPlace:
    """A place that a source uses, the field of its declaration, and whether things are taken away
    there."""

    place: Location
    field: str
    is_emptied: bool = False


class Declared(Protocol):
    """A source as it is declared, with its places resolved: a value."""

    kind: ClassVar[str]
    part: ClassVar[str]
    """What one part of it is called."""
    content: ClassVar[str]
    """What it has, for messages: files, records."""
    whereabouts: ClassVar[str]
    """Where that is, for messages: the landing prefix."""
    quarantine: ClassVar[str]
    """Where in it bad rows are kept."""
    is_read_on_spark: ClassVar[bool]
    """Whether Spark can read its rows."""
    is_followed: ClassVar[bool]
    """Whether rows come all the time, so that a worker that took some in stays for the next."""
    is_checked_on_spark: ClassVar[bool]
    """Whether Spark finds more of what is at fault than a process that reads them."""

    @property
    def uri(self) -> str:
        """Where it is, for messages."""

    @property
    def places(self) -> tuple[Location, ...]:
        """Stores that Spark and this process must reach for it."""

    @property
    def server(self) -> str | None:
        """The name of the server that a look asks, None where it only looks at places."""

    @property
    def claimed(self) -> tuple[ClaimedPlace, ...]:
        """Places that it reads and those that settling fills."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that its rows are declared to have; none where nobody says."""

    @property
    def settles(self) -> bool:
        """Whether there is something to do in the source after a commit."""

    def address(self, table_uri: str) -> str:
        """How a checkpoint names the source."""

    def positions(self, reach: Reach, after: Position | None, start: str = "") -> Available:
        """What is there now; with `start`, behind that alone. Raises StorageUnavailableError."""

    def takes_from(self, other: Declared) -> bool:
        """Whether settling takes away what the other source is to read."""

    def with_places(self, moved: Callable[[Location], Location]) -> Declared:
        """The same where places are called otherwise, as in a pod."""

    def no_range(self) -> Range:
        """The range of an operation that only settles."""

    def stored(self) -> dict[str, Any]:
        """Its fields in an operation, as JSON."""

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Self: ...


@dataclass(frozen=True, slots=True)
class ForSpark:
    """Why rows are taken in by Spark, in words; `error` is what this process met."""

    reason: str
    error: TidelineError | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Rows of the table to delete: those last written at the instant `until` or before, at most
    `rows_max` of them; `finished` is the range that was taken in where these are all."""

    until: str
    rows_max: int
    finished: Range


@dataclass(frozen=True, slots=True)
class Rows:
    """The good rows of a range, and what is bad in it: all that is, found before or now.

    `records` and `size_bytes` are of the source, where only reading shows them. `taken` is the
    range, where reading shows more of it than was planned: an empty one is no commit. With a
    `sweep` there are no rows, nor where a copy `begins_again` that ends with one. Where they
    `replaces_all` no row of before stays in the table. `columns` are those to remember.
    """

    table: pa.Table
    bad: BadInput = field(default_factory=BadInput)
    records: int = 0
    size_bytes: int = 0
    taken: Range | None = None
    sweep: Sweep | None = None
    begins_again: bool = False
    replaces_all: bool = False
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows are read for: a table's columns and keys, and what the ingest does to them.

    `schema` is the table's, None where the first batch decides it. `columns` are those that earlier
    commits were read with; `stated` are names, in lower case, of columns that someone declared.
    With `fits` untyped values are cast to the table's types; with `only_keys` other columns do not
    matter. `can_delete` says whether the operation takes rows that delete among others. `keys` is
    the table's KeyGenerator, None where there is no table yet, or it has none. Rows have values of
    the columns `required`, whatever keys are made of. Rows in `left_out` were set aside.
    The table fills up values that are its marker for `unavailable` ones; empty where it does not.
    `newest_instant` is the table's when the range was about to be read. A reading that `is_dry`
    changes nothing, in the source neither.
    """

    schema: pa.Schema | None = None
    record_key: tuple[str, ...] = ()
    ordering_columns: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    stated: frozenset[str] = frozenset()
    transform: str | None = None
    delete_when: str | None = None
    fits: bool = True
    only_keys: bool = False
    can_delete: bool = True
    keys: Any = None
    ordering: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    left_out: frozenset[int] = frozenset()
    unavailable: str = ""
    newest_instant: str = ""
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What reading showed of a range: the range with it, records and bytes; 0 is not known."""

    taken: Range
    records: int = 0
    size_bytes: int = 0


class SparkRows(Protocol):
    """How Spark reads ranges of one source for one shape."""

    @property
    def remembers_columns(self) -> bool:
        """Whether a checkpoint keeps the types that rows were read with."""

    @property
    def is_typed(self) -> bool:
        """Whether the source says of what types its columns are."""

    def source(self, taken: Range) -> DataFrame:
        """The rows as they are there, without those that are set aside unread."""

    def finished(self, source: DataFrame) -> DataFrame:
        """Source rows in the shape of the table, without those that are set aside."""

    def misfits(self, taken: Range) -> BadInput:
        """Parts whose columns cannot be the table's."""

    def find_bad(
        self, taken: Range, rows_max: int | None, try_rows: Callable[[DataFrame], None]
    ) -> BadInput:
        """What is at fault in a range that failed; empty where nothing is found."""

    def measured(self, taken: Range) -> Measured:
        """What is known of a range once its rows were read."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How many parts were settled, and in words what was done with them."""

    parts: int = 0
    words: str = ""


class Source(Protocol):
    """A declared source where its rows are read: by the process that carries an operation out."""

    def why_spark(self) -> str | None:
        """Why its rows are read by Spark, whatever is in them; None where this process may."""

    def read(self, taken: Range, shape: Shape, bytes_max: int) -> Rows | ForSpark:
        """The rows, at most so many bytes of them. Raises InvalidDataError, ConfigError."""

    def on_spark(self, session: SparkSession, shape: Shape, reading: Any) -> SparkRows:
        """`reading` is that of bad input that was found before. Raises ConfigError where Spark
        does not read sources of this kind."""

    def release(self) -> None:
        """Let go of what was kept of a range so as not to read it twice."""

    def set_part_aside(self, taken: Range, name: str, reason: str, now_ms: int) -> bool:
        """Keep a part out from now on; False where it is not as it was planned."""

    def set_rows_aside(self, taken: Range, name: str, rows: Sequence[BadRow]) -> bool:
        """Keep bad rows of a part, before the commit; False where it is not as it was planned."""

    def settle(self, position: Position, progress: Callable[[str], None]) -> Settled:
        """What is to be done once rows up to the position are in the table. Doing it twice changes
        nothing."""
