"""Tables of version 9 with several ordering columns: read alike by Hudi, refused by hudi-rs 0.5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.open_table import open_table
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.json_line_process import PeerFailureError
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import merged_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("day", pa.int64()),
                    ("turn", pa.int32()), ("v", pa.string())])  # fmt: skip


def rows(*values: tuple[str, int, int, str]) -> pa.Table:
    """Rows of id, day, turn, v."""
    columns = zip(*((key, "p", *rest) for key, *rest in values), strict=True)
    kinds = zip(columns, SCHEMA.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in kinds], schema=SCHEMA)


FIRST = rows(("a", 1, 5, "old"), ("b", 1, 5, "old"), ("c", 1, 5, "old"), ("d", 1, 5, "old"))
SECOND = rows(("a", 1, 6, "later turn"), ("b", 1, 4, "earlier turn"), ("c", 2, 1, "next day"),
              ("d", 0, 9, "day before"))  # fmt: skip
THIRD = rows(("a", 1, 6, "same"), ("c", 2, 0, "earlier turn"), ("e", 1, 1, "new"))
WANTED = {"a": "same", "b": "old", "c": "next day", "d": "old", "e": "new"}


def values(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_they_decide_one_after_the_other(
    table_type: str, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    path = tmp_path / "ordered"
    LakeTable.create(
        str(path),
        record_key="id",
        partition_by="part",
        ordering=["day", "turn"],
        schema=SCHEMA,
        table_type=table_type,
        table_version=9,
        properties={"hoodie.parquet.small.file.limit": "0"},
    )
    location = StoreLocation.of(path)
    small = SmallTable(location)
    small.write("insert", FIRST)
    small.write("upsert", SECOND)
    options = {"hoodie.table.name": "ordered", **version_options(9)}
    hudi_peer.write(str(path), THIRD, operation="upsert", options=options)
    assert values(merged_rows(open_table(location))) == WANTED
    assert values(hudi_peer.read(str(path))) == WANTED
    if table_type == "MERGE_ON_READ":
        local_services(small, dict(COMPACTION.whenever_asked)).run(COMPACTION)
        assert values(hudi_peer.read(str(path))) == WANTED
    with pytest.raises(PeerFailureError, match="ordering fields"):
        hudi_peer.read_with_hudi_rs(str(path))
