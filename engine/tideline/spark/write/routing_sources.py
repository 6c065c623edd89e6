"""Where a task finds the record key and the partition path of the rows it is given.

Often both are plain text columns of the table. Then they are not sent to the tasks a second time:
for wide key columns that is a good part of what a shuffle moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tideline.hudi.keys.key_generator import DEFAULT_PARTITION, KeyGenerator
from tideline.hudi.table.schema import PARTITION_PATH, RECORD_KEY


@dataclass(frozen=True, slots=True)
class RoutingSources:
    """Names of the columns that hold the record key and the partition path.

    They are the computed `_hoodie_*` columns, or the user columns that equal them.
    """

    key: str = RECORD_KEY
    partition: str = PARTITION_PATH

    @classmethod
    def of(cls, keys: KeyGenerator, incoming: T.StructType, target: pa.Schema) -> RoutingSources:
        """The user columns where they will do, else the computed ones."""
        key = partition = ""
        if not keys.qualified:
            key = _plain(keys.record_fields[0], incoming, target)
        fields = keys.partition_fields
        if len(fields) == 1 and not (fields[0].timestamp or keys.hive_style or keys.url_encode):
            partition = _plain(fields[0].field, incoming, target)
        return cls(key or RECORD_KEY, partition or PARTITION_PATH)

    def bad_keys(self, batch: pa.RecordBatch) -> int:
        """How many rows have a null or empty record key."""
        keys = batch.column(self.key)
        empty: int = pc.sum(pc.equal(keys, "")).as_py() or 0
        return int(keys.null_count) + empty

    def partition_paths(self, batch: pa.RecordBatch) -> pa.Array:
        """The partition path of every row."""
        paths = batch.column(self.partition)
        if self.partition == PARTITION_PATH:
            return paths
        missing = pc.or_kleene(pc.is_null(paths), pc.equal(paths, ""))
        if not pc.any(missing).as_py():
            return paths
        return pc.if_else(pc.fill_null(missing, True), DEFAULT_PARTITION, paths)


def _plain(name: str, incoming: T.StructType, target: pa.Schema) -> str:
    """The target's column of this name if its values are the key's very text, else ""."""
    supplied = {field.name.lower(): field.dataType for field in incoming.fields}
    spelled = next((field for field in target if field.name.lower() == name.lower()), None)
    is_text = isinstance(supplied.get(name.lower()), T.StringType)
    if spelled is None or not is_text or not pa.types.is_string(spelled.type):
        return ""
    return str(spelled.name)
