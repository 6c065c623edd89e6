"""How many rows a table has, where the footers of its files say it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import CorruptTableError
from tideline.hudi.file_group.base_file_reader import open_bytes
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline


def row_count(table: HoodieTable, timeline: ActiveTimeline, *, files_max: int) -> int | None:
    """None where logs may change it, files are not parquet, or there are more than `files_max`.

    Raises CorruptTableError for a file that cannot be read.
    """
    slices = table.files.read_view(timeline).all_latest_slices()
    if len(slices) > files_max:
        return None
    rows = 0
    for file_slice in slices:
        base = file_slice.base_file
        if base is None or file_slice.log_files or not base.path.endswith(".parquet"):
            return None
        try:
            with open_bytes(table.store, base) as file:
                rows += pq.read_metadata(file).num_rows
        except (pa.ArrowException, OSError) as error:
            raise CorruptTableError("a file cannot be read", path=base.path) from error
    return rows
