"""Which rows of `column_stats` are certain to hold all values of their file.

Rows that are tight are Tideline's own (`column_stats`), which are always measured. What logs have,
Hudi measures by the rows. Rows that it makes of the footers of base files can say too little of
what is there:

1. A row group without statistics counts all its values as nulls. Its bounds are 0 where the column
   is one of numbers, and are passed over where it is one of bytes.
2. NaN takes the bounds of a row group away, which become 0 as well. Floating point numbers are not
   used at all.
3. Long text takes the bounds away, too, and these of other row groups are taken for the file's.

So nulls together with bounds of 0 say nothing, nor do nulls beside bounds of text and decimals, nor
bounds of text that takes as much room in its file as a long one does.

Source: Hudi's ParquetUtils.readColumnStatsFromMetadata, HoodieColumnRangeMetadata.merge; Parquet's
ParquetMetadataConverter.
"""

from __future__ import annotations

from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.timeline.column_range import ColumnRange, ValueKind, ordered

LONG_TEXT_BYTES = 2048
"""A column of text that takes fewer bytes in a file has bounds in each of its row groups: writers
leave out the bounds of one whose least and greatest values take 4096 bytes together."""
FIRST_AFTER_SURROGATES = "\ue000"
"""From here on the units of UTF-16, by which Hudi compares text of logs, have another order than
its bytes."""

_LAST_OF_ONE_UNIT = "\uffff"
_NEVER_LONG = META_COLUMNS[:2]
_WITHOUT_ZERO = (ValueKind.STRING, ValueKind.DECIMAL)
"""Kinds whose bounds are missing where statistics are, instead of 0."""


def is_certain(row: ColumnRow, *, is_log: bool) -> bool:
    """Whether the bounds of a row that has them hold all values of its file."""
    return is_log or row.is_tight or _all_had_a_part(row.column, row.range)


def may_be_united(row: ColumnRow, *, is_log: bool) -> bool:
    """Whether what a row says is as certain once it is united with others, which shows neither
    where bounds come from, nor that a file had none."""
    found = row.range
    if row.is_tight:
        return found.nulls == found.values or _bounds(found) is not None
    bounds = _bounds(found)
    if bounds is None or not 0 <= found.nulls < found.values:
        return False
    texts = [bound for bound in bounds if isinstance(bound, str)]
    if any(max(text, default="") >= FIRST_AFTER_SURROGATES for text in texts):
        return False
    return is_certain(row, is_log=is_log)


def text_bounds(least: str, greatest: str, *, is_exact: bool) -> tuple[str | None, str | None]:
    """Those bounds of text that hold by bytes as well, whichever order they are in; exact ones are
    by bytes."""
    has_one_unit = max(least, default="") <= _LAST_OF_ONE_UNIT
    signs = max((sign for sign in greatest if sign <= _LAST_OF_ONE_UNIT), default="")
    return (
        least if is_exact or has_one_unit else None,
        greatest if is_exact or signs < FIRST_AFTER_SURROGATES else None,
    )


def _bounds(found: ColumnRange) -> tuple[object, object] | None:
    """Both bounds, where these are bounds of anything."""
    least, greatest = found.least, found.greatest
    if least is None or greatest is None or type(least) is not type(greatest):
        return None
    return (least, greatest) if ordered(least) <= ordered(greatest) else None


def _all_had_a_part(column: str, found: ColumnRange) -> bool:
    """Whether all row groups of a base file have had a part in its bounds."""
    if found.type.kind is ValueKind.STRING:
        is_short = column in _NEVER_LONG or 0 < found.plain_bytes < LONG_TEXT_BYTES
        return is_short and not found.nulls
    if not found.nulls:
        return True
    least, greatest = found.least, found.greatest
    if found.type.kind in _WITHOUT_ZERO:
        return False
    if not isinstance(least, int) or not isinstance(greatest, int):
        return False
    return not (least <= 0 <= greatest)
