"""What the files of a table hold, for its metadata table; Arrow is loaded once that is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tideline.hudi.timeline.column_range import ColumnRanges, ValueType
from tideline.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from tideline.hudi.file_group.file_contents import FileContents


class StoredContents:
    """`TableContents` of the files in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._files: FileContents | None = None

    def ranges(
        self, paths: Collection[str], columns: Mapping[str, ValueType]
    ) -> Mapping[str, ColumnRanges | None]:
        """See `TableContents`. Raises what the store raises."""
        if self._files is None:
            from tideline.hudi.file_group.file_contents import FileContents

            self._files = FileContents(self._store)
        return self._files.ranges(paths, columns)
