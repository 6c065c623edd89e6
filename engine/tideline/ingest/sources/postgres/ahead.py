"""What comes next in the log of a server behind a slot for one table: a look in bounded steps.

1. The server decodes its log from where the slot keeps it, whatever of it was looked through
   before, and up to a position. It is looked through in spans that grow, until there are changes
   of the table, or no more log, or the time is over.
2. A span without changes may be passed over, however the look ends: each transaction belongs to
   where its commit begins, so any position divides the log.
3. Where the time is over before the first span is looked through, nothing is known. A transaction
   that has been open for long keeps the log that far back, or another table of the same slot does.
4. A slot of one table is close to it: as many messages are decoded as a commit may have changes.
   One that several share may be far behind this table, with any number of messages before it.
5. What the slot still has of before `after` was taken in. Which of it is the newest change of the
   table says whether this is the log that was read: a server that was restored from a copy of its
   disk has another one at the same places.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tideline.ingest.sources.postgres.connection import (
    TIMED_OUT,
    OfSlot,
    is_code,
    older_slot_named,
)
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import Ahead
from tideline.ingest.sources.postgres.lsn import lsn_text, parse_lsn
from tideline.ingest.sources.postgres.position import LastChange
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import number_of, one_row, quoted, whole
from tideline.ingest.sources.postgres.turns import end_turn, turn_at

_BUSY_S = 10.0
_SHORT_S = 2.0
"""How long a slot in use is waited for: by a look that may wait, and by one that may not."""
_POLL_S = 0.2
_LOOKED_S = 5.0
"""How long a look reads the log."""
_GROWTH = 2
_SINCE_2000_MS = 946_684_800_000


def _number(place: int) -> str:
    """Eight bytes of a message in SQL."""
    return f"('x' || encode(substr(data, {place}, 8), 'hex'))::bit(64)::bigint"


# The first byte says what a message is: B begins a transaction, with where its commit begins and
# when that was; C ends it; I, U, D and T change rows.
_AHEAD = f"""
with message as (
  select lsn, xid::text, get_byte(data, 0) as kind, data, {{own}} as is_own,
    get_byte(data, 0) in (68, 73, 85) and substr(data, 2, 4) = {{table}} as is_row
  from pg_logical_slot_peek_binary_changes(
    %s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)
), transaction as (
  select max(lsn) filter (where kind = 67) as until, count(*) as messages,
    count(*) filter (where is_own and kind in (68, 73, 84, 85)) as changes,
    min({_number(2)}) filter (where kind = 66) as commit_at, bool_or(is_row) as has_rows,
    min({_number(2)}) filter (where kind = 66) >= %s::bigint as is_new,
    min({_number(10)}) filter (where kind = 66) as at
  from message group by xid
), own as (
  select until, changes, at, sum(changes) over (order by until) - changes < %s as is_next
  from transaction where is_new and changes > 0
), before as (
  select commit_at, at from transaction where not is_new and has_rows
  order by commit_at desc limit 1
)
select (select max(until) from transaction)::text,
  (select coalesce(sum(messages), 0) from transaction)::bigint,
  max(until) filter (where is_next)::text, coalesce(sum(changes) filter (where is_next), 0)::bigint,
  (min(at) filter (where is_next) / 1000)::bigint, bool_and(is_next),
  (select commit_at from before), (select at from before)
from own
"""
_OWN = (
    "case get_byte(data, 0) when 84 then position({table} in substr(data, 7)) > 0"
    " else substr(data, 2, 4) = {table} end"
)


def look_ahead(
    source: DeclaredPostgres,
    connection: Connection,
    oid: int,
    after: int,
    flushed: int,
    *,
    waits: bool = True,
) -> Ahead:
    """The transactions that come next behind `after` and change the table of this number, at least
    as many as have `changes_max` changes where they are in one span; and the last one before, as
    far as the slot has that. Raises ConfigError, StorageUnavailableError."""
    with slot_in_turn(source, connection, waits=waits):
        begins = _confirmed(source, connection)
        is_behind = begins is not None and begins < after
        found = _look_in_steps(source, connection, oid, after, flushed, is_behind=is_behind)
        if not is_behind or found.seen_to <= after:
            return found
        connection.execute(b"set statement_timeout = 0")
        # Of a slot that somebody moved meanwhile nothing is known.
        return replace(found, begins=begins if begins == _confirmed(source, connection) else None)


@contextmanager
def slot_in_turn(source: OfSlot, connection: Connection, *, waits: bool) -> Iterator[None]:
    """Once it is this one's turn, and nobody uses the slot; or after a while."""
    with turn_at(source, connection, _BUSY_S if waits else _SHORT_S):
        if waits:
            wait_for_slot(source, connection)
        yield


def _confirmed(source: OfSlot, connection: Connection) -> int | None:
    found = connection.execute(
        "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s",
        (source.slot,),
    ).fetchone()
    return None if found is None or found[0] is None else parse_lsn(found[0])


def _look_in_steps(
    source: DeclaredPostgres,
    connection: Connection,
    oid: int,
    after: int,
    flushed: int,
    *,
    is_behind: bool,
) -> Ahead:
    ends_s = time.monotonic() + _LOOKED_S
    seen_to, span, before = after, source.step_bytes, None
    while True:
        until, began_s = min(flushed, after + span), time.monotonic()
        left_s = ends_s - began_s
        found = _look_up_to(source, connection, oid, (after, until), left_s, is_behind=is_behind)
        if found is None:
            return Ahead(is_all=False, seen_to=seen_to, before=before)
        before = found.before
        is_all = found.is_all and until == flushed
        if found.until is not None or not found.is_all or is_all:
            return replace(found, is_all=is_all)
        seen_to, now_s = until, time.monotonic()
        if now_s + _GROWTH * (now_s - began_s) > ends_s:
            return Ahead(is_all=False, seen_to=seen_to, before=before)
        span *= _GROWTH


def wait_for_slot(source: OfSlot, connection: Connection) -> None:
    """Until nobody uses the slot, for a moment: one that died does so a little longer."""
    deadline_s = time.monotonic() + _BUSY_S
    while time.monotonic() < deadline_s:
        found = connection.execute(
            "select active from pg_replication_slots where slot_name = %s", (source.slot,)
        ).fetchone()
        if found is None or not found[0]:
            return
        time.sleep(_POLL_S)


def _look_up_to(
    source: DeclaredPostgres,
    connection: Connection,
    oid: int,
    span: tuple[int, int],
    left_s: float,
    *,
    is_behind: bool,
) -> Ahead | None:
    """What is in a span; None where that takes longer than there is time."""
    left_ms = int(left_s * 1000)
    if left_ms <= 0:
        return None
    connection.execute(f"set statement_timeout = {left_ms}".encode())
    after, until = span
    messages_max = None if source.is_shared or is_behind else source.changes_max
    table = number_of(oid)
    own = _OWN.format(table=table) if source.is_shared else "true"
    publication = quoted(source.publication)
    given = (source.slot, lsn_text(until), messages_max, publication, after, source.changes_max)
    try:
        with older_slot_named(source):
            found = one_row(connection, _AHEAD.format(own=own, table=table), given)
    except Exception as error:
        if is_code(error, TIMED_OUT):
            end_turn(connection)
            return None
        raise
    last, messages, end, changes, oldest, has_all, last_at, last_us = found
    before = None if last_at is None else LastChange(whole(last_at), whole(last_us))
    ends = None if end is None else parse_lsn(end)
    if ends is not None and not has_all:
        seen_to, is_all = ends, False
    elif messages_max is not None and whole(messages) >= messages_max:
        seen_to, is_all = max(after, parse_lsn(last)), False
    else:
        seen_to, is_all = until, True
    oldest_ms = None if oldest is None else whole(oldest) + _SINCE_2000_MS
    return Ahead(ends, whole(changes), is_all, seen_to, oldest_ms, before=before)
