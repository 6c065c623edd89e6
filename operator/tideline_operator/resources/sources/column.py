"""One column of a source, as a LakeTable declares it."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass

from tideline.ingest.column_type import ColumnType
from tideline_operator.resources.field import described

# What a type may begin with; the operator reads the rest.
TYPE_PATTERN = (
    r"(?i:\s*(boolean|bool|int|integer|long|bigint|float|double|string|binary|date|timestamp|"
    r"timestamp_ntz|decimal\s*\(.+|(array|map|struct)\s*<.+)\s*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumnSpec:
    """One column of the files."""

    name: str = described(
        "Column name, as the files have it: a transform gives the table another one.",
        length_max=255,
    )
    type: ColumnType = described(
        "Spark's type name, as in spec.schema.", pattern=TYPE_PATTERN, length_max=4096
    )
    nullable: bool = described("Whether the column may hold nulls.", default=True)
    description: str = described(
        "What the column means.", default="", length_max=1024, may_be_empty=True
    )
