"""Tables of version 9 whose rows are filled up from those they win against, as Hudi merges them.

Writes to such tables: test_partial_update_writes_with_hudi.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.open_table import open_table
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.partial_rows import (
    BY_COMMIT_TIME,
    BY_EVENT_TIME,
    FROM_DEBEZIUM,
    MARK,
    MODEL,
    SCHEMA,
    rows,
)
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import merged_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COLUMNS = [name for name in SCHEMA.names if name != "part"]
BATCHES = (
    rows(("a", 5, 1, "one", [1]), ("b", 5, 1, None, None), ("c", 5, 1, "one", [1]),
         ("d", 9, None, "late", None), ("e", 5, 1, MARK, [1])),
    rows(("a", 6, None, "two", None), ("b", 6, 2, None, [2]), ("d", 3, 7, "early", [7]),
         ("e", 6, None, MARK, None)),
    rows(("a", 7, 3, None, None), ("b", 4, None, "older", None), ("d", 4, 8, "second", None),
         ("e", 7, 3, "there", None), ("f", 1, None, MARK, None)),
    rows(("a", 7, None, MARK, [9]), ("f", 2, 5, MARK, [5])),
)  # fmt: skip
"""Newer and older rows of the same keys, with nulls and the marker in several places."""

PAYLOADS = (BY_EVENT_TIME, BY_COMMIT_TIME, FROM_DEBEZIUM)


@pytest.fixture(params=PAYLOADS)
def made_by_hudi(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Path:
    path = tmp_path / "filled"
    is_debezium = request.param == FROM_DEBEZIUM
    options = {
        "hoodie.table.name": "filled",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.payload.class": MODEL + request.param,
        "hoodie.index.type": "SIMPLE",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.compact.inline": "false",
        **version_options(9),
    }
    for batch in BATCHES:
        if is_debezium:
            batch = batch.rename_columns(
                ["_event_lsn" if name == "ts" else name for name in batch.schema.names]
            ).append_column("_change_operation_type", pa.array(["u"] * batch.num_rows))
            options["hoodie.datasource.write.precombine.field"] = "_event_lsn"
        hudi_peer.write(str(path), batch, operation="upsert", options=options)
    return path


def user_rows(table: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in table.schema.names if not name.startswith("_hoodie_")]
    return sorted(table.select(sorted(names)).to_pylist(), key=lambda row: str(row["id"]))


def test_rows_are_filled_up_as_by_hudi(made_by_hudi: Path, hudi_peer: HudiPeer) -> None:
    location = StoreLocation.of(made_by_hudi)
    table = open_table(location)
    assert table.config.partial_updates is not None
    expected = user_rows(hudi_peer.read(str(made_by_hudi)))
    assert len(expected) == 6
    assert user_rows(merged_rows(table)) == expected
    services = local_services(
        SmallTable(location), {**LOG_COMPACTION.whenever_asked, **COMPACTION.whenever_asked}
    )
    services.run(LOG_COMPACTION)
    assert user_rows(merged_rows(open_table(location))) == expected
    assert user_rows(hudi_peer.read(str(made_by_hudi))) == expected
    services.run(COMPACTION)
    assert user_rows(merged_rows(open_table(location))) == expected
    assert user_rows(hudi_peer.read(str(made_by_hudi))) == expected
    assert user_rows(hudi_peer.read_with_hudi_rs(str(made_by_hudi))) == expected
