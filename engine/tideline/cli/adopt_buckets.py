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
from tideline.hudi.adoption.adoption_report import AdoptionReport
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.index.bucket_layout import BucketEngine, KnownFrom
from tideline.hudi.open_table import open_table
from tideline.hudi.write.index_choice import IndexChoice
from tideline.storage.location import StoreLocation


def with_bucket_count(report: AdoptionReport, location: StoreLocation) -> AdoptionReport:
    """The same report with the number of buckets, or with a note that says what to declare."""
    capabilities = report.capabilities
    layout = capabilities.index.buckets
    if (
        layout is None
        or (layout.engine, layout.known_from) != (BucketEngine.SIMPLE, KnownFrom.FILE_IDS)
        or capabilities.may(Permission.WRITE) is not None
        or find_spec("pyarrow") is None
    ):
        return report
    try:
        count = IndexChoice(open_table(location)).for_rows(None).index.num_buckets
    except (ConfigError, CorruptTableError, ObjectNotFoundError, UnsupportedTableError) as unknown:
        notes = (*capabilities.unreadable, unknown.message)
        return replace(report, capabilities=replace(capabilities, unreadable=notes))
    index = replace(capabilities.index, buckets=replace(layout, num_buckets=count))
    return replace(report, capabilities=replace(capabilities, index=index))
