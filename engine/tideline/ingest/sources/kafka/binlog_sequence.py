"""Where an event is in MySQL's binlog, as text that sorts as the binlog does: the number of its
file, the position in it, the row of the event."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NUMBER_DIGITS, _POSITION_DIGITS, _ROW_DIGITS = 10, 20, 10
ROW_MAX = 10**_ROW_DIGITS - 1


def binlog_sequence(file: pa.Array, position: pa.Array, row: pa.Array) -> pa.Array:
    """Of the names of files such as mysql-bin.000003; null where a file or a position is."""
    number = pc.replace_substring_regex(file, r"^.*?([0-9]+)$", r"\1")
    return pc.binary_join_element_wise(
        pc.utf8_lpad(number, _NUMBER_DIGITS, "0"),
        pc.utf8_lpad(position.cast(pa.string()), _POSITION_DIGITS, "0"),
        pc.utf8_lpad(pc.fill_null(row, 0).cast(pa.string()), _ROW_DIGITS, "0"),
        ".",
    )
