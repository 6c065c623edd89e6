"""The partitions of a table as a server has them, and what of them cannot be read, by its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tideline.errors import ConfigError
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.leaves import Leaf, Leaves
from tideline.ingest.sources.postgres.lsn import parse_lsn
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import quoted

_LEAVES_MAX = 5_000
_LEAVES = f"""
with recursive tree as (
  select inhrelid as number, xmin::text as link from pg_inherits where inhparent = %s
  union all
  select i.inhrelid, t.link || '.' || i.xmin::text
  from pg_inherits i join tree t on i.inhparent = t.number
)
select c.oid, c.relfilenode, t.link, n.nspname, c.relname, c.relkind, c.relpersistence,
  c.relreplident, (
    select string_agg('"' || replace(a.attname, '"', '""') || '"', ', ' order by a.attname)
    from pg_index x
    cross join unnest(x.indkey[0:x.indnkeyatts - 1]) as k(number)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
    where x.indrelid = c.oid and x.indisvalid
      and case c.relreplident when 'd' then x.indisprimary and x.indimmediate
        else x.indisreplident end
  ), pg_current_wal_insert_lsn()::text
from tree t join pg_class c on c.oid = t.number join pg_namespace n on n.oid = c.relnamespace
where c.relkind <> 'p' order by c.oid limit {_LEAVES_MAX + 1}
"""


def find_leaves(
    source: DeclaredPostgres,
    connection: Connection,
    oid: int,
    key: Collection[str],
    *,
    is_full: bool,
) -> tuple[tuple[Leaf, ...], int]:
    """The leaves of the table of this number, and a place of the log behind the attachment of each.
    Raises ConfigError where one cannot be read."""
    if source.on_truncate is OnTruncate.DELETE:
        raise ConfigError(
            "a truncate of a partition is not in the log: source.onTruncate is Fail or Ignore for "
            "a table with partitions",
            path=source.uri,
        )
    rows = connection.execute(_LEAVES.encode(), (oid,)).fetchall()
    if len(rows) > _LEAVES_MAX:
        message = f"the table has more than {_LEAVES_MAX:,} partitions"
        raise ConfigError(message, path=source.uri)
    wanted = ", ".join(sorted(map(quoted, key)))
    leaves, at = [], 0
    for number, file, link, schema, name, kind, persistence, identity, columns, insert in rows:
        full_name = f"{schema}.{name}"
        same = columns == wanted and _text(identity) in ("d", "i")
        obstacle = _obstacle(
            full_name, _text(kind), _text(persistence), _text(identity), is_full, same
        )
        if obstacle:
            raise ConfigError(f"partition {full_name} {obstacle}", path=source.uri)
        sql = f"only {quoted(schema)}.{quoted(name)}"
        leaves.append(Leaf(int(number), int(file), link, full_name, sql))
        at = max(at, parse_lsn(insert))
    return tuple(leaves), at


def what_was_lost(connection: Connection, known: Leaves, found: Sequence[Leaf]) -> str:
    """What became of leaves that were read, where their rows are not those of the table any more;
    else empty."""
    now = {leaf.place: leaf for leaf in found}
    for leaf in known.all:
        if leaf.place not in now:
            name = connection.execute(
                "select n.nspname, c.relname from pg_class c"
                " join pg_namespace n on n.oid = c.relnamespace where c.oid = %s",
                (leaf.number,),
            ).fetchone()
            if name is None:
                return f"the partition of number {leaf.number} was dropped"
            return f"partition {'.'.join(name)} was detached"
        if leaf.file != now[leaf.place].file:
            rewritten = now[leaf.place].name
            return f"partition {rewritten} was truncated, or rewritten: the log has neither"
    return ""


def _text(char: object) -> str:
    """A value of one byte, which clients give as text or bytes."""
    return char.decode() if isinstance(char, bytes) else str(char)


def _obstacle(
    name: str, kind: str, persistence: str, identity: str, is_full: bool, is_same: bool
) -> str:
    if kind != "r":
        return "is a foreign table: its changes are not in the log; detach it"
    if persistence != "p":
        return f"is unlogged: its changes are not in the log; alter table {name} set logged"
    if is_full and identity != "f":
        return (
            "has another replica identity than its table, each has its own: "
            f"alter table {name} replica identity full"
        )
    if not is_full and identity != "f" and not is_same:
        return (
            "names rows by other columns than the key of its table: "
            f"alter table {name} replica identity default, or using an index of the key"
        )
    return ""
