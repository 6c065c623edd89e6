"""Iceberg tables that Iceberg itself writes for tests: every transform, every kind of delete.

`PeerTable` is one table of the peer's catalog `lake`; rows are those of `interop_rows`, whose
answers other tests know, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_peer import DeleteFileOnDisk, IcebergPeer, metadata_file

COLUMNS = """
    id bigint not null, flag boolean, count int, ratio double, price decimal(9,2), region string,
    day date, seen timestamp, place struct<city: string, zip: int>
"""
FIELD_IDS = {
    name: number
    for number, name in enumerate(
        ("id", "flag", "count", "ratio", "price", "region", "day", "seen", "place"), start=1
    )
}
ARROW_TYPES = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
}
MERGE_ON_READ = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
}


@dataclass(frozen=True, slots=True)
class PeerTable:
    """A table in the peer's warehouse."""

    peer: IcebergPeer
    name: str

    @classmethod
    def create(
        cls,
        peer: IcebergPeer,
        *,
        partition_by: Sequence[str] = (),
        format_version: int = 2,
        **properties: str,
    ) -> PeerTable:
        """An empty table; property names have `_` for `.` and `__` for `-`."""
        table = cls(peer, f"t{uuid.uuid4().hex[:12]}")
        given = {
            name.replace("__", "-").replace("_", "."): value for name, value in properties.items()
        }
        settings = {"format-version": str(format_version), **MERGE_ON_READ, **given}
        listed = ", ".join(f"'{name}'='{value}'" for name, value in settings.items())
        partitioned = f"partitioned by ({', '.join(partition_by)})" if partition_by else ""
        peer.run(
            f"create table {table.sql_name} ({COLUMNS}) using iceberg {partitioned} "
            f"tblproperties ({listed})"
        )
        return table

    @property
    def sql_name(self) -> str:
        """What Spark calls it."""
        return f"lake.made.{self.name}"

    @property
    def uri(self) -> str:
        """Its folder."""
        return str(self.peer.warehouse / "made" / self.name)

    def insert(self, *ids: int) -> None:
        """Append the rows of `ids`, one file per partition and call."""
        listed = ", ".join(f"({number}L)" for number in ids)
        self.peer.run(
            f"insert into {self.sql_name} select /*+ coalesce(1) */ {_ROW} "
            f"from values {listed} as t(n) order by {self._clustering()}"
        )

    def run(self, statement: str) -> None:
        """A statement that calls the table `{table}`."""
        self.peer.run(statement.format(table=self.sql_name))

    def delete_equal(self, column: str, values: Sequence[object], partition: str = "") -> None:
        """Commit equality deletes on one top-level column; for the table's current spec."""
        metadata = self.metadata()
        field = metadata.schema().find(column)
        assert field is not None
        file = Path(self.uri) / "data" / f"eq-{uuid.uuid4().hex}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        arrow = ARROW_TYPES[str(field.type)]
        described = pa.field(column, arrow, metadata={"PARQUET:field_id": str(field.field_id)})
        rows = pa.table([pa.array(values, arrow)], schema=pa.schema([described]))
        pq.write_table(rows, file)
        self.peer.add_deletes(
            self.uri,
            DeleteFileOnDisk(
                path=str(file),
                size_bytes=file.stat().st_size,
                record_count=len(values),
                equality_ids=(field.field_id,),
                spec_id=metadata.default_spec_id,
                partition=partition,
            ),
        )

    def metadata(self) -> TableMetadata:
        """The newest metadata, as Tideline reads it."""
        path = metadata_file(self.uri)
        return TableMetadata.parse(Path(path).read_bytes(), path=path)

    def io(self) -> FileIO:
        """Tideline's access to its files."""
        return FileIO(StoreLocation.of(self.uri), self.metadata().location)

    def _clustering(self) -> str:
        names = {field.source_id for field in self.metadata().spec().fields}
        columns = [name for name, field_id in FIELD_IDS.items() if field_id in names]
        return ", ".join(columns or ["id"])


_ROW = """
    n as id,
    if(n % 5 = 4, null, n % 2 = 0) as flag,
    cast(n * 7 as int) as count,
    if(n % 11 = 10, double('NaN'), n / 4) as ratio,
    cast(n * 1.25 as decimal(9,2)) as price,
    if(n % 7 = 6, null, concat('r', n % 3)) as region,
    date_add(date'1969-12-20', cast(n as int)) as day,
    timestamp_micros((n - 20) * 40000000000) as seen,
    named_struct('city', concat('c', n % 4), 'zip', cast(n as int)) as place
"""
