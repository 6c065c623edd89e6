"""Rows given as a list of dicts, as columns in the types of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tideline.errors import InvalidDataError


def dict_rows(rows: Sequence[Any], schema: pa.Schema | None) -> pa.Table | None:
    """A table of the columns that the dicts have, null where one lacks a column; of those of
    `schema` for no dicts at all. None for items that are no dicts, and for none without a schema. A
    column that `schema` does not have gets the type of its
    values.

    Raises InvalidDataError naming a column whose values do not fit.
    """
    if not rows and schema is not None:
        return schema.empty_table()
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _column(rows, name, schema) for name in names})


def _column(rows: Sequence[Mapping[str, Any]], name: str, schema: pa.Schema | None) -> pa.Array:
    known = schema is not None and name in schema.names
    kind = schema.field(name).type if schema is not None and known else None
    try:
        return pa.array([row.get(name) for row in rows], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        own = "" if kind is None else f" its type {kind}"
        message = f"values of the column {name} do not fit{own}: {error}"
        raise InvalidDataError(message) from error
