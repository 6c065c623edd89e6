"""An Iceberg table that others write is maintained, and stays readable to them."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.iceberg_folder import BATCHES, IcebergFolder
from e2e.harness.lake import QUICK_JAVA, SMALL_RESOURCES, STORE, Lake


def test_small_files_become_one_and_old_snapshots_go(lake: Lake, tmp_path: Path) -> None:
    orders = IcebergFolder(lake, "orders")
    orders.write(BATCHES, tmp_path)
    assert orders.open().inspect.files().num_rows == len(BATCHES)
    lake.cluster.apply(
        {
            "apiVersion": "tideline.dev/v1alpha1",
            "kind": "LakeTable",
            "metadata": {"name": "orders", "namespace": lake.namespace},
            "spec": {
                "format": "Iceberg",
                "storeRef": STORE,
                "location": orders.location,
                "services": {"expireSnapshots": {"olderThan": "1s", "retainLast": 1}},
                "resources": SMALL_RESOURCES,
                "podTemplate": QUICK_JAVA,
            },
        }
    )
    lake.wait_for_operation("orders", "rewrite")
    lake.wait_for_operation("orders", "expire")
    lake.wait_for("orders", "ServicesCurrent")

    after = orders.open()
    assert after.inspect.files().num_rows == 1
    assert len(after.snapshots()) == 1
    assert orders.rows() == [row for batch in BATCHES for row in batch]
    status = lake.get("orders")["status"]
    assert status["table"]["files"] == 1
    assert status["services"]["rewriteDataFiles"]["lastRun"]
    paths = [path for path in lake.paths("orders/data/") if path.endswith(".parquet")]
    assert len(paths) == 1
