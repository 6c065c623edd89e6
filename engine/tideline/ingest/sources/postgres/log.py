"""The log of a Postgres server behind a slot: what it says, and what comes next for one of the
tables of a slot that several share.

1. Changes are looked at without being taken: they stay until the slot moves. Each reading begins
   where the slot is.
2. Whole transactions come, in the order of their commits.
3. Where a slot has several tables, a look counts the changes of one of them, behind what that has:
   the slot may be far behind it. It is looked at more and more log until there are some, or none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.ingest.sources.postgres.ahead import wait_for_slot
from tideline.ingest.sources.postgres.connection import OfSlot, connected, older_slot_named
from tideline.ingest.sources.postgres.look import Ahead
from tideline.ingest.sources.postgres.lsn import lsn_text, parse_lsn
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import literal, quoted

_OPTIONS = "'proto_version', '1', 'publication_names', %s"
_PEEK = f"pg_logical_slot_peek_binary_changes(%s, %s, %s, {_OPTIONS})"
_AHEAD_OF_TABLE = (
    "with message as (select lsn, xid::text, get_byte(data, 0) as kind,"
    " case get_byte(data, 0) when 84 then position({table} in substr(data, 7)) > 0"
    " else substr(data, 2, 4) = {table} end as is_own from {peek}),"
    " transaction as (select max(lsn) filter (where kind = 67) as until, count(*) as messages,"
    " count(*) filter (where is_own and kind in (68, 73, 84, 85)) as changes"
    " from message group by xid)"
    " select (select coalesce(sum(messages), 0) from transaction)::bigint, until::text, changes"
    " from (select 1) as always left join transaction on changes > 0 and until > %s::pg_lsn"
    " order by until"
)
_MORE = 8
"""So many times as much log is looked at where the last look was not enough."""


def ahead_of_table(
    source: OfSlot, connection: Connection, changes_max: int, oid: int, after: int, flushed: int
) -> Ahead:
    """The transactions that come next behind `after` and change the table of this number, for a
    slot that may be far behind it. Raises ConfigError, StorageUnavailableError."""
    wait_for_slot(source, connection)
    messages_max = changes_max
    statement = _AHEAD_OF_TABLE.format(table=_number(oid), peek=_PEEK).encode()
    while True:
        peeked = (source.slot, None, messages_max, quoted(source.publication))
        with older_slot_named(source):
            found = connection.execute(statement, (*peeked, lsn_text(after))).fetchall()
        is_all = found[0][0] < messages_max
        ends = [(parse_lsn(end), count) for _, end, count in found if end is not None]
        changes, until = 0, None
        for end, count in ends:
            changes, until = changes + count, end
            if changes >= changes_max:
                return Ahead(until, changes, is_all and end == ends[-1][0], until)
        if is_all:
            # Nothing else is in the log up to where it was flushed before.
            seen_to = max(until or 0, flushed)
            return Ahead(until and seen_to, changes, seen_to=seen_to)
        if until is not None:
            return Ahead(until, changes, is_all=False, seen_to=until)
        messages_max *= _MORE


def read_log(
    source: OfSlot, until: int, *, oid: int | None = None, messages_max: int | None = None
) -> Iterator[bytes]:
    """Messages of whole transactions behind the slot, up to a position, or until there are so many.
    With a table's number changes of others are left out. Raises StorageUnavailableError,
    ConfigError."""
    with connected(source) as connection:
        wait_for_slot(source, connection)
        publication = literal(quoted(source.publication))
        call = (
            f"pg_logical_slot_peek_binary_changes({literal(source.slot)}, "
            f"{literal(lsn_text(until))}, {messages_max or 'null'}, 'proto_version', '1', "
            f"'publication_names', {publication})"
        )
        # Inserts, updates and deletes begin with the table's number.
        own = "true"
        if oid is not None:
            own = f"get_byte(data, 0) not in (68, 73, 85) or substr(data, 2, 4) = {_number(oid)}"
        statement = f"copy (select data from {call} where {own}) to stdout (format binary)"
        with connection.cursor().copy(statement.encode()) as copy:
            copy.set_types(["bytea"])
            for (message,) in copy.rows():
                yield message


def _number(oid: int) -> str:
    """A table's number as messages have it, in SQL."""
    return f"'\\x{oid:08x}'::bytea"
