"""The active timeline: its value (`ActiveTimeline`) and the store that moves it (`TimelineStore`).

States only move requested -> inflight -> completed, and each move creates one immutable object.
A reader therefore sees all of an instant or nothing, and a process that dies leaves an instant
in one of three states, and the next writer can take up each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from tideline.clock import Clock
from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    StorageUnavailableError,
    UnsupportedTableError,
)
from tideline.formats.avro import decode_container
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, WRITE_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout import TimelineLayout
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import AlreadyExists, Listing, ObjectStore

LISTING_MARGIN_MS = 10_000
"""How far the store's clock may be behind ours when it stamps an object."""
SCHEMA_DIRECTORY = ".hoodie/.schema"
"""Where versions of the schema lie in every layout, a file for each instant that made one."""
MOVED = "timeline.moved"
"""An object of this name in a timeline's folder: the table's version changed, its timeline is
elsewhere, and what is here is being deleted."""
_CONTROL = ".hoodie"
_PROPERTIES = ".hoodie/hoodie.properties"
"""An object that each table has, and has first."""
_LISTINGS_MAX = 10
_ONE_ANSWER = 400
"""Objects that any store lists in one answer: between two of them others may be archived."""


@dataclass(frozen=True, slots=True)
class ActiveTimeline:
    """The instants of the active timeline in order, each in its most advanced state.

    Filters return timelines again. A filtered timeline keeps the `start` of the whole one, so
    `is_committed` does not take a removed instant for an archived one. `kept` are commits before
    the start that count only where they are shown: savepoints keep them from the archive, or they
    are archived and `left_out`, as later than what is shown; None where these are not known.
    `has_archive` is whether instants may have been archived from it, `has_schemas` whether its
    folder may hold versions of the schema. `made_ms` has, where the timeline is of a listing, every
    state of every instant with the time of its object. `is_moving`: it is the former one of a table
    whose version changed.
    """

    instants: tuple[Instant, ...] = ()
    whole: ActiveTimeline | None = field(default=None, repr=False, compare=False)
    has_archive: bool = field(default=True, repr=False, compare=False)
    has_schemas: bool = field(default=True, repr=False, compare=False)
    made_ms: Mapping[Instant, int] = field(default_factory=dict, repr=False, compare=False)
    is_moving: bool = field(default=False, repr=False, compare=False)
    left_out: frozenset[InstantTime] | None = field(default=None, repr=False, compare=False)
    start: InstantTime | None = field(init=False, compare=False)
    kept: frozenset[InstantTime] = field(init=False, repr=False, compare=False)
    _committed: frozenset[InstantTime] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.whole is None:
            object.__setattr__(self, "instants", _most_advanced(self.instants))
            object.__setattr__(self, "start", _start(self.instants))
        else:
            object.__setattr__(self, "start", self.whole.start)
            object.__setattr__(self, "has_archive", self.whole.has_archive)
            object.__setattr__(self, "has_schemas", self.whole.has_schemas)
            object.__setattr__(self, "made_ms", self.whole.made_ms)
        object.__setattr__(self, "_committed", None)
        kept = self.whole.kept if self.whole else _before(self.start, self._committed_times())
        object.__setattr__(self, "kept", kept | self.left_out if self.left_out else kept)

    def completed(self) -> ActiveTimeline:
        """Only completed instants."""
        return self._where(lambda instant: instant.is_completed)

    def pending(self) -> ActiveTimeline:
        """Only requested and inflight instants."""
        return self._where(lambda instant: instant.is_pending)

    def of(self, *actions: Action) -> ActiveTimeline:
        """Only these actions. A completed compaction is a commit, a pending one a compaction."""
        return self._where(lambda instant: instant.action in actions)

    def writes(self) -> ActiveTimeline:
        """Only what adds or replaces data files: commits of all kinds and the services that do.

        Source: Hudi's HoodieTimeline.getWriteTimeline.
        """
        return self.of(*WRITE_ACTIONS)

    def after(self, time: InstantTime) -> ActiveTimeline:
        return self._where(lambda instant: instant.time > time)

    def at_or_after(self, time: InstantTime) -> ActiveTimeline:
        return self._where(lambda instant: instant.time >= time)

    def before(self, time: InstantTime) -> ActiveTimeline:
        return self._where(lambda instant: instant.time < time)

    def up_to(self, time: InstantTime) -> ActiveTimeline:
        """Instants not later than `time`."""
        return self._where(lambda instant: instant.time <= time)

    def completed_by(self, time: InstantTime) -> ActiveTimeline:
        """What had completed at `time`."""
        return self._where(
            lambda instant: instant.completed_at is not None and instant.completed_at <= time
        )

    def leaving_out(self, archived: frozenset[InstantTime]) -> ActiveTimeline:
        """The same, and these archived commits do not count; all others do."""
        left_out = archived | (self.left_out or frozenset())
        return replace(self._where(lambda _: True), left_out=left_out)

    def within(self, after: InstantTime, until: InstantTime) -> ActiveTimeline:
        """Instants later than `after` and not later than `until`."""
        return self._where(lambda instant: after < instant.time <= until)

    def savepointed_times(self) -> frozenset[InstantTime]:
        """The instants that completed savepoints protect."""
        return frozenset(instant.time for instant in self.of(Action.SAVEPOINT).completed())

    def first(self) -> Instant | None:
        return self.instants[0] if self.instants else None

    def last(self) -> Instant | None:
        return self.instants[-1] if self.instants else None

    def completed_as(self, completed: Instant) -> tuple[Instant, ...]:
        """The completed instants of this time and action, whenever they completed."""
        wanted = completed.time, completed.action
        return tuple(
            instant for instant in self.completed() if (instant.time, instant.action) == wanted
        )

    def find(self, time: InstantTime) -> Instant | None:
        """The instant at `time`; a savepoint only when nothing else of that time is here."""
        found = [instant for instant in self.instants if instant.time == time]
        return min(found, key=lambda instant: instant.action is Action.SAVEPOINT, default=None)

    def settled_until(self) -> str:
        """Before this time no commit is missing, and none will come; empty without instants."""
        first = self.writes().pending().first() or self.last()
        return str(first.time) if first is not None else ""

    def newest_time(self) -> InstantTime | None:
        """The greatest time here, pending instants and completion times included."""
        times = [instant.time for instant in self.instants]
        times += [item.completion_time for item in self.instants if item.completion_time]
        return max(times, default=None)

    def is_committed(self, time: InstantTime) -> bool:
        """Whether files written at `time` belong to the table as this timeline shows it.

        That is when a commit of that time is completed here, or `time` is before the `start` of
        the whole timeline, so that its instant has been archived
        (Hudi: BaseHoodieTimeline.containsOrBeforeTimelineStarts). Hudi's start is the first
        completed commit; here a pending one counts too, so that files of a failed first commit are
        not taken for archived ones. Where nothing was ever archived, nothing is archived.
        """
        if time in self._committed_times():
            return True
        is_before = self.has_archive and self.start is not None and time < self.start
        return is_before and time not in self.kept

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def _committed_times(self) -> frozenset[InstantTime]:
        """Most timelines are filtered further, so that it is made when it is wanted."""
        if self._committed is None:
            committed = frozenset(
                instant.time
                for instant in self.instants
                if instant.is_completed and instant.action in COMMIT_ACTIONS
            )
            object.__setattr__(self, "_committed", committed)
            return committed
        return self._committed

    def _where(self, keep: Callable[[Instant], bool]) -> ActiveTimeline:
        whole = self if self.whole is None else self.whole
        kept = tuple(item for item in self.instants if keep(item))
        return ActiveTimeline(kept, whole, left_out=self.left_out)


class TimelineStore:
    """Reads the active timeline of one table and moves its instants through their states.

    A move that fails with StorageUnavailableError may have happened. Calling again with the same
    `token` (ASCII, unique to the attempt) is safe: what this attempt created counts as its own.
    Without one every call is an attempt of its own.

    One that is kept lists less: `_standing` are the paths that it has listed or made, and a listing
    that shows the same ones is not torn.
    """

    def __init__(self, store: ObjectStore, layout: TimelineLayout, clock: Clock) -> None:
        self.store = store
        self.layout = layout
        self.clock = clock
        self._standing: frozenset[str] = frozenset()

    def load(self, own: InstantTime | None = None) -> ActiveTimeline:
        """The timeline as it is now, `own` being an instant of the caller's; empty when there is
        none."""
        return self.timeline_of(self.listing(own))

    def timeline_of(self, listing: Listing) -> ActiveTimeline:
        """The timeline that a listing shows."""
        has_archive = any(_may_be_archive(directory) for directory in listing.directories)
        schemas_are_listed = SCHEMA_DIRECTORY.rpartition("/")[0] == self.layout.directory
        parsed = (
            (self.layout.parse(item.path.rpartition("/")[2]), item.modified_ms)
            for item in listing.objects
        )
        made_ms = {instant: modified for instant, modified in parsed if instant is not None}
        return ActiveTimeline(
            tuple(made_ms),
            has_archive=has_archive,
            has_schemas=not schemas_are_listed or SCHEMA_DIRECTORY in listing.directories,
            made_ms=made_ms,
            is_moving=any(item.path.endswith(f"/{MOVED}") for item in listing.objects),
        )

    def listing(self, own: InstantTime | None = None) -> Listing:
        """The timeline's objects at one moment.

        A listing takes time, and what is created during it is in it or not: it may show a commit
        and lack the clustering that the commit was built on. So a listing with something new in it
        is made again, until it shows what stood before it was made; all of that was there together.
        So is a long one: archived instants may be missing in it that older ones of it came before.
        What the caller made itself, before it listed, makes none doubtful.
        """
        for _ in range(_LISTINGS_MAX):
            standing, started_ms = self._standing, self.clock.now_ms()
            listing = self._believed(self.store.list_directory(self.layout.directory))
            self._standing = frozenset(item.path for item in listing.objects)
            if self._are_of(self._standing ^ standing, own):
                break
            others = (info for info in listing.objects if not self._are_of((info.path,), own))
            newest_ms = max((info.modified_ms for info in others), default=0)
            is_short = len(listing.objects) <= _ONE_ANSWER
            if is_short and newest_ms < started_ms - LISTING_MARGIN_MS:
                break
        return listing

    def _believed(self, listing: Listing) -> Listing:
        """What the timeline's folder has, where its listing is empty: some clients of object stores
        take an answer of 200 with an error in its body for one, and over an empty timeline all that
        was ingested would be new. What lies beside the folder tells. Raises StorageUnavailableError
        for listings that cannot be.
        """
        if listing.objects or listing.directories:
            return listing
        directory, beside = self.layout.directory, listing
        if directory != _CONTROL:
            beside = self.store.list_directory(_CONTROL)
        if directory in beside.directories:
            # One of a local folder may be empty, which a second listing shows as the first did.
            return self.store.list_directory(directory)
        if not (beside.objects or beside.directories) and self.store.head(_PROPERTIES) is not None:
            message = (
                "a listing of the table's timeline is empty, and its properties are there: the "
                "store, or a proxy before it, answers listings with something else; try again"
            )
            raise StorageUnavailableError(message, table=self.store.uri, path=_CONTROL)
        return listing

    def _are_of(self, paths: Iterable[str], own: InstantTime | None) -> bool:
        return all(own is not None and self._time_of(path) == own for path in paths)

    def _time_of(self, path: str) -> InstantTime | None:
        instant = self.layout.parse(path.rpartition("/")[2])
        return None if instant is None else instant.time

    def create_requested(
        self, time: InstantTime, action: Action, body: bytes = b"", token: str | None = None
    ) -> Instant:
        """Begin an instant. Raises ConflictError when another process began this one first.

        Dying before the object exists leaves nothing. Dying after leaves a requested instant that
        wrote no data: a later writer rolls it back, or executes it when it is a service's plan.
        """
        return self._create(Instant(time, action, State.REQUESTED), body, token)

    def to_inflight(self, instant: Instant, body: bytes = b"", token: str | None = None) -> Instant:
        """Announce that files of a requested instant may appear from now on.

        Raises ConflictError when the requested object is gone (rolled back by another process) or
        another process already moved it. Dying before leaves it requested. Dying after leaves it
        inflight: its files are invisible until a later writer rolls it back, or resumes it if a
        service's.
        """
        if self.layout.has_requested_file(instant):
            self._require(instant.in_state(State.REQUESTED))
        return self._create(instant.in_state(State.INFLIGHT), body, token)

    def complete(
        self,
        instant: Instant,
        body: bytes,
        token: str | None = None,
        *,
        at: InstantTime | None = None,
    ) -> Instant:
        """Make an inflight instant visible; the returned one has its completed action.

        `at` is the completion time, in layouts that have them, and reserved for it under the table
        lock: in those a second process would complete it under another name. Raises ConflictError
        when the inflight object is gone (rolled back by another process) or another process
        completed it. Dying before leaves it inflight and invisible. Dying after leaves it complete:
        all that is lost is tidying up (markers, heartbeat), which a later writer does.
        """
        self.require_inflight(instant)
        return self.publish(instant.in_state(State.COMPLETED, at), body, token)

    def require_inflight(self, instant: Instant) -> None:
        """The first half of `complete`: ConflictError when the inflight object is gone. Sends
        nothing that could make the instant visible."""
        self._require(instant.in_state(State.INFLIGHT))

    def publish(self, completed: Instant, body: bytes, token: str | None = None) -> Instant:
        """The second half of `complete`: the conditional create. Raises as `complete` does."""
        return self._create(completed, body, token)

    def stored(self, instant: Instant) -> Instant:
        """The instant as its object is named: a completed one of unknown completion time is looked
        for in a listing, in layouts whose names have it. Raises ObjectNotFoundError."""
        found = self._named(instant)
        if not found:
            raise ObjectNotFoundError(
                "no such instant is completed", table=self.store.uri, instant=instant
            )
        return found[0]

    def read(self, instant: Instant) -> bytes:
        """The body of the instant's object. Raises ObjectNotFoundError when it has none."""
        return self.store.get(self.path(self.stored(instant)))

    def read_commit(self, instant: Instant) -> CommitMetadata:
        """The commit metadata an instant carries; empty for a pending one without a body.

        Raises ObjectNotFoundError when the object is gone, CorruptTableError when it cannot be
        read.
        """
        instant = self.stored(instant)
        return self.layout.decode_commit(self.read(instant), instant)

    def read_record(self, instant: Instant) -> Mapping[str, Any]:
        """The Avro record an instant carries, such as a plan; empty for one without a body.

        Raises ObjectNotFoundError when the object is gone, CorruptTableError when it cannot be
        read.
        """
        body = self.read(instant)
        with self.naming(instant):
            return decode_container(body, path=self.path(instant)) if body else {}

    @contextmanager
    def naming(self, instant: Instant) -> Iterator[None]:
        """Within, a CorruptTableError about the instant's object names table and instant, too."""
        try:
            yield
        except CorruptTableError as error:
            raise CorruptTableError(
                error.message,
                table=self.store.uri,
                instant=instant,
                path=error.path,
                value=error.value,
            ) from error

    def remove(self, instant: Instant) -> None:
        """Delete the instant's object in this one state; nothing happens when it is gone.

        A completed instant whose completion time is not given is looked for in a listing.
        """
        for found in self._named(instant):
            path = self.path(found)
            DeleteScope(self.store, "the timeline", control=(path,)).remove(path)
            self._standing -= {path}

    def path(self, instant: Instant) -> str:
        """Where the instant's object is, relative to the table base."""
        return self.layout.path(instant)

    def _named(self, instant: Instant) -> tuple[Instant, ...]:
        """The instants meant that have a name of their own."""
        needs_time = instant.is_completed and self.layout.has_completion_times
        if not needs_time or instant.completion_time is not None:
            return (instant,)
        return self.load().completed_as(instant)

    def _create(self, instant: Instant, body: bytes, token: str | None) -> Instant:
        if not self.layout.is_written:
            raise UnsupportedTableError(
                f"the timeline in {self.layout.directory} is read, not written",
                table=self.store.uri,
                instant=instant,
            )
        path = self.path(instant)
        outcome = self.store.put_if_absent(path, body, token=token or uuid4().hex)
        if isinstance(outcome, AlreadyExists):
            message = f"another process already made this instant {instant.state.value.lower()}"
            raise ConflictError(message, table=self.store.uri, instant=instant, path=path)
        self._standing |= {path}
        return instant

    def _require(self, instant: Instant) -> None:
        path = self.path(instant)
        if self.store.head(path) is None:
            message = (
                f"rolled back by another process: its {instant.state.value.lower()} object is gone"
            )
            raise ConflictError(message, table=self.store.uri, instant=instant, path=path)


def _most_advanced(instants: tuple[Instant, ...]) -> tuple[Instant, ...]:
    """Each instant once, in the state furthest along, in order.

    A completed compaction shadows its own pending states, although its action has another name.
    """
    completed = {(item.time, item.action): item for item in instants if item.is_completed}
    furthest = dict(completed)
    for item in instants:
        known = furthest.get((item.time, item.action))
        if (item.time, item.action.when_completed) not in completed and (
            known is None or known.state < item.state
        ):
            furthest[item.time, item.action] = item
    return tuple(sorted(furthest.values()))


def _before(start: InstantTime | None, times: frozenset[InstantTime]) -> frozenset[InstantTime]:
    return frozenset(time for time in times if start is not None and time < start)


def _may_be_archive(directory: str) -> bool:
    """Its name is a property of the table; all else in there is hidden, or the metadata table."""
    name = directory.rpartition("/")[2]
    return not name.startswith(".") and name != "metadata"


def _start(instants: tuple[Instant, ...]) -> InstantTime | None:
    """The first write that no savepoint keeps back while its neighbours are archived.

    Where savepoints keep all of them, as after a restore, it is the newest: what is archived is
    older than that one. Source: Hudi's BaseHoodieTimeline.findFirstNonSavepointCommit.
    """
    savepointed = {item.time for item in instants if item.action is Action.SAVEPOINT}
    times = [item.time for item in instants if item.action in WRITE_ACTIONS]
    newest = times[-1] if times else None
    return next((time for time in times if time not in savepointed), newest)
