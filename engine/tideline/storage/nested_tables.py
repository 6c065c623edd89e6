"""Tables that lie below a table's root: which paths of a listing are theirs.

A folder is the root of a table when it holds `.hoodie/` (Hudi), `metadata/*.metadata.json`
(Iceberg) or `_delta_log/` (Delta). Everything below such a folder is that table's: no listing of
the outer table shows it, and none of its operations deletes there. The listed root itself is no
nested table, and neither is what lies in its own `.hoodie`, such as Hudi's metadata table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

HUDI, ICEBERG, DELTA = "Hudi", "Iceberg", "Delta"
CONTROL_FOLDER = ".hoodie"
DELTA_LOG = "_delta_log"
_METADATA_FOLDER = "metadata"
_METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")


def nested_tables(paths: Iterable[str]) -> dict[str, str]:
    """The roots of tables among the paths of a listing, each with its format.

    Paths are relative to the listed root, which is not among the answers.
    """
    found: dict[str, str] = {}
    for path in paths:
        root, format_name = _table_of(path)
        if root and (format_name == HUDI or root not in found):
            found[root] = format_name
    return found


def root_around(path: str, roots: Container[str]) -> str | None:
    """The outermost of `roots` that `path` is or lies below; None when it lies in none."""
    start = 0
    while (end := path.find("/", start)) >= 0:
        if path[:end] in roots:
            return path[:end]
        start = end + 1
    return path if path in roots else None


def is_table_metadata_file(path: str) -> bool:
    """Whether the name is that of an Iceberg metadata file."""
    return path.endswith(_METADATA_SUFFIXES)


def is_in_control_folder(path: str) -> bool:
    """Whether a path is or lies in the `.hoodie` of this table or of one below it."""
    return CONTROL_FOLDER in path.split("/")


def _table_of(path: str) -> tuple[str, str]:
    """The root that a path makes a table, "" for the listed root itself and for no table."""
    if CONTROL_FOLDER in path:
        steps = path.split("/")
        if CONTROL_FOLDER in steps[:-1]:
            return "/".join(steps[: steps.index(CONTROL_FOLDER)]), HUDI
    if DELTA_LOG in path:
        steps = path.split("/")
        if DELTA_LOG in steps[:-1]:
            return "/".join(steps[: steps.index(DELTA_LOG)]), DELTA
    if path.endswith(_METADATA_SUFFIXES):
        folder = path.rpartition("/")[0]
        root, _, name = folder.rpartition("/")
        if name == _METADATA_FOLDER:
            return root, ICEBERG
    return "", ""
