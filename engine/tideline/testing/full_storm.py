"""A storm with everybody on one table, and what must be so after it.

Writers, a mover and a keeper (`kill_storm`), an eraser, a follower of changes, a publisher and a
reader (`storm_parts`), on a table that keeps a metadata table, over listings that come late.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.table.table_config import ICEBERG, PUBLISH, PUBLISH_MERGE, TableType
from tideline.publication.expiry import unlisted_files
from tideline.publication.published_table import PublishedTable
from tideline.storage.location import StoreLocation
from tideline.testing.condition_in_arrow import condition_of, conditions_in_arrow
from tideline.testing.faulty_store import FaultPlan
from tideline.testing.files_with_text import files_with_text
from tideline.testing.kill_storm import KillStorm, Parts
from tideline.testing.published_rows import published_values
from tideline.testing.small_table import COMPACTED_OFTEN, SmallTable
from tideline.testing.storm_parts import (
    Followed,
    PartJob,
    erase_in_a_storm,
    follow_in_a_storm,
    publish_in_a_storm,
    read_in_a_storm,
    table_values,
)
from tideline.testing.storm_states import Progress, Values
from tideline.testing.table_audit import open_fresh, unexplained_objects

READABLE = {"hoodie.parquet.compression.codec": "uncompressed"}
"""So that bytes of files can be searched."""
LISTING_DELAY_S_MAX = 0.05
_PUBLICATION = "metadata/"
_PARTS = {
    "eraser": erase_in_a_storm,
    "follower": follow_in_a_storm,
    "publisher": publish_in_a_storm,
    "reader": read_in_a_storm,
}


def stormy_table(
    location: StoreLocation, table_type: TableType, *, version: int, is_followed: bool
) -> SmallTable:
    """Empty, with a metadata table where the version has one; published with what logs hold, by
    every service if `is_followed`."""
    properties = {**READABLE, **(COMPACTED_OFTEN if version > 6 else {})}
    if table_type is TableType.MERGE_ON_READ:
        properties[PUBLISH_MERGE] = "true"
    if is_followed:
        properties[PUBLISH] = ICEBERG
    return SmallTable.create(
        location, properties=properties, table_type=table_type, table_version=version
    )


def parts_of(location: StoreLocation, folder: Path, options: Mapping[str, str]) -> Parts:
    """The processes that a plain `KillStorm` does not have."""

    def started(name: str, plan: FaultPlan) -> Any:
        return _PARTS[name], PartJob(location, str(folder), LISTING_DELAY_S_MAX, plan, options)

    return {name: partial(started, name) for name in _PARTS}


def audit_all(storm: KillStorm) -> None:
    """Raise AssertionError for what a storm that is calm lost, doubled or left."""
    progress, table = Progress.read(storm.folder), storm.table
    expected = progress.values()
    assert table_values(table.lake()) == expected
    storm.sweep()
    _require_rows(table, expected)
    table.lake().publish()
    assert published_values(table.lake()) == expected
    follow_in_a_storm(PartJob(table.location, str(storm.folder)))
    assert Followed.of(storm.folder / "follower").values == expected
    table.lake().run(str(ARCHIVAL), options=storm.service_options)
    findings = table.lake().check(keys=True)
    assert findings == (), findings
    left = unexplained_objects(open_fresh(table.location))
    left = [path for path in left if not path.startswith(_PUBLICATION)]
    assert left == [], left
    erased = frozenset[str]().union(*progress.erased)
    found = dict(files_with_text(table.store(), erased))
    # What a publication writes after the proof, and dies, goes with the next erasure.
    assert found.keys() <= set(_unlisted(table)), found
    with conditions_in_arrow():
        report = table.lake().erase(condition_of(erased), prove=True, options=storm.options)
    assert report.is_complete, report
    assert report.matching == 0
    assert dict(files_with_text(table.store(), erased)) == {}
    assert _unlisted(table) == []
    _require_rows(table, expected)
    assert published_values(table.lake()) == expected


def _require_rows(table: SmallTable, expected: Values) -> None:
    """By three readers: without Spark, of the plainest kind, and of slices."""
    assert table_values(table.lake()) == expected
    assert table.values() == expected
    assert table.merged_values() == expected


def _unlisted(table: SmallTable) -> list[str]:
    return [
        unlisted_file.path
        for unlisted_file in unlisted_files(PublishedTable(table.lake().hoodie_table))
    ]
