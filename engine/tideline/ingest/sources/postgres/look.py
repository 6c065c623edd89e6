"""What one look at a table of Postgres and its slot found, and what comes next. Values alone.

1. First the slot is made, and committed to the table as nothing copied: no change of later is
   missed.
2. Then rows are copied by spans of the key, each of them as it is when it is read. What changes
   meanwhile, before or behind the span, is in the log behind the slot's beginning.
3. Then the log is read from the slot's beginning. It repeats changes that the copy has, each key's
   in their order, so that a row ends as the log has it. Rows that were deleted since are deleted:
   nothing is copied once the log is read. Where other tables have the slot already, the log is read
   from where it ended when the table came to its publication: the first commit says so.
4. A range of the log ends with a transaction. Where there is nothing for this table in much log, a
   range without rows lets the slot move on, and the server remove it. Where a look has no time to
   see what there is, the range is `unseen`: what reads it ends it where there are enough changes,
   and where there are none it is mostly no commit.
5. A table that has rows is copied again by 1 to 3, whatever was lost: first the position says so,
   and where the log was by then. All that is in the log before is in the copy, once transactions
   are over that were open. Behind the copy rows are deleted that it did not write: the source had
   them no more, or they come in the log. A slot of other tables stays where it is meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tideline.ingest.sources.postgres.leaves import NO_LEAVES, Leaf, Leaves
from tideline.ingest.sources.postgres.lsn import lsn_text
from tideline.ingest.sources.postgres.position import (
    CopiedAgain,
    LastChange,
    Origin,
    Phase,
    PostgresPosition,
)
from tideline.ingest.sources.postgres.ranges import (
    Again,
    Keys,
    PostgresRange,
    postgres_range_of,
)
from tideline.ingest.sources.source import (
    Backlog,
    Limits,
    Lost,
    Nothing,
    NothingHeldUp,
    Position,
    Range,
    Retained,
    SetAside,
)
from tideline.wording import size_text

_AGAIN = (
    "what was deleted meanwhile cannot be known: have the table copied again with tideline resync, "
    "or a higher number in spec.resync"
)
_NAME_IT = "name that in source.table, and the ingest continues with it"
_OR_THE_OTHER = "have the other one copied with tideline resync"
_KEPT = "with source.onTruncate: Ignore the table keeps the rows that it has"
_MATCHES = "its LakeSource takes it in as another table where that name matches"
STEP_BYTES = 64 << 20
"""How much log is looked through at first, and kept without a change of this table."""
_LEAST_STEP_BYTES = 1 << 20
_STEPS_IN_LIMIT = 8
_RETAINED_BYTES_NOTED = 1 << 30
_SAFE_SHARE = 4
"""The server is about to give a slot up where less than this part of what it keeps is left."""
_BUSY_MS = 2_000
"""After which a slot that somebody reads is looked at again."""


class SlotState(Enum):
    """What a server says of the log of a slot: it is kept, kept though it is more than usual, or
    removed at the next checkpoint; or it was removed, and the slot is of no use."""

    RESERVED = "reserved"
    EXTENDED = "extended"
    UNRESERVED = "unreserved"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as the server has it. `confirmed` is where it begins to give changes; the server keeps
    `retained_bytes` of log for it, and `safe_bytes` more before it gives it up, None where it never
    does. While it `is_active` somebody reads it, and nobody else can. The server decodes its log
    from `restart` on. A `state` of None is one of servers to come."""

    confirmed: int
    state: SlotState | None = SlotState.RESERVED
    retained_bytes: int = 0
    safe_bytes: int | None = None
    is_active: bool = False
    restart: int = 0

    @property
    def is_lost(self) -> bool:
        return self.state is SlotState.LOST


@dataclass(frozen=True, slots=True)
class Ahead:
    """The next transactions in the log: where they end, None where there are none, how many changes
    they have, and whether they are all. No others are up to `seen_to`. The first changes of them
    were committed at `oldest_ms`. Where the log was seen from before the position on, it `begins`
    there, and the newest change of that part is `before`."""

    until: int | None = None
    changes: int = 0
    is_all: bool = True
    seen_to: int = 0
    oldest_ms: int | None = None
    before: LastChange | None = None
    begins: int | None = None


@dataclass(frozen=True, slots=True)
class PostgresLook(NothingHeldUp):
    """One look. `origin` is None where the table is not there. The log was flushed up to `flushed`
    before the changes `ahead` were looked for, which is done once the copy is made; `keys` are what
    the copy takes next. A table that was read may be `renamed_to` another name. The publication
    `publication_gone` is not there any more.

    A table with partitions has `leaves`, all attached before `leaves_at` of the log. `joins` is the
    one that is copied next, `leaf_lost` says what became of one that was read: that is passed over
    if it `keeps_rows`."""

    table: str
    slot_name: str
    origin: Origin | None = None
    slot: Slot | None = None
    flushed: int = 0
    keys: Keys | None = None
    ahead: Ahead | None = None
    step_bytes: int = STEP_BYTES
    renamed_to: str = ""
    publication_gone: str = ""
    is_shared: bool = False
    leaves: tuple[Leaf, ...] = ()
    leaves_at: int = 0
    joins: Leaf | None = None
    leaf_lost: str = ""
    keeps_rows: bool = False

    @property
    def is_whole(self) -> bool:
        return True

    @property
    def exists(self) -> bool:
        return self.origin is not None

    @property
    def set_aside(self) -> SetAside:
        return SetAside()

    @property
    def retained(self) -> Retained | None:
        slot = self.slot
        if slot is None:
            return None
        state = "" if slot.state is None else slot.state.value
        risk = risk_of(self.slot_name, slot) or ""
        return Retained(slot.retained_bytes, slot.safe_bytes, state, risk)

    def at_once(self) -> PostgresLook:
        return self

    def plan(self, after: Position | None, limits: Limits) -> Range | Nothing | Lost:
        known = _known(after)
        found = self._lost(known) or self._next(known)
        if found is None and known is not None and self._is_in_use(known):
            return Nothing(limits.now_ms + _BUSY_MS, self._reader)
        return found or Nothing()

    def plan_again(
        self,
        after: Position,
        *,
        inserts: bool,  # noqa: ARG002
    ) -> PostgresRange | Lost:
        if self.origin is None:
            return Lost(f"there is no table {self.table}", "create it, or name the right one")
        origin = _as_narrow(self.origin, _known(after))
        return PostgresRange(origin, self.flushed, again=Again.BEGIN)

    def backlog(self, after: Position | None, limits: Limits) -> Backlog:  # noqa: ARG002
        known = _known(after)
        if self._lost(known) is not None:
            return Backlog(is_seen=False)
        at = None if known is None or self.slot is None else known.lsn
        unsettled = at is not None and self.slot is not None and at > self.slot.confirmed
        # A slot of several tables is left to what knows them all.
        unsettled = unsettled and not self.is_shared
        following = self._next(known)
        return Backlog(
            # One that may have nothing is no work that waits.
            parts=0 if following is None or following.only_rows else 1,
            size_bytes=0 if at is None else max(0, self.flushed - at),
            records=self.ahead.changes if self.ahead is not None else 0,
            remembered=int(unsettled),
            oldest_ms=None if self.ahead is None else self.ahead.oldest_ms,
            is_seen=at is None or at >= self.flushed or self._is_seen(at),
        )

    def still_there(self, planned: Range, after: Position | None) -> PostgresRange:
        taken, known = postgres_range_of(planned), _known(after)
        planned_of, found = taken.origin, self.origin
        is_there = planned_of is not None and found is not None and planned_of.agrees_with(found)
        if taken.again is Again.BEGIN:
            return taken if is_there else PostgresRange()
        if taken.is_unseen and taken.until is not None:
            taken = replace(taken, until=min(taken.until, self.flushed))
        if taken.lsn is not None:
            slot, last = self.slot, taken.lsn if taken.until is None else taken.until
            is_there = is_there and slot is not None and not slot.is_lost
            is_there = is_there and slot is not None and slot.confirmed <= taken.lsn
            is_there = is_there and last <= self.flushed
        if taken.leaf is not None:
            is_there = is_there and taken.leaf in self.leaves
        if known is not None:
            is_there = is_there and _follows(taken, known) and not self._is_other_log(known)
        return taken if is_there else PostgresRange()

    def advance(self, after: Position | None, taken: Range) -> PostgresPosition:
        found, known = postgres_range_of(taken), _known(after)
        assert found.origin is not None
        again = None if known is None else known.again
        leaves = NO_LEAVES if known is None else known.leaves
        last = None if known is None else known.last
        if found.again is Again.BEGIN:
            assert found.lsn is not None
            started = CopiedAgain(found.since, found.lsn)
            return PostgresPosition(found.origin, copied=None, again=started)
        if found.again is Again.SWEEP:
            left = None if found.is_whole else again
            return PostgresPosition(found.origin, found.lsn, None, left, leaves, last)
        if found.keys is not None and found.leaf is not None:
            joined = self._noted(leaves).copied_up_to(found.leaf, found.keys.until)
            return PostgresPosition(found.origin, found.lsn, None, None, joined, last)
        if found.keys is not None:
            if found.lsn is not None and (known is None or known.lsn is None):
                last = LastChange(found.lsn)
            return PostgresPosition(found.origin, found.lsn, found.keys.until, again, leaves, last)
        if found.until is None:
            last = None if found.lsn is None else LastChange(found.lsn)
            # The copy, which begins now, has all rows of these.
            return PostgresPosition(found.origin, found.lsn, (), again, Leaves(self.leaves), last)
        noted = self._noted(leaves)
        return PostgresPosition(found.origin, found.until, None, None, noted, found.last or last)

    def look_after(self, position: Position) -> str:  # noqa: ARG002
        return ""

    def is_drained(self, position: Position) -> bool:
        known = _known(position)
        if known is None or known.lsn is None or self.ahead is None:
            return False
        if self._noted(known.leaves) != known.leaves or known.leaves.awaited:
            return False
        return self.ahead.is_all and known.lsn >= (self.ahead.until or 0)

    def was_read_to(self, position: Position) -> bool:
        known = _known(position)
        return known is not None and self.origin is not None and _is_same(known, self.origin)

    def describe_others(self) -> str | None:
        """How much log the server keeps for the slot, where that is much."""
        slot = self.slot
        return None if slot is None or self.is_shared else describe_kept(self.slot_name, slot)

    def _is_seen(self, at: int) -> bool:
        """Whether anything behind a position was looked at: while a slot is read nothing is."""
        ahead = self.ahead
        return ahead is not None and (ahead.is_all or ahead.seen_to > at)

    @property
    def _reader(self) -> str:
        """The session that reads the slot, as far as that is known."""
        if self.is_shared:
            return in_turn(self.slot_name)
        return f"slot {self.slot_name} is being read: a slot is of one ingest"

    def _is_in_use(self, known: PostgresPosition) -> bool:
        """Whether the log could not be looked at for that."""
        slot = self.slot
        return known.copied is None and self.ahead is None and slot is not None and slot.is_active

    def _next(self, known: PostgresPosition | None) -> PostgresRange | None:
        if self.origin is None:
            return None
        if known is not None and known.phase is Phase.AGAIN:
            return PostgresRange(_as_narrow(self.origin, known), again=Again.SLOT)
        if known is None or self.slot is None or not self.origin.entry:
            return PostgresRange(self.origin)
        if known.lsn is None and self.origin.is_narrowed:
            # Other rows may have been published since there is a slot.
            return PostgresRange(self.origin)
        if known.phase is Phase.COPY:
            begin = 0 if known.again is None else known.again.lsn
            start = max(self.slot.confirmed, begin) if known.lsn is None else known.lsn
            return PostgresRange(self.origin, start, keys=self.keys)
        if known.again is not None:
            return PostgresRange(self.origin, known.lsn, again=Again.SWEEP, since=known.again.since)
        if self.joins is not None and known.leaves.copied_of(self.joins) is not None:
            return PostgresRange(self.origin, known.lsn, keys=self.keys, leaf=self.joins)
        if self.ahead is None or known.lsn is None:
            return None
        if self.ahead.until is not None:
            # Nothing of others behind it is decoded again.
            return PostgresRange(self.origin, known.lsn, max(self.ahead.until, self.ahead.seen_to))
        if self.slot.confirmed < known.lsn and not self.is_shared:
            # The slot moves first, and what is in the table is not decoded again.
            return None
        notes = bool(known.leaves.awaited) or self._noted(known.leaves) != known.leaves
        if self.ahead.seen_to - known.lsn > self._kept_bytes(self.slot, known.lsn) or (
            (notes or not self.ahead.is_all) and self.ahead.seen_to > known.lsn
        ):
            return PostgresRange(self.origin, known.lsn, self.ahead.seen_to)
        if self.ahead.is_all or self.flushed <= known.lsn:
            return None
        return self._unseen(self.slot, known.lsn, notes=notes)

    def _unseen(self, slot: Slot, at: int, *, notes: bool) -> PostgresRange:
        """The range behind a place where the look had no time for any of it. It ends at a power of
        two: until there is twice as much log it is the same, and each attempt at it waits longer
        than the one before. Without rows it is a commit only where that lets the slot move, or a
        later one read on."""
        behind = self.flushed - at
        # So much more that the same log is not decoded for many steps.
        more = max(self.step_bytes, at - slot.restart)
        until = at + min(more, max(_LEAST_STEP_BYTES, 1 << (behind - 1).bit_length()))
        is_needed = behind > max(self._kept_bytes(slot, at), at - slot.confirmed)
        only_rows = until > self.flushed and not (notes or is_needed)
        return PostgresRange(self.origin, at, until, is_unseen=True, only_rows=only_rows)

    def _kept_bytes(self, slot: Slot, at: int) -> int:
        """How much log without changes costs a commit: less where the server keeps little, and none
        where it is about to give the slot up for a table `at` that place. What lets a server remove
        log may be the next record of a quiet log."""
        # Tables that are far ahead of the one that holds a slot cannot help it.
        is_near = 2 * (at - slot.confirmed) <= self.flushed - slot.confirmed
        if is_near and risk_of(self.slot_name, slot) is not None:
            return 0
        if slot.safe_bytes is None:
            return self.step_bytes
        kept = (slot.retained_bytes + slot.safe_bytes) // _STEPS_IN_LIMIT
        return min(self.step_bytes, max(_LEAST_STEP_BYTES, kept))

    def _noted(self, known: Leaves) -> Leaves:
        return known.noted(self.leaves, self.leaves_at, keeps_rows=self.keeps_rows)

    def _remedy_of_name(self) -> str:
        if self.is_shared:
            return _MATCHES
        return _NAME_IT if self.origin is None else f"{_NAME_IT}; or {_OR_THE_OTHER}"

    def _lost(self, known: PostgresPosition | None) -> Lost | None:
        if known is None:
            return None
        if self.renamed_to:
            what = f"table {self.table} has become {self.renamed_to}"
            return Lost(what, self._remedy_of_name())
        if self.origin is None:
            return Lost(f"there is no table {self.table} any more", _AGAIN)
        if self.publication_gone and known.lsn is not None:
            return Lost(f"there is no publication {self.publication_gone} any more", _AGAIN)
        if not _is_same(known, self.origin):
            return Lost(_difference(self.table, known.origin, self.origin), _AGAIN)
        if known.phase is Phase.AGAIN:
            # A slot that is gone or given up is made again.
            return None
        if self.leaf_lost and known.lsn is not None and not self.keeps_rows:
            return Lost(self.leaf_lost, f"{_KEPT}; or {_AGAIN}")
        if self.slot is None:
            gone = f"there is no slot {self.slot_name} any more"
            return None if known.lsn is None else Lost(gone, _AGAIN)
        if self.slot.is_lost:
            what = f"the server has given up slot {self.slot_name}: max_slot_wal_keep_size"
            return Lost(what, _AGAIN)
        if known.lsn is None:
            return None
        if self.slot.confirmed > known.lsn:
            return Lost(
                f"slot {self.slot_name} is at {lsn_text(self.slot.confirmed)}, the table has read "
                f"to {lsn_text(known.lsn)}: another reader moved it, or it was made again",
                _AGAIN,
            )
        if known.lsn > self.flushed:
            return Lost(
                f"the log ends at {lsn_text(self.flushed)}, the table has read to "
                f"{lsn_text(known.lsn)}: the server lost changes",
                _AGAIN,
            )
        if self._is_other_log(known):
            return Lost(
                f"the log before {lsn_text(known.lsn)} has other changes than the table took in: "
                "the server was restored from an earlier copy of its disk",
                _AGAIN,
            )
        return None

    def _is_other_log(self, known: PostgresPosition) -> bool:
        """Whether the log has something else where the table has read it."""
        ahead, last = self.ahead, known.last
        if ahead is None or ahead.begins is None or last is None or known.phase is not Phase.LOG:
            return False
        return not last.agrees_with(ahead.before, ahead.begins)


def in_turn(name: str) -> str:
    """Why a table waits that shares this slot."""
    return f"another table reads slot {name}: it is this one's turn afterwards"


def risk_of(name: str, slot: Slot) -> str | None:
    """What is to be done for a slot that the server is about to give up; without numbers, which
    every look changes."""
    remedy = (
        "let its tables catch up, or raise max_slot_wal_keep_size and reload the server "
        "(select pg_reload_conf())"
    )
    if slot.state is SlotState.UNRESERVED:
        return (
            f"slot {name} is unreserved: the server gives it up at its next checkpoint, and changes"
            f" are lost: {remedy}"
        )
    if slot.is_lost or slot.safe_bytes is None:
        return None
    if slot.safe_bytes * _SAFE_SHARE >= slot.retained_bytes:
        return None
    return f"slot {name} is close to max_slot_wal_keep_size, and is given up there: {remedy}"


def describe_kept(name: str, slot: Slot) -> str | None:
    """How much log the server keeps for a slot, where that is much, and whether it is about to give
    it up."""
    risk = risk_of(name, slot)
    if slot.retained_bytes < _RETAINED_BYTES_NOTED:
        return risk
    # In whole units, so that it is not said again for each look.
    kept = size_text(slot.retained_bytes // _RETAINED_BYTES_NOTED * _RETAINED_BYTES_NOTED)
    text = f"the server keeps over {kept} of its log for slot {name}"
    return text if risk is None else f"{text}; {risk}"


def _difference(table: str, known: Origin, found: Origin) -> str:
    if known.system != found.system:
        return f"another database answers: it is of system {found.system}, not {known.system}"
    if known.timeline != found.timeline:
        return (
            f"another server was promoted: its log is of timeline {found.timeline}, the table has "
            f"read {known.timeline}"
        )
    if known.table != found.table:
        return f"table {table} was dropped and created again"
    if known.entry != found.entry and (known.is_narrowed or found.is_narrowed):
        return (
            f"the publication has other rows or columns of table {table} than before, or had none "
            "of it meanwhile"
        )
    if known.entry != found.entry:
        return f"table {table} was taken out of the publication"
    if known.agrees_with(replace(found, placed=known.placed)):
        return f"table {table} was in another schema meanwhile, which may not be published"
    return "the publication was altered, and may have left changes out meanwhile"


def _as_narrow(found: Origin, known: PostgresPosition | None) -> Origin:
    """The table, narrowed as well if what was read of it was."""
    was_narrowed = known is not None and known.origin.is_narrowed
    return replace(found, is_narrowed=found.is_narrowed or was_narrowed)


def _follows(taken: PostgresRange, known: PostgresPosition) -> bool:
    """Whether a range is what comes after a position."""
    if taken.origin is None or not _is_same(known, taken.origin):
        return False
    if taken.keys is not None and taken.leaf is not None:
        is_next = known.phase is Phase.LOG and known.lsn == taken.lsn
        return is_next and known.leaves.copied_of(taken.leaf) == taken.keys.after
    if taken.keys is not None:
        return known.lsn in (None, taken.lsn) and known.copied == taken.keys.after
    if taken.again is Again.SWEEP:
        return known.phase is Phase.SWEEP and known.lsn == taken.lsn
    if taken.until is None:
        return known.lsn is None
    return known.lsn == taken.lsn and known.phase is Phase.LOG


def _is_same(known: PostgresPosition, found: Origin) -> bool:
    if known.lsn is None:
        # Nothing was read yet: the publication may be made now.
        return known.origin.table_alone == found.table_alone
    return known.origin.agrees_with(found)


def _known(after: Position | None) -> PostgresPosition | None:
    return after if isinstance(after, PostgresPosition) else None
