"""The schema of an open table, as a timeline shows it, and the versions that were read of it.

Everything here works without Arrow except `newest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tideline.hudi.table.file_group import BaseFile, split_path
from tideline.hudi.table.internal_schema import InternalSchema
from tideline.hudi.table.table_commits import TableCommits
from tideline.hudi.table.table_properties import TableProperties
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived import UNREADABLE
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant

if TYPE_CHECKING:
    import pyarrow as pa


class TableSchemas:
    """The schema of one table."""

    def __init__(self, properties: TableProperties, commits: TableCommits) -> None:
        self._properties = properties
        self._commits = commits
        self._versions: tuple[tuple[Instant, ...], tuple[InternalSchema, ...]] | None = None

    def newest_json(self, timeline: ActiveTimeline) -> str | None:
        """Avro JSON of the table's schema: the newest commit's, else that of its creation.

        Where no active commit has one, archived ones are asked before the creation. None when
        nothing has one. Source: Hudi's TableSchemaResolver.
        """
        for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
            if schema := self._commits.note(instant).schema_json:
                return schema
        archived = self._commits.archive().newest_schema() if timeline.has_archive else None
        return archived or self._properties.config.create_schema

    def newest(self, timeline: ActiveTimeline) -> pa.Schema | None:
        """The table's columns without meta columns, None for a table that has no schema yet.

        Where commits carry no schema, or an archive that cannot be read does, it is that of a base
        file's footer. Partition columns that files do not store come last, as nullable strings.
        """
        # Arrow is an optional dependency that only this method needs.
        from tideline.hudi.table import schema_resolver

        try:
            schema_json = self.newest_json(timeline)
        except UNREADABLE as error:
            if not str(error.path).startswith(f"{self._commits.archive().directory}/"):
                raise
            schema_json = None
        if schema_json is not None:
            return schema_resolver.read_schema_json(schema_json, self._properties.config)
        paths = self._base_file_paths(timeline)
        return schema_resolver.read_footer_schema(
            self._properties.store, paths, self._properties.config
        )

    def remembered(
        self, timeline: ActiveTimeline, find: Callable[[], tuple[InternalSchema, ...]]
    ) -> tuple[InternalSchema, ...]:
        """What `find` finds of the versions of the schema; asked again when an instant completed.

        A version counts once its commit is completed, so without a new one there is none.
        """
        completed = timeline.completed().instants
        if self._versions is None or self._versions[0] != completed:
            self._versions = completed, find()
        return self._versions[1]

    def _base_file_paths(self, timeline: ActiveTimeline) -> Iterator[str]:
        """Base files that commits wrote, newest commit first."""
        for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
            for stat in self._commits.read(instant).write_stats:
                if stat.path and BaseFile.parse(*split_path(stat.path)) is not None:
                    yield stat.path
