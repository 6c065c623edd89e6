"""Rows written as a Flink job of Hudi does, whose index knows keys from a state and reads no file.

New keys go where the state says, to the log of a file group that is there already.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.stored_key_lookup import NO_ROW
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.write_operation import WriteOperation
from tideline.in_process.engine import InProcessWriteEngine
from tideline.in_process.located_keys import LocatedKeys
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.write_batch import batch_engine, write_batch


def append_as_flink(table: SmallTable, keys: Sequence[int], v: int) -> None:
    """Upsert `batch(keys, v)` into a table that has one file group in each partition."""
    lake = table.lake()
    engine = batch_engine(lake, batch(keys, v), WriteOperation.UPSERT)
    engine.__class__ = _FlinkEngine
    write_batch(lake, engine, WriteOperation.UPSERT)


class _FlinkEngine(InProcessWriteEngine):
    """Takes every key for one of its partition's file group."""

    def _locate(
        self,
        candidates: Sequence[LookupCandidate],
        timeline: ActiveTimeline,  # noqa: ARG002
    ) -> LocatedKeys:
        rows = self._batch
        paths = rows.partitions.dictionary_decode()
        numbers = {candidate.partition: n for n, candidate in enumerate(candidates)}
        columns = [
            rows.keys,
            paths,
            pa.array([numbers[path] for path in paths.to_pylist()], pa.int32()),
            pa.repeat(pa.scalar(False), len(rows)),
            pa.repeat(NO_ROW, len(rows)),
            pa.array(range(len(rows))),
        ]
        found = pa.Table.from_arrays(columns, schema=self._answer())
        return LocatedKeys.of(found, self._codes, rows.partition_codes())
