"""Lists of objects at a server, up to their end.

Clients of S3 and Google take an answer of 200 that is no list, such as an error, for a last page
without objects. So a list that has filled a page may have ended before its end, and what comes
after its last name is asked for:

- A recursive list is continued with that, until there is less than a page of it.
- One level is listed again where anything comes after it, as often as `_LEVELS_MAX`.

An answer that is no list in the place of the first page is an empty list. Those who know that there
is something say so: `hudi.timeline.active`, `hudi.table.table_files`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import obstore

from tideline.errors import StorageUnavailableError
from tideline.storage.request_count import count_requests

PAGE_OBJECTS = 1000
"""As many objects an answer has, unless it is the last one."""
_LEVELS_MAX = 5
_AFTER_SLASH = "0"
"""The character that follows on the slash: what is below a directory comes before it."""

Item = Mapping[str, Any]


def listed(
    client: Any, folder: str | None, after: str | None = None, *, may_end_early: bool
) -> Iterator[Item]:
    """All objects of a folder and the folders below it, in the order of their names, from behind
    the name `after` on. Each answer is counted as a request, and so is none."""
    while True:
        found = 0
        pages = obstore.list(client, folder, offset=after, chunk_size=PAGE_OBJECTS)
        for page in pages:
            count_requests()
            found += len(page)
            after = page[-1]["path"] if page else after
            yield from page
        if not found:
            count_requests()
        if found < PAGE_OBJECTS or not may_end_early:
            return


def listed_level(client: Any, folder: str | None, *, may_end_early: bool) -> Any:
    """The objects and the directories right in a folder, as obstore has them. Raises
    StorageUnavailableError where listings keep ending before the level does."""
    for attempt in range(_LEVELS_MAX):
        if attempt:
            count_requests()
        level = obstore.list_with_delimiter(client, folder)
        names = [item["path"] for item in level["objects"]]
        names += [f"{path.rstrip('/')}{_AFTER_SLASH}" for path in level["common_prefixes"]]
        if len(names) < PAGE_OBJECTS or not may_end_early:
            return level
        count_requests()
        if not _has_more(client, folder, max(names, key=str.encode)):
            return level
    message = (
        "a listing ended before its end each time: the store, or a proxy before it, answers "
        "listings with something else; try again"
    )
    raise StorageUnavailableError(message, path=folder or "")


def _has_more(client: Any, folder: str | None, after: str) -> bool:
    return any(page for page in obstore.list(client, folder, offset=after, chunk_size=1))
