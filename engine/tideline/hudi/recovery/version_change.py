"""What a change of a table's version leaves when it dies: a timeline of another version.

While the timeline moves from one layout to the other both are there, and the property
`tideline.version.change` names the versions and their folders. Which one counts the table's version
says, at every moment. So a process that finds the property deletes the other timeline and its
archive, then the property: the change is undone where it had not become visible, and finished where
it had. Died in between: the property is still there.

Who opened the table before may list the old timeline while it is deleted. The object `MOVED` lies
in its folder from before the first deletion until after the last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tideline.errors import CorruptTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.known_layouts import layout_of_version
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.table.layout.version_6 import ARCHIVE_FOLDER
from tideline.hudi.table.layout.version_8 import HISTORY_PATH, TIMELINE_PATH
from tideline.hudi.timeline.active import MOVED, TimelineStore
from tideline.storage.lock import Guard, unguarded

VERSION_CHANGE = "tideline.version.change"
_FOLDERS = (ARCHIVE_FOLDER, TIMELINE_PATH, HISTORY_PATH)


def change_text(
    before: Mapping[str, str], after: Mapping[str, str], versions: tuple[int, int]
) -> str:
    """The property's value while a table with the properties `before` becomes one with `after`."""
    said = {
        str(version): {name: properties[name] for name in _FOLDERS if name in properties}
        for version, properties in zip(versions, (before, after), strict=True)
    }
    return json.dumps(said, separators=(",", ":"))


def finish_version_change(table: HoodieTable, guard: Guard = unguarded) -> bool:
    """Delete what a change of version left, if one did; whether there was any.

    Call under the table lock. Raises CorruptTableError for a property that does not say what it is.
    """
    text = table.config.properties.get(VERSION_CHANGE)
    if text is None:
        return False
    for layout in _layouts(table, text):
        if layout.timeline.version != table.layout.timeline.version:
            delete_timeline(table, layout, guard)
    table.properties.update({VERSION_CHANGE: None}, guard)
    return True


def delete_timeline(table: HoodieTable, layout: TableLayout, guard: Guard = unguarded) -> None:
    """Delete the instants and the archive of a layout that is not the table's."""
    moved = f"{layout.timeline.directory}/{MOVED}"
    guard()
    table.store.put(moved, b"")
    archive = layout.archive.opens(table.store, layout.archive.folder)
    listed = table.store.list_directory(archive.directory).objects
    archived = [info.path for info in listed if archive.owns(info.path.rpartition("/")[2])]
    found = frozenset((*_instants(table, layout), *archived))
    scope = table.files.delete_scope("a change of the table's version", control={*found, moved})
    guard()
    scope.remove_many(sorted(found))
    scope.remove(moved)


def delete_instants(table: HoodieTable, layout: TableLayout, guard: Guard = unguarded) -> None:
    """Delete the instants alone, where the timeline of a layout is about to be written."""
    found = frozenset(_instants(table, layout))
    guard()
    table.files.delete_scope("a change of the table's version", control=found).remove_many(
        sorted(found)
    )


def _instants(table: HoodieTable, layout: TableLayout) -> list[str]:
    timelines = TimelineStore(table.store, layout.timeline, table.clock)
    return [
        info.path
        for info in table.store.list_directory(timelines.layout.directory).objects
        if timelines.layout.parse(info.path.rpartition("/")[2]) is not None
    ]


def _layouts(table: HoodieTable, text: str) -> list[TableLayout]:
    try:
        said = {int(version): dict(folders) for version, folders in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptTableError(
            f"{VERSION_CHANGE} names no versions: look what is in .hoodie, and remove it",
            table=table.uri,
            value=text,
        ) from error
    bare = {name: entry for name, entry in table.config.properties.items() if name not in _FOLDERS}
    return [layout_of_version(version, {**bare, **folders}) for version, folders in said.items()]
