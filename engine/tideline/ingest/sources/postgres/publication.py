"""What a publication says of a table: its entry, what it has of the table, and since when.

1. A table is in a publication by name, by its schema, or with all tables. Each has an entry, whose
   number changes when it is taken out and comes again.
2. An entry by name may have a condition for rows, and a list of columns. Where these are altered
   it is another entry. A table that is there by its schema as well has all its rows.
3. The log is filtered by what the publication was at each change. Kinds of changes that it left out
   for a while are missing, whatever it has now: so its row's version is part of what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tideline.errors import ConfigError
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.session import Connection
from tideline.ingest.sources.postgres.sql import LISTS_AND_SCHEMAS_SINCE, server_version

_GENERATED_ARE_REFUSED_SINCE = 180_000
"""The version that refuses updates of rows whose old values a publication does not have."""


class Entry(NamedTuple):
    """That of a table, 0 where there is none, and the version of the publication. Only rows that
    meet the condition `rows` are given, and only `columns` of these numbers: all where they are
    empty, but those that are generated. One of a schema is of a table that was `placed` there then.
    """

    number: int
    version: int
    rows: str = ""
    columns: frozenset[int] = frozenset()
    has_generated: bool = False
    placed: int = 0

    @property
    def is_narrowed(self) -> bool:
        return bool(self.rows or self.columns)

    def has_column(self, number: int, generated: str) -> bool:
        """`generated` is what the server says: s for one that is stored, empty for another."""
        if self.columns:
            return number in self.columns
        return not generated or (generated == "s" and self.has_generated)


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
        f" pubviaroot and exists({above}), xmin::text::bigint,"
        " coalesce(to_jsonb(p)->>'pubgencols', '')"
        " from pg_publication p where pubname = %s".encode(),
        (source.publication,),
    ).fetchone()
    if found is None:
        return NO_ENTRY
    publication, is_of_all, has_rows, has_truncates, via_root, is_another, version, generated = (
        found
    )
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
    entry = Entry(int(publication), version, has_generated=generated == "s")
    return entry if is_of_all else _own_entry(connection, publication, oid, entry)


def _own_entry(connection: Connection, publication: int, oid: int, entry: Entry) -> Entry:
    """That of the table itself, or of its schema."""
    has_more = server_version(connection) >= LISTS_AND_SCHEMAS_SINCE
    narrowed = "pg_get_expr(prqual, prrelid), prattrs::text" if has_more else "null, null"
    own = connection.execute(
        f"select oid, {narrowed} from pg_publication_rel where prpubid = %s"
        " and prrelid = %s".encode(),
        (publication, oid),
    ).fetchone()
    of_schema = None
    if has_more and (own is None or own[1] is not None):
        of_schema = connection.execute(
            "select n.oid, coalesce(d.xmin::text::bigint, 0)"
            " from pg_publication_namespace n join pg_class c on c.relnamespace = n.pnnspid"
            # Written again by `set schema`, there and back, and by nothing else.
            " left join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid"
            " and d.objsubid = 0 and d.refclassid = 'pg_namespace'::regclass"
            " where n.pnpubid = %s and c.oid = %s",
            (publication, oid),
        ).fetchone()
    if of_schema is not None:
        number, placed = map(int, of_schema)
        return entry._replace(number=number, placed=placed)
    if own is None:
        return NO_ENTRY
    number, rows, columns = own
    return entry._replace(
        number=int(number), rows=rows or "", columns=frozenset(map(int, (columns or "").split()))
    )


def require_updates(source: DeclaredPostgres, connection: Connection) -> None:
    """A table with generated columns, whose changes have whole old rows, may be published.
    Raises ConfigError where the server would refuse its updates then."""
    if server_version(connection) >= _GENERATED_ARE_REFUSED_SINCE:
        raise ConfigError(
            "the table has generated columns and replica identity full: this server refuses its "
            "updates once it is published; alter table ... replica identity default, or, where all "
            f"of them are stored, make publication {source.publication} for it with "
            "(publish_generated_columns = stored)",
            path=source.uri,
        )


def require_key(source: DeclaredPostgres, entry: Entry, missing: Sequence[str]) -> None:
    """Raises ConfigError where columns of the key are `missing` in the log."""
    if not missing:
        return
    names = ", ".join(missing)
    message = f"{names} of the table's key is generated, and not in the log: give it another key"
    if entry.columns:
        message = (
            f"publication {source.publication} leaves out {names}, of the table's key: alter "
            f"publication {source.publication} drop table {source.table}, and add it again with a "
            "list that has the key"
        )
    raise ConfigError(message, path=source.uri)


def require_all(source: DeclaredPostgres, *, was_narrowed: bool) -> None:
    """Raises ConfigError where a publication is missing that had some rows or columns alone."""
    if was_narrowed:
        raise ConfigError(
            f"publication {source.publication} had some rows or columns of the table, and does not "
            f"have it any more: make it again with them (create publication {source.publication} "
            f"for table {source.table} (columns) where (condition), or alter publication ... add)",
            path=source.uri,
        )
