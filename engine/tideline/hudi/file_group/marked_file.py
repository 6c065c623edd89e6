"""A file that the rollback of its instant finds, whenever that rollback runs.

1. A marker names the file before its first byte is written.
2. The file is written, and published whole.
3. The marker is looked for again. A task may outlive its driver, or a job that was cancelled, and
   publish its file after its instant has been undone. A rollback removes the markers and then
   deletes what they named once more, so there are two cases: the marker is still there, and that
   rollback is still to come; or it is gone, and this task deletes its own file.

Died between 2 and 3, after the rollback: the file stays, invisible, and `tideline check` names it.
Source: of 1, Hudi's WriteMarkers; Hudi leaves the files of such tasks where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tideline.errors import ConflictError
from tideline.hudi.file_group.base_file_writer import BaseFileWriter, open_base_file
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker, has_marker
from tideline.parquet.spliced_file import StoredParquet
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import ObjectStore


@contextmanager
def open_marked_file(
    ctx: HandleContext,
    store: ObjectStore,
    partition: str,
    file_id: str,
    kind: MarkerKind,
    source: StoredParquet | None = None,
) -> Iterator[BaseFileWriter]:
    """Write one base file, marker first; no object remains when the block fails.

    Row groups of `source` may be copied into it.
    Raises ConflictError when the instant was undone by another process, StorageUnavailableError.
    """
    name = ctx.base_file_name(file_id)
    marker = Marker(partition, name, kind)
    create_marker(store, ctx.instant, marker)
    with open_base_file(ctx, store, partition, file_id, source) as writer:
        yield writer
    require_marked(ctx, store, marker)


def require_marked(ctx: HandleContext, store: ObjectStore, marker: Marker) -> None:
    """Step 3, for a file that is published. Raises ConflictError as `open_marked_file`."""
    if not has_marker(store, ctx.instant, marker):
        DeleteScope(store, f"a task of {ctx.instant}").remove(marker.path)
        raise ConflictError(
            "the write was undone while one of its tasks was still writing this file",
            table=ctx.table,
            instant=ctx.instant,
            path=marker.path,
        )
