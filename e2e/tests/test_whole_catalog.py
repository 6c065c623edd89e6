"""Every Iceberg table of a folder is maintained by one LakeCatalog, and outlives it."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.cluster import condition
from e2e.harness.iceberg_folder import BATCHES, IcebergFolder
from e2e.harness.lake import API_VERSION, QUICK_JAVA, SMALL_RESOURCES, STORE, Lake

OF_THE_LAKE = "tideline.dev/catalog=lake"


def test_tables_of_a_folder_are_maintained_by_one_policy_and_outlive_it(
    lake: Lake, tmp_path: Path
) -> None:
    names = ("orders", "returns", "tmp_copy")
    tables = {name: IcebergFolder(lake, f"warehouse/sales/{name}") for name in names}
    for table in tables.values():
        table.write(BATCHES, tmp_path)
    lake.cluster.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "LakeCatalog",
            "metadata": {"name": "lake", "namespace": lake.namespace},
            "spec": {
                "storeRef": STORE,
                "location": f"s3://{lake.bucket}/warehouse",
                "exclude": ["*.tmp_*"],
                "resources": SMALL_RESOURCES,
                "podTemplate": QUICK_JAVA,
            },
        }
    )

    def is_ready() -> bool:
        found = lake.cluster.get("LakeCatalog", "lake", lake.namespace)
        return condition(found, "Ready").get("status") == "True"

    lake.cluster.wait_until(is_ready, "the LakeCatalog is ready", timeout_s=60)
    status = (lake.cluster.get("LakeCatalog", "lake", lake.namespace) or {})["status"]
    assert (status["found"], status["maintained"], status["excluded"]) == (3, 2, 1)
    for name in ("orders", "returns"):
        lake.wait_for_operation(f"lake-sales-{name}", "rewrite")
        assert tables[name].open().inspect.files().num_rows == 1
        assert tables[name].rows() == [row for batch in BATCHES for row in batch]
    assert tables["tmp_copy"].open().inspect.files().num_rows == len(BATCHES)

    # Kubernetes collects what a LakeCatalog owned; no file goes with it.
    files = lake.paths("warehouse/")
    lake.cluster.delete("LakeCatalog", "lake", lake.namespace)
    lake.cluster.wait_until(
        lambda: not lake.cluster.list("LakeTable", lake.namespace, labels=OF_THE_LAKE),
        "its LakeTables go",
        timeout_s=60,
    )
    assert set(lake.paths("warehouse/")) == set(files)
