"""The peer itself: what Hudi writes, Hudi and hudi-rs read back, and failures are readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import typed_rows
from tideline.testing.interop_table import InteropLayout
from tideline.testing.json_line_process import PeerFailureError
from tideline.testing.table_model import TableModel, canonical_with_meta

pytestmark = pytest.mark.interop

LAYOUT = InteropLayout("peer")


def test_hudi_and_hudi_rs_read_back_every_type_at_version_9(
    tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    uri = str(tmp_path / "table")
    model = TableModel(record_key=["id"], partition_by=["region"], ordering="ts")
    for operation, rows in (
        ("insert", typed_rows(range(15), version=2)),
        ("upsert", typed_rows(range(10, 20), version=1)),
        ("delete", typed_rows(range(0, 20, 3), version=3)),
    ):
        model.apply(operation, rows)
        hudi_peer.write(uri, rows, operation=operation, options=LAYOUT.creating_options())
    bundle, rust = hudi_peer.read(uri), hudi_peer.read_with_hudi_rs(uri)
    assert model.canonical(bundle) == model.rows()
    assert canonical_with_meta(bundle) == canonical_with_meta(rust)
    properties = (tmp_path / "table/.hoodie/hoodie.properties").read_text()
    assert "hoodie.table.version=9" in properties.splitlines()
    timeline = hudi_peer.timeline(uri)
    assert [(item.action, item.state) for item in timeline] == [("commit", "COMPLETED")] * 3


def test_a_failure_names_javas_reason_and_the_peer_goes_on(
    tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    with pytest.raises(PeerFailureError, match="TableNotFoundException") as failure:
        hudi_peer.read(str(tmp_path / "absent"))
    assert "\tat " not in str(failure.value)
    assert hudi_peer.sql("select 1 as one").to_pylist() == [{"one": 1}]
