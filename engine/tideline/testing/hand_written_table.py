"""Tables written by hand, for tests of readers: file by file, log by log, commit by commit.

Shares no code with the write path, and can leave what a writer would not: files of other schemas,
pending instants, cleaned versions, archived commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tideline.hudi.log.data_block import encode_data_block
from tideline.hudi.log.delete_block import encode_delete_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.file_group import join_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.table.schema import (
    COMMIT_TIME,
    META_COLUMNS,
    arrow_to_avro,
    with_meta_fields,
    without_meta_fields,
)
from tideline.hudi.table.table_config import BASE_FILE_FORMAT
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock

_DAY = "20260101000000000"


def write_lance(rows: pa.Table, path: Path) -> None:
    """Write a Lance file; needs the library."""
    from lance.file import LanceFileWriter

    with LanceFileWriter(str(path), rows.schema) as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)


_WRITERS = {"parquet": pq.write_table, "orc": orc.write_table, "lance": write_lance}

BaseFiles = Mapping[tuple[str, str], pa.Table]
"""Rows by partition and file id."""


@dataclass(slots=True)
class HandWrittenTable:
    """A table in a local folder. Instants may be given by their last digits: "7" or "12".

    Base files are in `file_format`: `parquet`, `orc` or `lance`, which needs its library.
    """

    location: StoreLocation
    schema: pa.Schema
    file_format: str = "parquet"
    _versions: dict[tuple[str, str], str] = field(default_factory=dict)
    _logs: int = 0

    @classmethod
    def create(
        cls, folder: Path, schema: pa.Schema, *, file_format: str = "parquet", **definition: Any
    ) -> HandWrittenTable:
        """A table without rows; `definition` as for TableDefinition (record key: first column)."""
        location = StoreLocation.of(folder)
        settings = {"name": "t", "record_key": (schema.names[0],), "schema": schema} | definition
        create_table(location.open(), TableDefinition(table_version=6, **settings), FakeClock())
        table = cls(location, schema, file_format)
        if file_format != "parquet":
            table.set_properties({BASE_FILE_FORMAT: file_format.upper()})
        return table

    def open(self) -> HoodieTable:
        return open_table(self.location)

    def set_properties(self, changes: Mapping[str, str | None]) -> None:
        self.open().properties.update(changes)

    def path(self, relative: str) -> Path:
        native = self.location.open().local_path(relative)
        assert native is not None
        return Path(native)

    def commit(
        self,
        time: str,
        files: BaseFiles,
        *,
        replaced: Mapping[str, Sequence[str]] | None = None,
        schema: pa.Schema | None = None,
        completed: bool = True,
    ) -> list[str]:
        """Write files and the commit that made them; the paths of the files.

        Rows bring `_hoodie_commit_time` where they are older than the commit. A commit with
        `replaced` file ids, even none, is a replacecommit.
        """
        instant = instant_time(time)
        self.schema = schema or self.schema
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for (partition, file_id), rows in files.items():
            stat = self._write_file(instant, partition, file_id, rows)
            stats[partition] = (*stats.get(partition, ()), stat)
        metadata = CommitMetadata(
            partition_to_write_stats=stats,
            operation_type="UPSERT" if replaced is None else "INSERT_OVERWRITE",
            extra_metadata={"schema": json.dumps(_user_schema(self.schema))},
            partition_to_replace_file_ids=None
            if replaced is None
            else {partition: tuple(ids) for partition, ids in replaced.items()},
        )
        action = Action.COMMIT if replaced is None else Action.REPLACECOMMIT
        self.begin(time, action)
        if completed:
            timelines = self.open().timelines
            timelines.complete(Instant(instant, action, State.INFLIGHT), metadata.encode())
        return [stat.path for in_partition in stats.values() for stat in in_partition if stat.path]

    def append(
        self,
        time: str,
        rows: BaseFiles,
        deletes: Mapping[tuple[str, str], Sequence[str]] | None = None,
        *,
        completed: bool = True,
        log_format: LogFormat = LogFormat.PARQUET,
    ) -> list[str]:
        """Append rows, then deleted keys, to the logs of file groups; the paths of the log files.

        A file group without a base file begins with its log.
        """
        instant = instant_time(time)
        has_meta = self.open().config.populate_meta_fields
        schema = with_meta_fields(self.schema) if has_meta else self.schema
        avro = json.dumps(arrow_to_avro(schema, name="t_record", namespace="hoodie.t"))
        bodies: dict[tuple[str, str], bytes] = {}
        for (partition, file_id), added in rows.items():
            full = _with_meta_columns(added, instant, partition, file_id)
            body = encode_data_block(log_format, full, avro, instant)
            bodies[partition, file_id] = body
        for group, keys in (deletes or {}).items():
            block = encode_delete_block(pa.array(keys), group[0], (), instant, avro)
            bodies[group] = bodies.get(group, b"") + block
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for group, body in bodies.items():
            stats[group[0]] = (*stats.get(group[0], ()), self._write_log(instant, *group, body))
        metadata = CommitMetadata(
            partition_to_write_stats=stats,
            operation_type="UPSERT",
            extra_metadata={"schema": json.dumps(_user_schema(self.schema))},
        )
        self.begin(time, Action.DELTACOMMIT)
        if completed:
            self.open().timelines.complete(
                Instant(instant, Action.DELTACOMMIT, State.INFLIGHT), metadata.encode()
            )
        return [stat.path for in_partition in stats.values() for stat in in_partition if stat.path]

    def begin(self, time: str, action: Action, plan: bytes = b"") -> None:
        """Leave an instant inflight."""
        timelines = self.open().timelines
        timelines.to_inflight(timelines.create_requested(instant_time(time), action, plan))

    def clean(self, time: str, paths: Sequence[str]) -> None:
        """Delete file versions under a completed clean."""
        store = self.location.open()
        for path in paths:
            store.delete(path)
        self.begin(time, Action.CLEAN)
        self.open().timelines.complete(
            Instant(instant_time(time), Action.CLEAN, State.INFLIGHT), b"clean"
        )

    def archive(self, *times: str) -> None:
        """Move instants out of the active timeline."""
        timelines = self.open().timelines
        for time in times:
            instant = timelines.load().find(instant_time(time))
            assert instant is not None
            for state in State:
                timelines.remove(instant.in_state(state))
        self.location.open().put(".hoodie/archived/.commits_.archive.1_1-0-1", b"archived")

    def _write_file(
        self, instant: InstantTime, partition: str, file_id: str, rows: pa.Table
    ) -> WriteStat:
        store = self.location.open()
        write_partition_metadata(store, partition, instant)
        name = f"{file_id}_0-1-0_{instant}.{self.file_format}"
        path = join_path(partition, name)
        if self.open().config.populate_meta_fields:
            rows = _with_meta_columns(rows, instant, partition, name)
        native = self.path(path)
        _WRITERS[self.file_format](rows, native)
        previous = self._versions.get((partition, file_id), NO_PREVIOUS_COMMIT)
        self._versions[partition, file_id] = instant.value
        return WriteStat(
            file_id=file_id,
            path=path,
            prev_commit=previous,
            num_writes=rows.num_rows,
            partition_path=partition,
            total_write_bytes=native.stat().st_size,
            file_size_in_bytes=native.stat().st_size,
        )

    def _write_log(
        self, instant: InstantTime, partition: str, file_id: str, body: bytes
    ) -> WriteStat:
        store = self.location.open()
        write_partition_metadata(store, partition, instant)
        previous = self._versions.get((partition, file_id), NO_PREVIOUS_COMMIT)
        base = instant.value if previous == NO_PREVIOUS_COMMIT else previous
        self._versions[partition, file_id] = base
        self._logs += 1
        path = join_path(partition, f".{file_id}_{base}.log.{self._logs}_0-1-0")
        store.put(path, body)
        return WriteStat(
            file_id=file_id,
            path=path,
            prev_commit=previous,
            partition_path=partition,
            total_write_bytes=len(body),
            file_size_in_bytes=len(body),
        )


def _user_schema(schema: pa.Schema) -> Mapping[str, Any]:
    return arrow_to_avro(without_meta_fields(schema), name="t_record", namespace="hoodie.t")


def instant_time(digits: str) -> InstantTime:
    """The instant of these last digits; a whole instant time is taken as it is."""
    whole = digits if is_instant_time(digits) else _DAY[: -len(digits)] + digits
    return InstantTime(whole)


def _with_meta_columns(
    rows: pa.Table, instant: InstantTime, partition: str, file_name: str
) -> pa.Table:
    count = rows.num_rows
    user = rows.select([name for name in rows.column_names if name not in META_COLUMNS])
    times = [instant.value] * count
    if COMMIT_TIME in rows.column_names:
        times = rows.column(COMMIT_TIME).to_pylist()
    meta = [
        times,
        [f"{time}_0_{row}" for row, time in enumerate(times)],
        [str(key) for key in user.column(0).to_pylist()],
        [partition] * count,
        [file_name] * count,
    ]
    columns = [pa.array(values, pa.string()) for values in meta]
    return pa.table([*columns, *user.columns], names=[*META_COLUMNS, *user.column_names])
