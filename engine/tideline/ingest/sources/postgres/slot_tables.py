"""Which tables a server has for a slot that they share."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.connection import OfSlot, connected
from tideline.ingest.sources.postgres.position import Origin
from tideline.ingest.sources.postgres.publication import NO_ENTRY, VIA_ROOT
from tideline.ingest.sources.postgres.row_identity import IS_KEY
from tideline.ingest.sources.postgres.server import find_slot
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.shared_slot import SlotLook, SlotTable
from tideline.ingest.sources.postgres.sql import LISTS_AND_SCHEMAS_SINCE, server_version

_TABLES_MAX = 5_000
_TABLES = """
select n.nspname, c.relname, c.oid, system_identifier::text,
  substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
  coalesce({of_schema_first}r.oid, everything.oid, {of_schema}, 0),
  coalesce(p.xmin::text::bigint, 0),
  c.relkind = 'p' and not coalesce(p.pubviaroot, true),
  c.relpersistence <> 'p',
  has_table_privilege(c.oid, 'select'),
  array_to_json(array(
    select a.attname::text
    from unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality as k(number, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
    order by k.place
  ))::text, {lacks_key}
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
  select x.indkey, x.indnkeyatts from pg_index x where x.indrelid = c.oid and {is_key}
  order by x.indisprimary desc limit 1
) i on true
left join pg_publication p on p.pubname = %s
left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = c.oid
{schemas}left join pg_publication everything on everything.oid = p.oid and p.puballtables
cross join pg_control_system()
where c.relkind in ('r', 'p') and not c.relispartition
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
order by 1, 2 limit {limit}
"""
# As `entry_in_publication` has it.
_ALL_ROWS = "case when r.prqual is not null then s.oid end, "
_LACKS_KEY = "not coalesce(i.indkey[0:i.indnkeyatts - 1]::int2[] <@ r.prattrs::int2[], true)"
_SCHEMAS = "left join pg_publication_namespace s on s.pnpubid = p.oid and s.pnnspid = n.oid\n"


def look_at_slot(slot: OfSlot, variables: Mapping[str, str] = os.environ) -> SlotLook:
    """Raises ConfigError, StorageUnavailableError."""
    with connected(slot, variables) as connection:
        return look_through_slot(connection, slot)


def look_through_slot(connection: Connection, slot: OfSlot) -> SlotLook:
    """The same over a connection of any client."""
    has_schemas = server_version(connection) >= LISTS_AND_SCHEMAS_SINCE
    tables_of = _TABLES.format(
        of_schema="s.oid" if has_schemas else "null",
        of_schema_first=_ALL_ROWS if has_schemas else "",
        lacks_key=_LACKS_KEY if has_schemas else "false",
        schemas=_SCHEMAS if has_schemas else "",
        is_key=IS_KEY,
        limit=_TABLES_MAX + 1,
    )
    found = connection.execute(tables_of.encode(), (slot.publication,)).fetchall()
    if len(found) > _TABLES_MAX:
        raise ConfigError(f"the database has more than {_TABLES_MAX:,} tables", path=slot.uri)
    tables = tuple(_table(*row) for row in found)
    return SlotLook(tables, find_slot(slot, connection))


def _table(
    schema: str,
    name: str,
    oid: int,
    system: str,
    timeline: str,
    entry: int,
    version: int,
    is_divided: bool,
    is_unlogged: bool,
    is_readable: bool,
    key: str,
    lacks_key: bool,
) -> SlotTable:
    columns = tuple(str(name) for name in json.loads(key))
    publication = (int(entry), int(version)) if entry else NO_ENTRY[:2]
    origin = Origin(system, int(timeline, 16), oid, *publication)
    return SlotTable(
        schema,
        name,
        origin,
        columns,
        _obstacle(is_divided, is_unlogged, not columns, is_readable, lacks_key),
    )


def _obstacle(
    is_divided: bool, is_unlogged: bool, is_unknown: bool, is_readable: bool, lacks_key: bool
) -> str:
    if is_divided:
        return f"it has partitions, and the publication has no {VIA_ROOT}"
    if is_unlogged:
        return "it is unlogged: its changes are not in the log"
    if not is_readable:
        return "the user may not select it"
    if is_unknown:
        return "it has no primary key, or no replica identity"
    if lacks_key:
        return "the publication leaves out columns of its key"
    return ""
