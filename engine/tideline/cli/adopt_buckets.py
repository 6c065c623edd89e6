"""How many buckets a table of Hudi's has, for its report: found from stored keys, as by a write.

Reads the footers of a few files, and rows of theirs where these leave a doubt. Needs Arrow.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from tideline.errors import (
    ConfigError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.hudi.adoption.dossier import Dossier
from tideline.hudi.index.bucket_layout import BucketEngine, KnownFrom
from tideline.hudi.nature.permission import Permission
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.write.index_choice import IndexChoice
from tideline.storage.location import StoreLocation


def with_bucket_count(dossier: Dossier, location: StoreLocation) -> Dossier:
    """The same dossier with the number of buckets, or with a note that says what to declare."""
    nature = dossier.nature
    layout = nature.index.buckets
    if (
        layout is None
        or (layout.engine, layout.known_from) != (BucketEngine.SIMPLE, KnownFrom.FILE_IDS)
        or nature.may(Permission.WRITE) is not None
        or find_spec("pyarrow") is None
    ):
        return dossier
    try:
        count = IndexChoice(HoodieTable.open(location)).for_rows(None).index.num_buckets
    except (ConfigError, CorruptTableError, ObjectNotFoundError, UnsupportedTableError) as unknown:
        notes = (*nature.unreadable, unknown.message)
        return replace(dossier, nature=replace(nature, unreadable=notes))
    index = replace(nature.index, buckets=replace(layout, num_buckets=count))
    return replace(dossier, nature=replace(nature, index=index))
