"""Settings that are honoured do to rows what they do in Hudi."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.json_line_process import PeerFailureError
from tideline.testing.small_table import SmallTable, batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

DESCRIPTION = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.metadata.enable": "false",
}
POLICY = "hoodie.datasource.insert.dup.policy"


def values(rows: pa.Table) -> list[tuple[str, int]]:
    return sorted((row["id"], row["v"]) for row in rows.select(["id", "v"]).to_pylist())


@pytest.mark.parametrize("policy", ["none", "drop", "fail"])
def test_an_insert_of_stored_keys_ends_as_in_hudi(
    policy: str, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    uri, ours = str(tmp_path / "theirs"), SmallTable.create(StoreLocation.of(f"{tmp_path}/ours"))
    first, second = batch(range(4), 1), batch(range(2, 8), 2)
    hudi_peer.write(uri, first, operation="insert", options=DESCRIPTION)
    ours.write("insert", first)
    options = {**DESCRIPTION, POLICY: policy}
    if policy == "fail":
        with pytest.raises(PeerFailureError):
            hudi_peer.write(uri, second, operation="insert", options=options)
        with pytest.raises(InvalidDataError, match="2 rows whose key is stored"):
            ours.write("insert", second, options={POLICY: policy})
    else:
        hudi_peer.write(uri, second, operation="insert", options=options)
        ours.write("insert", second, options={POLICY: policy})
    assert sorted(ours.values()) == values(hudi_peer.read(uri))


def test_columns_that_the_input_lacks_are_null_in_hudi_as_well(
    tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    uri = str(tmp_path / "theirs")
    hudi_peer.write(uri, batch(range(2), 1), operation="insert", options=DESCRIPTION)
    options = {**DESCRIPTION, "hoodie.write.set.null.for.missing.columns": "true"}
    lacking = batch(range(1, 3), 2).drop_columns(["v"])
    hudi_peer.write(uri, lacking, operation="upsert", options=options)
    rows = hudi_peer.read(uri).to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {"k000": 1, "k001": None, "k002": None}
