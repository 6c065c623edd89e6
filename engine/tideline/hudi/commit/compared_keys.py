"""How a commit finds out which record keys it adds and removes, for a record index."""

from __future__ import annotations

from collections.abc import Sequence

from tideline.hudi.metadata_table.partition import CompareKeys, KeyChange, SlicePair
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata


def comparison_of_keys(table: HoodieTable, metadata: CommitMetadata) -> CompareKeys:
    """Compares slices of a table, read as the schema that a commit says; raises likewise."""

    def compare(
        before: ActiveTimeline, after: ActiveTimeline, pairs: Sequence[SlicePair]
    ) -> Sequence[KeyChange]:
        if not pairs:
            return ()
        # Needs Arrow, which commits that move no rows do without.
        from tideline.hudi.file_group.key_changes import key_changes
        from tideline.hudi.table.schema_resolver import read_schema_json

        schema_json = metadata.schema_json or table.schemas.newest_json(before)
        if schema_json is None:
            raise ValueError("a commit of rows says their schema")
        schema = read_schema_json(schema_json, table.config)
        return key_changes(table, before, after, schema, pairs)

    return compare
