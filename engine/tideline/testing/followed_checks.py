"""What followers of a table see, compared with a model: rows now and as of any time, changes of any
range, and what is published, read by PyIceberg.

A follower may be refused, but only for a reason: what it asks for was cleaned, archived or taken
back since. A refusal names the earliest time that is answered, which is tried. Rows are never
wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from tideline.errors import ConfigError, ConflictError, TidelineError, UnsupportedTableError
from tideline.formats.row_changes import CHANGE_INSTANT, CHANGE_TYPE
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.changes import ChangeFeed
from tideline.hudi.read.incremental import effective_time, first_pending_write, plan_incremental
from tideline.hudi.read.net_changes import NetChanges
from tideline.hudi.read.point_in_time import BEGINNING
from tideline.hudi.services.savepoint.execute import list_savepoints
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import UTC_ZONE
from tideline.lake_table import LakeTable
from tideline.publication.published_table import PublishedTable
from tideline.testing.fake_clock import FakeClock
from tideline.testing.followed_model import FollowedModel, Moment, Values, net
from tideline.testing.memory_file_io import PROPERTIES

_BEGIN_AFTER = re.compile(r"earliest time to begin after is (\d+)")
_READ_AS_OF = re.compile(r"earliest time to read as of is (\d+)")
_GONE = re.compile("can no longer be|begins before the active")
Range = tuple[InstantTime, InstantTime | None]


@dataclass
class Followers:
    """Those of one table; `open_lake` opens it again, as they do after each step.

    `floor` is the time from which on nothing was cleaned or archived.
    """

    model: FollowedModel
    open_lake: Callable[[], LakeTable]
    clock: FakeClock
    floor: InstantTime = BEGINNING
    times: list[InstantTime] = field(default_factory=list)
    snapshots: dict[int, Sequence[Values]] = field(default_factory=dict)
    _active: dict[InstantTime, InstantTime] = field(default_factory=dict)
    _opened: LakeTable | None = None
    _held: LakeTable | None = None
    _published: int | None = None
    _was_cleaned: bool = False
    _tried: set[InstantTime] = field(default_factory=set)

    @property
    def lake(self) -> LakeTable:
        """The table as it was opened last."""
        self._opened = self._opened or self.open_lake()
        return self._opened

    # What happened

    def note_end(self) -> None:
        """A consumer takes what there is, and remembers where it came to."""
        self._opened = None
        self._remember(self.lake.changes(self._newest()).until)

    def cleaned(self, retained: int, *, foreign: bool = False) -> None:
        """A clean kept what the newest commits need."""
        self._opened = None
        commits = sorted(self._completed().items())
        if len(commits) >= retained:
            before = [effective for _, effective in commits[: len(commits) - retained + 1]]
            self.floor = max(self.floor, *before)
        self._was_cleaned |= foreign

    def published(self) -> None:
        """What is there now is published."""
        self._opened = None
        place = PublishedTable(self.lake.hoodie_table)
        loaded = place.load()
        if loaded is not None and loaded.metadata.current_snapshot_id is not None:
            self._published = len(self.model.moments)
            self.snapshots[loaded.metadata.current_snapshot_id] = self._expected_now()

    def after_step(self, *, is_published: bool) -> None:
        """Note what the step left: times to ask about, and what is archived."""
        self._opened = None
        now = self._completed()
        undone = {
            instant_time for restore in self.model.restores for instant_time in restore.undone
        }
        gone = [at for time, at in self._active.items() if time not in now and time not in undone]
        if gone:
            self.floor = max(self.floor, *gone)
        for time, at in now.items():
            if time not in self._active:
                self._remember(at, time, _later(at, -1), _later(at, 1))
        self._active = now
        self._remember(UTC_ZONE.instant_at(self.clock.now_ms()))
        if is_published:
            self.published()

    def _meant(self, time: InstantTime) -> InstantTime:
        """The time at which a commit, or a service's, took effect that was requested then."""
        meant = self.model.meant(time)
        return self._active.get(time, time) if meant == time else meant

    def _remember(self, *times: InstantTime) -> None:
        self.times += [time for time in times if time not in self.times]

    def _completed(self) -> dict[InstantTime, InstantTime]:
        commits = self.lake.timeline().of(*COMMIT_ACTIONS).completed()
        return {commit.time: effective_time(commit) for commit in commits}

    def _newest(self) -> InstantTime:
        return max(self._completed().values(), default=BEGINNING)

    # What is compared

    def check_some(self, random: Random, is_outage: bool) -> None:
        """Rows now, and of everything else one or two."""
        self._tried.clear()
        self.check_now()
        times = [BEGINNING, *self.times]
        begin, end = sorted(random.choices(times, k=2))
        checks: list[Callable[[], None]] = [
            lambda: self.check_as_of(begin),
            lambda: self.check_as_of(end),
            lambda: self.check_changes((self.floor, None)),
            lambda: self.check_changes((begin, None)),
            lambda: self.check_changes((begin, end)),
            lambda: self.check_net((random.choice((begin, self.floor)), None)),
            lambda: self.check_net((begin, end)),
            lambda: self.check_written(begin),
        ]
        for check in random.sample(checks, 3):
            check()
        if not is_outage and random.random() < 0.6:
            self.check_published(random)

    def check_all(self, is_outage: bool) -> None:
        """Rows of all times, everything that happened, and what is published."""
        self.check_now()
        for time in (
            BEGINNING,
            *(moment.effective for moment in self.model.moments),
            *self.times[-3:],
        ):
            self.check_as_of(time)
        self.check_changes((BEGINNING, None))
        self.check_net((self.floor, None))
        self.check_written(BEGINNING)
        if not is_outage:
            self.check_published(None)

    def check_now(self) -> None:
        """What a new reader sees, and one that has had the table open all the time."""
        self._held = self._held or self.open_lake()
        columns = self.model.now.columns
        expected = self._expected_now()
        for name, lake in (("a new reader", self.lake), ("a reader that stays", self._held)):
            if columns:
                _same(_rows(lake.to_arrow(), columns), expected, f"{name} sees", columns)

    def check_as_of(self, asked: InstantTime) -> None:
        """The rows of then, or a refusal that is justified."""
        time = self._meant(asked)
        then = self.model.at(time)
        try:
            found = self.lake.to_arrow(as_of=asked)
        except (ConfigError, ConflictError) as refused:
            assert then is None or self._may_refuse_as_of(time), f"as of {asked}: {refused}"
            self._try_named(_READ_AS_OF, refused, asked, self.check_as_of)
            return
        assert then is not None, f"as of {asked}, before the first commit, there are rows"
        assert not self.model.was_taken_back(time), f"as of {asked}, which a restore took back"
        assert _columns(found) == then.columns, f"as of {asked}: {_columns(found)}"
        expected = [row.values for row in then.state.values()]
        _same(_rows(found, then.columns), expected, f"as of {asked}", then.columns)

    def check_changes(self, asked: Range) -> None:
        """What each commit of a range did, or a refusal that is justified."""
        feed = self._feed(asked)
        if feed is None:
            return
        moments = self._moments(asked, feed.until)
        columns = feed.schema.names[2:]
        rows = [_plain(row, columns) for row in feed.read_all().to_pylist()]
        told = [(row[CHANGE_INSTANT], row[CHANGE_TYPE], row) for row in rows]
        self._check_pairs(told, asked)
        found = [
            (instant, Counter((kind, _key(row, columns)) for _, kind, row in group))
            for instant, group in groupby(told, key=lambda pair: pair[0])
        ]
        expected = [
            (
                str(moment.commit),
                Counter((at.kind, _key(at.values, columns)) for at in moment.changes),
            )
            for moment in moments
            if moment.changes
        ]
        assert found == expected, f"changes of {_said(asked)}:\n{_differing(found, expected)}"

    def check_net(self, asked: Range) -> None:
        """What a range comes down to."""
        feed = self._feed(asked)
        if feed is None:
            return
        columns = feed.schema.names[2:]
        found = Counter(
            (row[CHANGE_TYPE], _key(row, columns))
            for row in NetChanges(feed).read_all().to_pylist()
        )
        before = self.model.at(self._meant(asked[0]))
        state = before.state if before else {}
        changes = net(self._moments(asked, feed.until), state, self.model.key).values()
        expected = Counter((change.kind, _key(change.values, columns)) for change in changes)
        assert found == expected, (
            f"net changes of {_said(asked)}:\n{_differing([found], [expected])}"
        )

    def check_written(self, asked: InstantTime) -> None:
        """The rows that commits after a time wrote, as they are now."""
        hoodie = self.lake.hoodie_table
        begin = self._meant(asked)
        try:
            plan = plan_incremental(hoodie, asked)
            scan = ArrowScan.of(hoodie, plan)
            rows = pa.Table.from_batches(list(scan.batches()), scan.schema)
        except ConfigError as refused:
            assert begin < self._floor_now(), f"rows written after {asked}: {refused}"
            return
        assert plan.commits is not None
        end = self._end((asked, None), plan.commits.until)
        then = self.model.at(end)
        effective = {moment.commit: moment.effective for moment in self.model.moments}
        expected = [
            row.values
            for row in (then.state.values() if then else ())
            if begin < effective[row.by] <= end
        ]
        columns = _columns(rows)
        _same(_rows(rows, columns), expected, f"written after {asked}", columns)

    def check_published(self, random: Random | None) -> None:
        """The newest snapshot that is published, and others that are kept."""
        loaded = PublishedTable(self.lake.hoodie_table).load()
        if loaded is None or loaded.metadata.current_snapshot_id is None:
            return
        newest = loaded.metadata.current_snapshot_id
        kept = [snapshot.snapshot_id for snapshot in loaded.metadata.snapshots]
        known = [number for number in kept if number in self.snapshots]
        chosen = {newest} | set(
            known if random is None else random.sample(known, min(1, len(known)))
        )
        iceberg = StaticTable.from_metadata(loaded.metadata_location, PROPERTIES)
        is_fresh = self._published == len(self.model.moments)
        for key in sorted(chosen & self.snapshots.keys()):
            expected = self.snapshots[key]
            try:
                found = iceberg.scan(snapshot_id=key).to_arrow()
            except FileNotFoundError:
                assert not (is_fresh and key == newest), "the newest snapshot lacks files"
                assert self._was_cleaned or self.model.restores, f"snapshot {key} lacks files"
                continue
            _same(_rows(found, _columns(found)), expected, f"snapshot {key}", _columns(found))
        if is_fresh:
            _same(
                _rows(iceberg.scan().to_arrow(), self.model.now.columns),
                self._expected_now(),
                "published",
            )

    # Ranges

    def _feed(self, asked: Range) -> ChangeFeed | None:
        begin, end = asked
        try:
            feed = self.lake.changes(begin, end)
        except (ConfigError, UnsupportedTableError) as refused:
            assert self._may_refuse_range(asked), f"changes of {_said(asked)}: {refused}"
            self._try_named(
                _BEGIN_AFTER, refused, begin, lambda named: self.check_changes((named, end))
            )
            return None
        return feed

    def _moments(self, asked: Range, until: InstantTime) -> list[Moment]:
        begin = self._meant(asked[0])
        moments = self.model.between(begin, self._end(asked, until))
        lost = [moment for moment in moments if moment.was_undone or moment.commit is None]
        assert not lost, f"changes of {_said(asked)} pass over a restore"
        return moments

    def _end(self, asked: Range, until: InstantTime) -> InstantTime:
        """Where a range has to end; `until` is where it says that it ends."""
        end = None if asked[1] is None else self._meant(asked[1])
        hoodie = self.lake.hoodie_table
        pending = first_pending_write(hoodie, self.lake.timeline())
        limit = end or InstantTime("9" * 17)
        if pending is not None and not hoodie.layout.timeline.has_completion_times:
            limit = min(limit, _later(pending.time, -1))
        assert until <= limit or until <= self._meant(asked[0]), f"ends at {until}"
        return limit

    def _may_refuse_range(self, asked: Range) -> bool:
        begin = self._meant(asked[0])
        end = InstantTime("9" * 17) if asked[1] is None else self._meant(asked[1])
        lost = [
            moment
            for moment in self.model.between(begin, end)
            if moment.was_undone or not moment.commit
        ]
        taken_back = map(self.model.may_be_taken_back, (begin, end))
        return begin < self._floor_now() or bool(lost) or any(taken_back)

    def _floor_now(self) -> InstantTime:
        """Where instants do not say when they completed, nothing before the oldest active one is
        answered once there is an archive."""
        table, timeline = self.lake.hoodie_table, self.lake.timeline()
        if table.layout.timeline.has_completion_times or not timeline.has_archive:
            return self.floor
        return max(self.floor, timeline.start or BEGINNING)

    def _may_refuse_as_of(self, time: InstantTime) -> bool:
        hoodie, timeline = self.lake.hoodie_table, self.lake.timeline()
        by_completion = hoodie.layout.timeline.has_completion_times
        pending = first_pending_write(hoodie, timeline)
        if by_completion:
            pending = timeline.writes().pending().first()
        is_unsettled = pending is not None and (by_completion or pending.time <= time)
        is_unsettled &= not by_completion or time > _later(self._now(), -11_000)
        saved = {
            savepoint.instant for savepoint in list_savepoints(hoodie) if savepoint.is_completed
        }
        is_saved = time in {self._meant(instant_time) for instant_time in saved}
        is_gone = time < self._floor_now() and not is_saved
        return is_gone or is_unsettled or self.model.may_be_taken_back(time)

    def _now(self) -> InstantTime:
        return UTC_ZONE.instant_at(self.clock.now_ms())

    def _try_named(
        self,
        pattern: re.Pattern[str],
        refused: TidelineError,
        asked: InstantTime,
        check: Callable[[InstantTime], None],
    ) -> None:
        """A refusal for what is gone names a time, and that is answered."""
        named = pattern.search(str(refused))
        assert named or not _GONE.search(str(refused)), f"no time is named: {refused}"
        if named is not None:
            time = InstantTime(named[1])
            assert time > asked, str(refused)
            if time not in self._tried:
                self._tried.add(time)
                check(time)

    @staticmethod
    def _check_pairs(told: Sequence[tuple[str, str, Values]], asked: Range) -> None:
        """What a row was is followed by what it is."""
        following = [*told[1:], ("", "", {})]
        for (_, kind, row), (_, next_kind, next_row) in zip(told, following, strict=False):
            if kind == "UPDATE_BEFORE":
                assert next_kind == "UPDATE_AFTER", f"{_said(asked)}: {row}, then {next_row}"
                assert row["id"] == next_row["id"]

    def _expected_now(self) -> list[Values]:
        return [row.values for row in self.model.now.state.values()]


def _later(time: InstantTime, ms: int) -> InstantTime:
    return UTC_ZONE.instant_at(UTC_ZONE.epoch_ms(time) + ms)


def _said(asked: Range) -> str:
    return f"({asked[0]}, {asked[1] or 'now'}]"


def _columns(rows: pa.Table) -> tuple[str, ...]:
    return tuple(name for name in rows.schema.names if not name.startswith("_hoodie_"))


def _rows(rows: pa.Table, columns: Sequence[str]) -> list[Values]:
    return [dict(row) for row in rows.select(list(columns)).to_pylist()]


def _plain(row: Values, columns: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in (CHANGE_INSTANT, CHANGE_TYPE, *columns)}


def _key(row: Values, columns: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in columns if not name.startswith("_hoodie_"))


def _same(
    found: Sequence[Values],
    expected: Sequence[Values],
    what: str,
    columns: Sequence[str] | None = None,
) -> None:
    names = columns or sorted({name for row in (*found, *expected) for name in row})
    left, right = (Counter(_key(row, names) for row in rows) for rows in (found, expected))
    assert left == right, f"{what}:\n{_differing([left], [right])}"


def _differing(found: Sequence[Any], expected: Sequence[Any]) -> str:
    lines = [f"  found {item}" for item in found if item not in expected]
    lines += [f"  expected {item}" for item in expected if item not in found]
    if len(found) == len(expected) == 1:
        return f"  found besides: {found[0] - expected[0]}\n  lacks: {expected[0] - found[0]}"
    return "\n".join(lines) or f"  found {found}\n  expected {expected}"
