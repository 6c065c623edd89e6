"""What followers of a table must be told: rows at every moment, and what each commit did to them.

The model is a list of commits and restores in the order in which they took effect. It knows keys,
partitions, one ordering column and the operations of a write, and nothing of files and timelines.
Pure, but for the lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tideline.hudi.timeline.instant_time import InstantTime

Values = Mapping[str, Any]
Key = tuple[str, str]
"""Partition and record key; no partition where keys are unique in the whole table."""
ORDERING = "v"


@dataclass(frozen=True, slots=True)
class Row:
    """A row with the requested time of the commit that wrote it."""

    values: Values
    by: InstantTime


State = Mapping[Key, Row]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one row, in the words of a change feed."""

    kind: str
    values: Values


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: `rows` are what it was given, `columns` those of the table after it."""

    requested: InstantTime
    effective: InstantTime
    operation: str
    rows: Sequence[Values]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """The table was taken back at `effective` to the commit that took effect at `to`."""

    effective: InstantTime
    to: InstantTime
    undone: frozenset[InstantTime]
    """By the times at which they were requested."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The table after one commit, or after a restore, whose changes are not told."""

    effective: InstantTime
    state: State
    columns: tuple[str, ...]
    commit: InstantTime | None = None
    changes: tuple[Change, ...] = ()
    was_undone: bool = False


@dataclass
class FollowedModel:
    """A table: `is_global` says whether keys are unique in all of it, `is_ordered` whether a row
    that is older by `v` loses."""

    is_global: bool
    is_ordered: bool
    commits: list[Commit] = field(default_factory=list)
    restores: list[Restore] = field(default_factory=list)

    def add(self, commit: Commit) -> None:
        """A commit completed, maybe before others that were requested earlier."""
        self.commits.append(commit)
        self.__dict__.pop("moments", None)

    def restore(self, restore: Restore) -> None:
        """The table was taken back."""
        self.restores.append(restore)
        self.__dict__.pop("moments", None)

    def key(self, values: Values) -> Key:
        """What makes a row the same."""
        return ("" if self.is_global else values["part"], values["id"])

    @cached_property
    def moments(self) -> list[Moment]:
        """All of them in order, those that were taken back as well."""
        events: list[Commit | Restore] = [*self.commits, *self.restores]
        undone = {time for restore in self.restores for time in restore.undone}
        found: list[Moment] = []
        done: list[Commit] = []
        state: State = {}
        for event in sorted(events, key=lambda value: value.effective):
            if isinstance(event, Restore):
                done = [candidate for candidate in done if candidate.requested not in event.undone]
                state = {}
                for commit in done:
                    state, _ = self.after(state, commit)
                columns = done[-1].columns if done else ()
                found.append(Moment(event.effective, state, columns))
                continue
            done.append(event)
            state, changes = self.after(state, event)
            was_undone = event.requested in undone
            found.append(
                Moment(event.effective, state, event.columns, event.requested, changes, was_undone)
            )
        return found

    @property
    def now(self) -> Moment:
        return self.moments[-1] if self.moments else Moment(InstantTime("0" * 17), {}, ())

    def at(self, time: InstantTime) -> Moment | None:
        """The table at a time; None before its first commit."""
        return next((moment for moment in reversed(self.moments) if moment.effective <= time), None)

    def meant(self, time: InstantTime) -> InstantTime:
        """The time at which a commit took effect, where it is one at which one was requested."""
        if any(moment.effective == time for moment in self.moments):
            return time
        return next((moment.effective for moment in self.moments if moment.commit == time), time)

    def was_taken_back(self, time: InstantTime) -> bool:
        """Whether the table at this time had a commit that a later restore undid."""
        effective = {commit.requested: commit.effective for commit in self.commits}
        return any(
            time < restore.effective
            and any(effective[instant_time] <= time for instant_time in restore.undone)
            for restore in self.restores
        )

    def may_be_taken_back(self, time: InstantTime) -> bool:
        """Whether it lies between a restore and the commit that it went back to."""
        return any(restore.to < time < restore.effective for restore in self.restores)

    def between(self, begin: InstantTime, end: InstantTime) -> list[Moment]:
        """What took effect later than `begin` and not later than `end`."""
        return [moment for moment in self.moments if begin < moment.effective <= end]

    def after(self, state: State, commit: Commit) -> tuple[State, tuple[Change, ...]]:
        """What a commit makes of the rows, and what it changes."""
        gone = self._replaced(state, commit)
        new: dict[Key, Row] = {}
        for values in commit.rows:
            key = self.key(values)
            if commit.operation == "delete":
                gone |= {key} & state.keys()
            elif commit.operation != "delete_partition":
                stored = state.get(key)
                loses = stored is not None and self.is_ordered and key not in gone
                if not (loses and stored and stored.values[ORDERING] > values[ORDERING]):
                    new[key] = Row(values, commit.requested)
        kept = {key: row for key, row in state.items() if key not in gone}
        return {**kept, **new}, tuple(_changes(state, new, gone))

    @staticmethod
    def _replaced(state: State, commit: Commit) -> set[Key]:
        match commit.operation:
            case "insert_overwrite" | "delete_partition":
                parts = {values["part"] for values in commit.rows}
                return {key for key, row in state.items() if row.values["part"] in parts}
            case "insert_overwrite_table":
                return set(state)
            case _:
                return set()


def net(moments: Iterable[Moment], before: State, key_of: Any) -> dict[Key, Change]:
    """What changes come down to: of each key the last."""
    found: dict[Key, Change] = {}
    for moment in moments:
        for change in moment.changes:
            if change.kind != "UPDATE_BEFORE":
                found[key_of(change.values)] = change
    for key, change in list(found.items()):
        had = key in before
        if change.kind == "DELETE":
            if not had:
                del found[key]
        else:
            found[key] = Change("UPDATE_AFTER" if had else "INSERT", change.values)
    return found


def _changes(state: State, new: Mapping[Key, Row], gone: Collection[Key]) -> Iterable[Change]:
    for key, row in new.items():
        if key in state:
            yield Change("UPDATE_BEFORE", state[key].values)
            yield Change("UPDATE_AFTER", row.values)
        else:
            yield Change("INSERT", row.values)
    for key in gone:
        if key not in new:
            yield Change("DELETE", state[key].values)
