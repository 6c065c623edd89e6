"""What a change of a table's version leaves when it dies: a timeline of another version.

While the timeline moves from one layout to the other both are there, and the property
`tideline.version.change` says so, with the two versions. Which one counts the table's version says,
at every moment. So whoever finds the property deletes the other timeline and its archive, then the
property: the change is undone where it had not become visible, and finished where it had.
Died in between: the property is still there.
"""

from __future__ import annotations

import re

from tideline.errors import CorruptTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.known_layouts import layout_of_version
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.timeline.active import TimelineStore
from tideline.storage.lock import Guard, unguarded

VERSION_CHANGE = "tideline.version.change"
_VERSIONS = re.compile(r"([0-9]+)>([0-9]+)")


def change_text(before: int, after: int) -> str:
    """The property's value while a table goes from one version to another."""
    return f"{before}>{after}"


def is_changing(table: HoodieTable) -> bool:
    """Whether a change of version is under way, or died."""
    return VERSION_CHANGE in table.config.properties


def finish_version_change(table: HoodieTable, guard: Guard = unguarded) -> bool:
    """Delete what a change of version left, if one did; whether there was any.

    Call under the table lock. Raises CorruptTableError for a property that does not say what it is.
    """
    text = table.config.properties.get(VERSION_CHANGE)
    if text is None:
        return False
    named = _VERSIONS.fullmatch(text)
    if named is None:
        message = f"{VERSION_CHANGE} names no two versions: look what is in .hoodie, and remove it"
        raise CorruptTableError(message, table=table.uri, value=text)
    layouts = [layout_of_version(int(one), table.config.properties) for one in named.groups()]
    for layout in layouts:
        if layout.timeline.version != table.layout.timeline.version:
            delete_timeline(table, layout, guard)
    table.update_properties({VERSION_CHANGE: None}, guard)
    return True


def delete_timeline(table: HoodieTable, layout: TableLayout, guard: Guard = unguarded) -> int:
    """Delete the instants and the archive of a layout that is not the table's; how many objects."""
    timelines = TimelineStore(table.store, layout.timeline, table.clock)
    instants = [
        info.path
        for info in table.store.list_directory(timelines.layout.directory).objects
        if timelines.layout.parse(info.path.rpartition("/")[2]) is not None
    ]
    archive = layout.archive.opens(table.store, layout.archive.folder)
    archived = [info.path for info in table.store.list(archive.directory)]
    found = frozenset((*instants, *archived))
    guard()
    table.delete_scope("a change of the table's version", control=found).remove_many(sorted(found))
    return len(found)
