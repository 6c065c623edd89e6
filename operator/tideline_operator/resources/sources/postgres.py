"""A source of a table of Postgres with its places."""

from __future__ import annotations

from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.credentials import CONNECTION
from tideline.ingest.sources.postgres.declared import CHANGES_MAX, DeclaredPostgres
from tideline_operator.resources.sources.files import columns_of
from tideline_operator.resources.sources.place_finder import PlaceFinder
from tideline_operator.resources.sources.source import Source


def resolve_postgres(source: Source, places: PlaceFinder) -> DeclaredPostgres:
    """The source with its places. Raises ConfigError naming the field."""
    set_aside = None
    if source.set_aside is not None:
        set_aside = places.find(source.set_aside, source.store_ref, "setAside")
        places.keep_apart("setAside", source.set_aside, set_aside)
    return DeclaredPostgres(
        table=str(source.table),
        slot=str(source.slot),
        publication=source.publication or str(source.slot),
        schema=columns_of(source),
        connection=source.connection_variable or CONNECTION,
        on_truncate=source.on_truncate or OnTruncate.FAIL,
        changes_max=source.max_records_per_commit or CHANGES_MAX,
        set_aside=set_aside,
    )
