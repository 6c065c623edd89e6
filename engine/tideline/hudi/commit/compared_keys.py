"""How a commit finds out which record keys it adds and removes, for a record index."""

from __future__ import annotations

from collections.abc import Sequence

from tideline.hudi.metadata_table.partition import CompareKeys, KeyChange, SlicePair
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata


class RememberedKeys:
    """`CompareKeys` of slices that have nothing before them; what was read of one is remembered."""

    def __init__(self, table: HoodieTable) -> None:
        self._compare = comparison_of_keys(table)
        self._found: dict[tuple[FileSlice | None, str | None], KeyChange] = {}

    def __call__(
        self,
        before: ActiveTimeline,
        after: ActiveTimeline,
        pairs: Sequence[SlicePair],
        value_column: str | None = None,
    ) -> Sequence[KeyChange]:
        """See `CompareKeys`."""
        new = [pair for pair in pairs if (pair.after, value_column) not in self._found]
        read = self._compare(before, after, new, value_column)
        keys = ((pair.after, value_column) for pair in new)
        self._found |= dict(zip(keys, read, strict=True))
        return [self._found[pair.after, value_column] for pair in pairs]


def comparison_of_keys(table: HoodieTable, metadata: CommitMetadata | None = None) -> CompareKeys:
    """Compares slices of a table, read as the schema that a commit says, or as the table's; raises
    likewise."""

    def compare(
        before: ActiveTimeline,
        after: ActiveTimeline,
        pairs: Sequence[SlicePair],
        value_column: str | None = None,
    ) -> Sequence[KeyChange]:
        if not pairs:
            return ()
        # Needs Arrow, which commits that move no rows do without.
        from tideline.hudi.file_group.key_changes import key_changes
        from tideline.hudi.table.schema_resolver import read_schema_json

        said = None if metadata is None else metadata.schema_json
        schema_json = said or table.schemas.newest_json(before)
        if schema_json is None:
            raise ValueError("a commit of rows says their schema")
        schema = read_schema_json(schema_json, table.config)
        return key_changes(table, before, after, schema, pairs, value_column)

    return compare
