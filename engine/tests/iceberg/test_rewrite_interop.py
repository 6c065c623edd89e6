"""Our rewrite and Iceberg's own, on twins: same rows, same metadata, and Iceberg continues."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import GroupOutcome
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.services.rewrite_data_files.run import RewriteReport, rewrite_data_files
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_peer import DeleteFileOnDisk, IcebergPeer

pytestmark = pytest.mark.interop

ALL = {"rewrite-all": "true"}
LINEAGE = "id, _row_id, _last_updated_sequence_number"
# What names the engine, and sizes, which depend on who wrote the parquet.
ENGINE = ("engine-name", "engine-version", "app-id", "app-name", "iceberg-version")
NOT_COMPARED = frozenset((*ENGINE, "added-files-size", "total-files-size"))
CASES = {
    "plain": ("partitioned by (region)", 1, ()),
    "positions": ("partitioned by (region)", 2, ("delete from {} where id in (2, 5)",)),
    "unpartitioned": ("", 2, ("delete from {} where id = 2",)),
    "vectors": ("partitioned by (bucket(2, id))", 3, ("delete from {} where id in (2, 5)",)),
    "evolved": (
        "partitioned by (region)",
        2,
        (
            "alter table {} add partition field truncate(1, name)",
            "insert into {} values (90, 'EU', 'z'), (91, null, null)",
            "alter table {} drop partition field region",
            "insert into {} values (92, 'US', 'y')",
        ),
    ),
}


@dataclass(frozen=True)
class Twins:
    """Two tables made by the same statements."""

    peer: IcebergPeer
    case: str
    name: str

    @classmethod
    def create(cls, peer: IcebergPeer, case: str, *, name: str = "") -> Twins:
        partitions, version, statements = CASES[case]
        twins = cls(peer, case, name or case)
        for table in (twins.ours, twins.theirs):
            peer.run(
                f"create table {table} (id bigint, region string, name string) using iceberg "
                f"{partitions} tblproperties ('format-version'='{version}', "
                "'write.delete.mode'='merge-on-read', 'write.distribution-mode'='none')"
            )
            for start in range(0, 30, 10):
                peer.run(
                    f"insert into {table} select /*+ coalesce(1) */ id, "
                    f"if(id % 2 = 0, 'EU', 'US'), concat('n', id) "
                    f"from range({start}, {start + 10}) order by id % 2, id"
                )
            peer.run(*(statement.format(table) for statement in statements))
        return twins

    @property
    def ours(self) -> str:
        return f"lake.commit.{self.name}_ours"

    @property
    def theirs(self) -> str:
        return f"lake.commit.{self.name}_theirs"

    def uri(self, table: str) -> str:
        return str(self.peer.warehouse / "commit" / table.rpartition(".")[2])

    def rewrite_ours(self) -> RewriteReport:
        options = RewriteOptions.parse(ALL, properties={})
        return rewrite_data_files(
            IcebergTable.open(self.uri(self.ours)), options, write_groups_here
        )

    def rewrite_theirs(self) -> None:
        options = ", ".join(f"'{name}', '{value}'" for name, value in ALL.items())
        self.peer.run(
            f"call lake.system.rewrite_data_files(table => '{self.theirs}', "
            f"options => map({options}))"
        )

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return in_order(self.peer.sql(f"select * from {table}"))

    def lineage(self) -> list[tuple[Any, ...]]:
        """Which rows are which, and when they changed last."""
        return in_order(self.peer.sql(f"select {LINEAGE} from {self.ours}"))

    def summary(self, table: str) -> dict[str, str]:
        found = self.peer.sql(
            f"select summary from {table}.snapshots where operation = 'replace' "
            "order by committed_at desc limit 1"
        )
        pairs = dict(found["summary"].to_pylist()[0])
        return {name: value for name, value in pairs.items() if name not in NOT_COMPARED}

    def entries(self, table: str) -> list[tuple[Any, ...]]:
        columns = "status, sequence_number, file_sequence_number, data_file.content, "
        columns += "data_file.spec_id, data_file.record_count, data_file.null_value_counts, "
        # The bounds of delete files are paths.
        columns += "if(data_file.content = 0, data_file.lower_bounds, null)"
        if CASES[self.case][0]:
            columns += ", data_file.partition"
        return in_order(self.peer.sql(f"select {columns} from {table}.entries"))

    def manifests(self, table: str) -> list[tuple[Any, ...]]:
        columns = "content, partition_spec_id, added_data_files_count, existing_data_files_count, "
        columns += "deleted_data_files_count, added_delete_files_count, "
        columns += "deleted_delete_files_count, partition_summaries"
        return in_order(self.peer.sql(f"select {columns} from {table}.manifests"))


def in_order(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


@pytest.mark.slow_with("plain", "unpartitioned", "evolved", "positions", "vectors")
@pytest.mark.parametrize("case", CASES)
def test_the_metadata_is_what_iceberg_writes_and_iceberg_goes_on(
    iceberg_peer: IcebergPeer, case: str
) -> None:
    twins = Twins.create(iceberg_peer, case)
    before = twins.rows(twins.ours)
    lineage = twins.lineage() if case == "vectors" else None
    twins.rewrite_theirs()
    twins.rewrite_ours()
    assert twins.rows(twins.ours) == before == twins.rows(twins.theirs)
    assert in_order(iceberg_peer.pyiceberg_read(twins.uri(twins.ours))) == before
    assert in_order(iceberg_peer.duckdb_read(twins.uri(twins.ours))) == before
    assert twins.summary(twins.ours) == twins.summary(twins.theirs)
    assert twins.manifests(twins.ours) == twins.manifests(twins.theirs)
    assert twins.entries(twins.ours) == twins.entries(twins.theirs)
    if lineage is not None:
        read = iceberg_peer.duckdb_read(twins.uri(twins.ours), columns=LINEAGE)
        assert twins.lineage() == lineage == in_order(read)
    iceberg_peer.run(
        f"alter table {twins.ours} set tblproperties ('write.delete.mode'='copy-on-write')",
        f"insert into {twins.ours} values (100, 'EU', 'w')",
        f"delete from {twins.ours} where id = 4",
        f"call lake.system.rewrite_manifests('{twins.ours}')",
    )
    expected = [row for row in before if row[0] != 4]
    assert twins.rows(twins.ours) == sorted([*expected, (100, "EU", "w")], key=repr)


@pytest.mark.slow
def test_equality_deletes_that_arrive_concurrently_are_kept(
    iceberg_peer: IcebergPeer, tmp_path: Path
) -> None:
    """Also when everything else in the table is younger than they are."""
    twins = Twins.create(iceberg_peer, "positions", name="concurrent")
    uri = twins.uri(twins.ours)
    delete = tmp_path / "eq.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([4, 6])], schema=pa.schema([field])), delete)

    def engine(
        io: FileIO, context: RewriteContext, groups: Sequence[FileGroup], **_: object
    ) -> Generator[GroupOutcome]:
        yield from write_groups_here(io, context, groups)
        size = delete.stat().st_size
        arriving = DeleteFileOnDisk(str(delete), size, 2, (1,), partition="region=EU")
        iceberg_peer.add_deletes(uri, arriving)
        iceberg_peer.run(f"insert into {twins.ours} values (200, 'EU', 'new')")

    before = twins.rows(twins.ours)
    options = RewriteOptions.parse(ALL, properties={})
    rewrite_data_files(IcebergTable.open(uri), options, engine)
    expected = [row for row in before if row[0] not in (4, 6)]
    assert twins.rows(twins.ours) == sorted([*expected, (200, "EU", "new")], key=repr)
