"""Names of columns in Spark's expressions: quoted, with any characters in them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def quoted(name: str) -> str:
    """A name as Spark's parser takes it for one name."""
    return f"`{name.replace('`', '``')}`"


def column_named(name: str) -> Column:
    """The column of exactly this name."""
    return F.col(quoted(name))
