"""By what the rows of a table of Postgres are known: the columns of its key, and how these compare.

1. A key is that of the primary key, where changes name rows by it; else of the index of the replica
   identity. One that is deferrable is none: within a transaction two rows may have it, and the log
   does not say which of them was changed next. Alone it names no rows: a server refuses updates
   and deletes of a table that is published with it.
2. Types of extensions have operators in the schema of the extension, which is not searched: these
   are named in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tideline.ingest.sources.postgres.position import Key
from tideline.ingest.sources.postgres.server_table import Operators, ServerColumn
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import literal, quoted

IS_KEY = """x.indisvalid and x.indimmediate and case c.relreplident
  when 'f' then x.indisprimary
  when 'd' then x.indisprimary
  when 'i' then x.indisreplident or x.indisprimary and exists(
    select from pg_index named where named.indrelid = c.oid and named.indisvalid
      and named.indisreplident and x.indkey[0:x.indnkeyatts - 1]::int2[]
        <@ named.indkey[0:named.indnkeyatts - 1]::int2[])
  else false end"""
"""In SQL: whether the index `x` of the table `c` has its key, the primary one first."""
_KEY = f"""
select x.indkey::text, x.indnkeyatts from pg_class c join pg_index x on x.indrelid = c.oid
where c.oid = %s and {IS_KEY} order by x.indisprimary desc limit 1
"""
_FIRST_OF_USERS = 16_384
"""Types of a lower number are the server's own."""
_OPERATORS = """
with recursive base as (
  select oid, typbasetype from pg_type where oid = %s
  union all
  select t.oid, t.typbasetype from pg_type t join base b on t.oid = b.typbasetype
)
select a.amopstrategy, n.nspname, o.oprname
from base b
join pg_opclass c on c.opcintype = b.oid and c.opcdefault
join pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
join pg_amop a on a.amopfamily = c.opcfamily and a.amoplefttype = b.oid and a.amoprighttype = b.oid
join pg_operator o on o.oid = a.amopopr
join pg_namespace n on n.oid = o.oprnamespace
where b.typbasetype = 0 and n.nspname <> 'pg_catalog' and a.amopstrategy in (2, 3, 5)
order by a.amopstrategy
"""


def key_numbers(connection: Connection, oid: int) -> tuple[int, ...]:
    """The numbers of the key's columns in their order; none where nothing names the rows."""
    found = connection.execute(_KEY.encode(), (oid,)).fetchone()
    return () if found is None else tuple(int(n) for n in found[0].split()[: found[1]])


def with_operators(
    connection: Connection, columns: Iterable[ServerColumn]
) -> tuple[ServerColumn, ...]:
    """Columns with the operators that compare their values."""
    return tuple(
        column
        if column.type_oid < _FIRST_OF_USERS
        else replace(column, operators=_operators_of(connection, column.type_oid))
        for column in columns
    )


def after_key(key: Sequence[ServerColumn], values: Key) -> str:
    """A condition in SQL: rows behind a key."""
    if _are_found(key):
        return _of_rows(key, values, ">")
    column, constant, rest = key[0], _constant(key[0], values[0]), key[1:]
    behind = f"{quoted(column.name)} {column.operators.behind} {constant}"
    if not rest:
        return behind
    equal = f"{quoted(column.name)} {column.operators.equal} {constant}"
    return f"({behind} or {equal} and {after_key(rest, values[1:])})"


def up_to_key(key: Sequence[ServerColumn], values: Key) -> str:
    """A condition in SQL: rows up to a key."""
    if _are_found(key):
        return _of_rows(key, values, "<=")
    column = key[0]
    up_to = f"{quoted(column.name)} {column.operators.up_to} {_constant(column, values[0])}"
    # The condition on the first column is one that an index may have.
    return f"({up_to} and not {after_key(key, values)})" if key[1:] else up_to


def _are_found(key: Sequence[ServerColumn]) -> bool:
    """Whether all compare by operators that need no schema: then an index finds the rows."""
    return all(column.operators == Operators() for column in key)


def _of_rows(key: Sequence[ServerColumn], values: Key, sign: str) -> str:
    names = ", ".join(quoted(column.name) for column in key)
    constants = ", ".join(map(_constant, key, values))
    return f"({names}) {sign} ({constants})"


def _constant(column: ServerColumn, value: str) -> str:
    return f"{literal(value)}::{column.type_sql}"


def _operators_of(connection: Connection, type_oid: int) -> Operators:
    found = connection.execute(_OPERATORS.encode(), (type_oid,)).fetchall()
    named = {number: f"operator({quoted(schema)}.{name})" for number, schema, name in found}
    if set(named) != {2, 3, 5}:
        return Operators()
    return Operators(up_to=named[2], equal=named[3], behind=named[5])
