"""What a publication says of a table: its entry, whether something is left out, and since when.

1. A table is in a publication by name, by its schema, or with all tables. Each has an entry, whose
   number changes when it is taken out and comes again.
2. The log is filtered by what the publication was at each change. Kinds of changes that it left out
   for a while are missing, whatever it has now: so its row's version is part of what was read.
"""

from __future__ import annotations

from typing import NamedTuple

from tideline.errors import ConfigError
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import LISTS_AND_SCHEMAS_SINCE, server_version


class Entry(NamedTuple):
    """That of a table, 0 where there is none, and the version of the publication."""

    number: int
    version: int


NO_ENTRY = Entry(0, 0)


VIA_ROOT = "publish_via_partition_root"
# Changes come as those of the highest table that is published.
_ABOVE = """
  select from pg_partition_ancestors({table}) a
  join pg_class c on c.oid = a.relid {schemas}
  left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = a.relid
  where a.relid <> {table} and (p.puballtables or r.oid is not null {of_schema})
"""


def entry_in_publication(
    source: DeclaredPostgres, connection: Connection, oid: int, *, has_partitions: bool = False
) -> Entry:
    """Raises ConfigError where the publication leaves something out."""
    has_schemas = server_version(connection) >= LISTS_AND_SCHEMAS_SINCE
    above = _ABOVE.format(
        table=int(oid),
        schemas="left join pg_publication_namespace s on s.pnpubid = p.oid"
        " and s.pnnspid = c.relnamespace" if has_schemas else "",
        of_schema="or s.oid is not null" if has_schemas else "",
    )  # fmt: skip
    found = connection.execute(
        "select oid, puballtables, pubinsert and pubupdate and pubdelete, pubtruncate, pubviaroot,"
        f" pubviaroot and exists({above}), xmin::text::bigint"
        " from pg_publication p where pubname = %s".encode(),
        (source.publication,),
    ).fetchone()
    if found is None:
        return NO_ENTRY
    publication, is_of_all, has_rows, has_truncates, via_root, is_another, version = found
    if has_partitions and not via_root:
        remedy = f"alter publication {source.publication} set ({VIA_ROOT} = true)"
        if source.is_shared:
            # That would be another publication to the tables that were read.
            remedy = f"give tables with partitions a LakeSource whose publication has {VIA_ROOT}"
        raise ConfigError(
            f"publication {source.publication} gives changes of partitions under names of their "
            f"own: {remedy}",
            path=source.uri,
        )
    if is_another:
        raise ConfigError(
            f"publication {source.publication} gives changes of partitions as those of the table "
            "that they are of (publish_via_partition_root): give the ingest a publication without",
            path=source.uri,
        )
    truncates_matter = source.on_truncate is not OnTruncate.IGNORE
    if not has_rows or (truncates_matter and not has_truncates):
        needed = "insert, update, delete" + (", truncate" if truncates_matter else "")
        raise ConfigError(
            f"publication {source.publication} leaves changes out: alter publication "
            f"{source.publication} set (publish = '{needed}'); a table that was read before is "
            "copied again then",
            path=source.uri,
        )
    if is_of_all:
        return Entry(int(publication), version)
    number = _number(source, connection, publication, oid)
    return Entry(number, version) if number else NO_ENTRY


def _number(source: DeclaredPostgres, connection: Connection, publication: int, oid: int) -> int:
    has_more = server_version(connection) >= LISTS_AND_SCHEMAS_SINCE
    narrowed = "prqual is not null or prattrs is not null" if has_more else "false"
    entry = connection.execute(
        f"select oid, {narrowed} from pg_publication_rel where prpubid = %s"
        " and prrelid = %s".encode(),
        (publication, oid),
    ).fetchone()
    if entry is None and has_more:
        entry = connection.execute(
            "select n.oid, false from pg_publication_namespace n join pg_class c"
            " on c.relnamespace = n.pnnspid where n.pnpubid = %s and c.oid = %s",
            (publication, oid),
        ).fetchone()
    if entry is None:
        return 0
    if entry[1]:
        raise ConfigError(
            f"publication {source.publication} has only some rows or columns of the table: give "
            "the ingest a publication of its own, which has all",
            path=source.uri,
        )
    return int(entry[0])
