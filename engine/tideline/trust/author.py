"""The authors of values.

Rules follow from the author alone. Only the process's own configuration names code. Configuration
and resources name addresses and get credentials sent there; what a catalog or a table names gets
none, unless configuration names the same place.
"""

from __future__ import annotations

from enum import IntEnum


class Author(IntEnum):
    """From least to most trusted."""

    TABLE = 1
    """The table's bytes: anyone who may write there."""
    CATALOG = 2
    """The answers of a catalog server."""
    RESOURCE = 3
    """A LakeTable, LakeStore or Secret: an editor of its namespace."""
    PROCESS = 4
    """This process's own configuration: environment, chart, flags."""
