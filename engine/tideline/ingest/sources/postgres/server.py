"""What is asked of a Postgres server: its table, the slot, and the log.

1. Slot and publication are made by the first operation, the publication before the slot: a slot
   gives no changes of before its publication, and none at all without one.
2. Changes are looked at without being taken: they stay until the slot moves, which is done once
   they are in a table.
3. A commit is in the log a moment before others see its rows. Those that were under way when the
   slot was made are waited for: the copy, which begins after it, sees what the log does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.ahead import look_ahead, slot_in_turn, wait_for_slot
from tideline.ingest.sources.postgres.commits import (
    COMMITS_WAITED_S,
    flush,
    snapshot_after,
    wait_for_commits,
)
from tideline.ingest.sources.postgres.connection import IN_USE, OfSlot, connected, is_code
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.leaves import Leaf
from tideline.ingest.sources.postgres.look import PostgresLook, Slot, SlotState
from tideline.ingest.sources.postgres.lsn import lsn_text, parse_lsn
from tideline.ingest.sources.postgres.partitions import find_leaves, what_was_lost
from tideline.ingest.sources.postgres.position import Key, Origin, Phase, PostgresPosition
from tideline.ingest.sources.postgres.publication import (
    entry_in_publication,
    require_all,
    require_key,
    require_updates,
)
from tideline.ingest.sources.postgres.ranges import Keys
from tideline.ingest.sources.postgres.row_identity import (
    after_key,
    key_numbers,
    up_to_key,
    with_operators,
)
from tideline.ingest.sources.postgres.server_table import ServerColumn, ServerTable
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import one_row, quoted, whole

_LOCK_WAITED = "1s"
_LOCK_OF_SLOT = "hashtextextended('tideline ' || %s, 0)"
_STATES = frozenset(state.value for state in SlotState)


def look_at(
    source: DeclaredPostgres, after: PostgresPosition | None, variables: Mapping[str, str]
) -> PostgresLook:
    """What is there now, and what comes after a position. Raises StorageUnavailableError,
    ConfigError."""
    with connected(source, variables) as connection:
        return look_through(connection, source, after)


def look_through(
    connection: Connection,
    source: DeclaredPostgres,
    after: PostgresPosition | None,
    *,
    waits: bool = True,
) -> PostgresLook:
    """The same over a connection of any client. One that does not wait leaves a slot alone that
    somebody reads for longer than a moment."""
    flushed = flushed_of(source, connection)
    table = find_table(source, connection)
    look = PostgresLook(source.table, source.slot, flushed=flushed, is_shared=source.is_shared)
    if after is not None and (table is None or table.origin.table != after.origin.table):
        look = replace(look, renamed_to=_name_of(connection, after.origin))
    if table is None:
        return look
    slot = find_slot(source, connection)
    keys = ahead = joins = None
    lost = ""
    keeps = source.on_truncate is OnTruncate.IGNORE
    if after is not None and after.origin.table_alone == table.origin.table_alone:
        lost = what_was_lost(connection, after.leaves, table.leaves)
        if not table.origin.entry and not _is_publication(source, connection):
            look = replace(look, publication_gone=source.publication)
        # Else the log is lost to it, and may be none that can be decoded.
        is_next = after.phase is Phase.LOG and after.origin.agrees_with(table.origin)
        if after.lsn is not None and is_next:
            noted = after.leaves.noted(table.leaves, table.leaves_at, keeps_rows=keeps)
            joins = noted.next_to_copy(after.lsn)
        if after.copied is not None:
            keys = _next_keys(source, connection, table, after.copied)
        elif joins is not None:
            keys = _next_keys(source, connection, table, joins.copied, joins.leaf)
        elif after.lsn is not None and is_next and _may_be_read(source, slot, waits=waits):
            try:
                ahead = look_ahead(
                    source, connection, table.origin.table, after.lsn, flushed, waits=waits
                )
            except Exception as error:
                if slot is None or not source.is_shared or not is_code(error, IN_USE):
                    raise
                # Another table was faster.
                slot = replace(slot, is_active=True)
    return replace(
        look,
        origin=table.origin,
        slot=slot,
        keys=keys,
        ahead=ahead,
        step_bytes=source.step_bytes,
        leaves=table.leaves,
        leaves_at=table.leaves_at,
        joins=None if joins is None else joins.leaf,
        leaf_lost=lost,
        keeps_rows=keeps,
    )


def find_table(source: DeclaredPostgres, connection: Connection) -> ServerTable | None:
    """The table, None where there is none. Raises ConfigError where it cannot be read."""
    schema, name = source.schema_and_name
    found = connection.execute(
        "select c.oid, c.relkind, c.relreplident, c.relpersistence = 'p', system_identifier::text,"
        " substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace, pg_control_system()"
        " where n.nspname = %s and c.relname = %s",
        (schema, name),
    ).fetchone()
    if found is None:
        return None
    oid, kind, identity, is_logged, system, timeline = found
    if kind not in ("r", b"r", "p", b"p"):
        raise ConfigError("only tables are read, no views or foreign tables", path=source.uri)
    if not is_logged:
        raise ConfigError(
            f"the table is unlogged: its changes are not in the log; alter table {source.table} set"
            " logged, and have it copied again with tideline resync if it was read before",
            path=source.uri,
        )
    has_partitions = kind in ("p", b"p")
    columns = connection.execute(
        "select attnum, attname, atttypid, format_type(atttypid, atttypmod), attgenerated::text"
        " from pg_attribute"
        " where attrelid = %s and attnum > 0 and not attisdropped order by attnum",
        (oid,),
    ).fetchall()
    numbers = key_numbers(connection, oid)
    if not numbers:
        raise ConfigError(
            "the table has no primary key, or no replica identity (a key that is deferrable is "
            "none): its changes do not say which rows they are of; alter table "
            f"{source.table} add primary key (...), or replica identity using index ...",
            path=source.uri,
        )
    by_number = {
        number: ServerColumn(column, type_oid, type_sql, number)
        for number, column, type_oid, type_sql, _ in columns
    }
    key = with_operators(connection, (by_number[number] for number in numbers))
    entry = entry_in_publication(source, connection, oid, has_partitions=has_partitions)
    published = entry.number, entry.version, entry.is_narrowed, entry.placed
    origin = Origin(system, int(timeline, 16), oid, *published)
    is_full = identity in ("f", b"f")
    if is_full and not entry.number and any(how for *_, how in columns):
        require_updates(source, connection)
    has = {number for number, *_, how in columns if entry.has_column(number, how)}
    given = tuple(by_number[number] for number, *_ in columns if number in has)
    require_key(source, entry, [column.name for column in key if column.number not in has])
    table = ServerTable(origin, (schema, name), given, key, is_full, rows=entry.rows)
    if not has_partitions:
        return table
    names = [column.name for column in key]
    leaves, at = find_leaves(source, connection, oid, names, is_full=is_full)
    return replace(table, has_partitions=True, leaves=leaves, leaves_at=at)


def make_slot(
    source: DeclaredPostgres, *, is_copied_again: bool, was_narrowed: bool = False
) -> tuple[Origin, int]:
    """Make publication and slot where they are missing. What was committed before is seen by every
    look of after. The table as it is then, and where its log may be read from, which has every
    change that those looks may miss. A slot is dropped only for a table that had one, and
    `is_copied_again`: else it may be another's. It is of no use to anybody then. No publication is
    made for a table that `was_narrowed`: it would have what the other left out. Tables of one slot
    are here one at a time. Raises ConfigError, StorageUnavailableError."""
    with connected(source) as connection:
        (level,) = one_row(connection, "show wal_level")
        if level != "logical":
            message = f"wal_level is {level}: set it to logical and start the server again"
            raise ConfigError(message, path=source.uri)
        connection.execute(f"set statement_timeout = '{COMMITS_WAITED_S}s'".encode())
        connection.execute(f"select pg_advisory_lock({_LOCK_OF_SLOT})", (source.slot,))
        table = find_table(source, connection)
        if table is None:
            raise StorageUnavailableError("the table is gone", path=source.uri)
        slot = find_slot(source, connection)
        is_published = bool(table.origin.entry) or _is_publication(source, connection)
        if is_copied_again and slot is not None and (slot.is_lost or not is_published):
            # No slot of before can read a publication: it goes first, whatever dies then.
            wait_for_slot(source, connection)
            connection.execute("select pg_drop_replication_slot(%s)", (source.slot,))
            slot = None
        if not table.origin.entry:
            require_all(source, was_narrowed=was_narrowed)
            _make_publication(source, connection, table)
        if slot is None:
            # The server waits for transactions that are open.
            connection.execute(
                "select pg_create_logical_replication_slot(%s, 'pgoutput')", (source.slot,)
            )
            slot = find_slot(source, connection)
        connection.execute("set statement_timeout = 0")
        connection.execute(f"select pg_advisory_unlock({_LOCK_OF_SLOT})", (source.slot,))
        return _start_of(source, connection, 0 if slot is None else slot.confirmed)


def _start_of(source: DeclaredPostgres, connection: Connection, least: int) -> tuple[Origin, int]:
    """The table as it is published, and where its log begins that has nothing from before it was.
    What was written while other rows of it were published is in the log as these."""
    table = find_table(source, connection)
    wait_for_commits(source, connection)
    # Before the wait: what commits later is in the log behind it.
    flush(connection)
    lsn = max(flushed_of(source, connection), least)
    found = find_table(source, connection)
    if table is None or found is None or not found.origin.entry or found.origin != table.origin:
        raise StorageUnavailableError("the table was altered meanwhile", path=source.uri)
    wait_for_commits(source, connection)
    return found.origin, lsn


def copy_rows(
    source: DeclaredPostgres,
    names: tuple[str, ...],
    keys: Keys,
    bytes_max: int,
    leaf: Leaf | None = None,
) -> bytes:
    """Columns of the rows of a span, of a leaf alone where one is given, as CSV where all but nulls
    is quoted. Raises ConfigError, StorageUnavailableError."""
    with connected(source) as connection:
        table = find_table(source, connection)
        if table is None:
            raise StorageUnavailableError("the table is gone", path=source.uri)
        rows_of = table.sql_of(leaf)
        if leaf is not None:
            # All that was read of the log is seen.
            wait_for_commits(source, connection)
        conditions = [after_key(table.key, keys.after)] if keys.after else []
        if keys.until is not None:
            conditions.append(up_to_key(table.key, keys.until))
        where = table.where(*conditions)
        selected = ", ".join(map(quoted, names))
        order = ", ".join(quoted(column.name) for column in table.key)
        rows = f"select {selected} from {rows_of}{where} order by {order}"
        statement = f"copy ({rows}) to stdout (format csv, force_quote *)"
        chunks, size = [], 0
        with connection.cursor().copy(statement.encode()) as copy:
            for chunk in copy:
                size += len(chunk)
                if size > bytes_max:
                    raise ConfigError(
                        f"the rows of one commit have more than {bytes_max:,} bytes: lower "
                        "source.maxRecordsPerCommit",
                        path=source.uri,
                    )
                chunks.append(bytes(chunk))
        return b"".join(chunks)


def current_values(
    source: DeclaredPostgres,
    names: Sequence[str],
    record_key: Sequence[str],
    keys: Sequence[Sequence[str]],
    xids: Collection[int],
) -> dict[tuple[bytes, ...], dict[str, bytes | None]]:
    """Values of columns as they are now in rows of these keys, seen once these transactions are
    seen. Raises StorageUnavailableError, ConfigError."""
    with connected(source) as connection:
        table = find_table(source, connection)
        if table is None:
            return {}
        types = {column.name: column.type_sql for column in table.columns}
        aliases = [f"k{number}" for number in range(len(record_key))]
        equal = {column.name: column.operators.equal for column in table.key}
        same = " and ".join(
            f"t.{quoted(name)} {equal.get(name, '=')} {alias}::{types[name]}"
            for name, alias in zip(record_key, aliases, strict=True)
        )
        wanted = [name for name in names if name in types]
        # Written by the function that writes them to the log. A composite value that has a null is
        # neither null nor not null.
        values = ", ".join(
            f"case when {name} is distinct from null then format('%%s', {name}) end"
            for name in (f"t.{quoted(name)}" for name in wanted)
        )
        texts = ", ".join("%s::text[]" for _ in aliases)
        statement = (
            f"select {', '.join(aliases)}, {values} from {table.sql} t"
            f" join unnest({texts}) as k({', '.join(aliases)}) on {same}"
        )
        columns = tuple(list(column) for column in zip(*keys, strict=True))
        with snapshot_after(source, connection, xids):
            found = connection.execute(statement.encode(), columns).fetchall()
    count = len(aliases)
    return {
        tuple(value.encode() for value in row[:count]): {
            name: None if value is None else value.encode()
            for name, value in zip(wanted, row[count:], strict=True)
        }
        for row in found
    }


def require_same(source: DeclaredPostgres, origin: Origin, lsn: int, before: ServerTable) -> None:
    """What was read is of the table and the slot that were planned, in the columns of `before`.
    Raises StorageUnavailableError where one was made again meanwhile, or altered."""
    with connected(source) as connection:
        flushed_of(source, connection)
        table, slot = find_table(source, connection), find_slot(source, connection)
    is_same = table is not None and origin.agrees_with(table.origin)
    is_same = is_same and table is not None and table.columns == before.columns
    if not is_same or slot is None or slot.confirmed > lsn:
        raise StorageUnavailableError("table or slot changed while it was read", path=source.uri)


def advance_slot(source: OfSlot, lsn: int) -> bool:
    """Let the server remove the log up to `lsn`; False where it may already. Raises
    StorageUnavailableError, ConfigError."""
    with connected(source) as connection:
        return advance_through(connection, source, lsn)


def advance_through(
    connection: Connection, source: OfSlot, lsn: int, *, waits: bool = True
) -> bool:
    """The same over a connection of any client. One that does not wait leaves a slot alone that
    somebody reads for longer than a moment."""
    slot = find_slot(source, connection)
    if slot is None or slot.is_lost or slot.confirmed >= lsn:
        return False
    try:
        with slot_in_turn(source, connection, waits=waits):
            # Another process may have moved it further since: it cannot be moved back.
            moved = connection.execute(
                "select pg_replication_slot_advance(slot_name, %s::pg_lsn)"
                " from pg_replication_slots"
                " where slot_name = %s and confirmed_flush_lsn < %s::pg_lsn",
                (lsn_text(lsn), source.slot, lsn_text(lsn)),
            ).fetchone()
    except Exception as error:
        if waits or not is_code(error, IN_USE):
            raise
        return False
    return moved is not None


def flushed_of(source: OfSlot, connection: Connection) -> int:
    (in_recovery,) = one_row(connection, "select pg_is_in_recovery()")
    if in_recovery:
        raise StorageUnavailableError("the server is a standby", path=source.uri)
    (flushed,) = one_row(connection, "select pg_current_wal_flush_lsn()::text")
    return parse_lsn(flushed)


def _name_of(connection: Connection, known: Origin) -> str:
    """What a table that was read is called now; empty where it is gone."""
    found = connection.execute(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace,"
        " pg_control_system() where c.oid = %s and system_identifier::text = %s",
        (known.table, known.system),
    ).fetchone()
    return "" if found is None else ".".join(found)


def _make_publication(source: DeclaredPostgres, connection: Connection, table: ServerTable) -> None:
    """One that is there may be another user's: it only grows where the slot is shared."""
    is_there = _is_publication(source, connection)
    now = find_table(source, connection) if is_there else None
    if now is not None and now.origin.entry:
        message = f"publication {source.publication} was made meanwhile"
        raise StorageUnavailableError(message, path=source.uri)
    if is_there and source.is_shared:
        _add_to_publication(source, connection, table)
        return
    if is_there:
        raise ConfigError(
            f"publication {source.publication} does not have the table: alter publication "
            f"{source.publication} add table {source.table}",
            path=source.uri,
        )
    name, options = quoted(source.publication), ""
    if table.has_partitions or source.is_shared:
        # Tables that come later may have partitions.
        options = " with (publish_via_partition_root = true)"
    connection.execute(f"create publication {name} for table {table.sql}{options}".encode())


def _is_publication(source: OfSlot, connection: Connection) -> bool:
    counted = "select count(*) from pg_publication where pubname = %s"
    (count,) = one_row(connection, counted, (source.publication,))
    return bool(count)


def _may_be_read(source: DeclaredPostgres, slot: Slot | None, *, waits: bool) -> bool:
    if slot is None or slot.is_lost:
        return False
    # For one that other tables read as well it is a matter of turns.
    return waits or source.is_shared or not slot.is_active


def _add_to_publication(
    source: DeclaredPostgres, connection: Connection, table: ServerTable
) -> None:
    """While nobody writes to the table. A transaction that wrote to it before would be decoded as
    if it were not published, and servers of before May 2025 remember that for those behind it."""
    name = quoted(source.publication)
    connection.execute("begin")
    # Writers that come meanwhile wait as long.
    connection.execute(f"set local lock_timeout = '{_LOCK_WAITED}'".encode())
    connection.execute(f"lock table {table.sql} in share row exclusive mode".encode())
    connection.execute(f"alter publication {name} add table {table.sql}".encode())
    connection.execute("commit")


def find_slot(source: OfSlot, connection: Connection) -> Slot | None:
    """The slot as it is now. Raises ConfigError where it is another's."""
    found = connection.execute(
        "select plugin, database = current_database(), confirmed_flush_lsn::text,"
        " wal_status, restart_lsn::text,"
        " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, safe_wal_size,"
        " active, coalesce((to_jsonb(s)->>'two_phase')::boolean, false)"
        " from pg_replication_slots s where slot_name = %s",
        (source.slot,),
    ).fetchone()
    if found is None:
        return None
    plugin, is_here, confirmed, wal_status, restart, retained, safe, is_active, two_phase = found
    if plugin != "pgoutput" or not is_here:
        raise ConfigError(
            f"slot {source.slot} is of another database or plugin: give source.slot another name",
            path=source.uri,
        )
    if two_phase:
        raise ConfigError(
            f"slot {source.slot} gives transactions before they are committed (two_phase): drop it "
            f"(select pg_drop_replication_slot('{source.slot}')), and leave it to the ingest to "
            "make one",
            path=source.uri,
        )
    state = SlotState(wal_status) if wal_status in _STATES else None
    if confirmed is None and state is not SlotState.LOST:
        raise StorageUnavailableError(f"slot {source.slot} is being made", path=source.uri)
    return Slot(
        parse_lsn(confirmed or "0/0"),
        state,
        max(0, whole(retained)),
        None if safe is None else whole(safe),
        bool(is_active),
        restart=parse_lsn(restart or confirmed or "0/0"),
    )


def _next_keys(
    source: DeclaredPostgres,
    connection: Connection,
    table: ServerTable,
    after: Key,
    leaf: Leaf | None = None,
) -> Keys:
    """Those of as many rows as one commit takes in. Raises ConfigError."""
    if after and len(after) != len(table.key):
        raise ConfigError("the primary key is another one than before", path=source.uri)
    condition = after_key(table.key, after) if after else "true"
    # Without the table's name the order would be that of the texts.
    names = [f"t.{quoted(column.name)}" for column in table.key]
    texts = ", ".join(f"{name}::text" for name in names)
    rows = table.sql_of(leaf)
    found = connection.execute(
        f"select {texts} from {rows} t where {condition} order by {', '.join(names)}"
        f" offset {source.changes_max - 1} limit 1".encode()
    ).fetchone()
    return Keys(after, found)
