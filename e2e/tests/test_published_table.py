"""A Hudi table in a REST catalog, and rows that are erased beside the operator."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from e2e.harness.lake import QUICK, Lake, some_rows
from e2e.harness.rest_catalog import CREDENTIALS, ClusterCatalog

NAME = "travel.people"
ERASED = "zaphod@example.org"


def test_commits_are_published_in_a_rest_catalog(lake: Lake) -> None:
    catalog = ClusterCatalog(lake)
    catalog.start()
    lake.land("people", "a", some_rows(3))
    lake.apply_table("people", publish=["Iceberg"], catalog=catalog.spec(NAME), **QUICK)
    lake.wait_for_ids("people", range(3))
    lake.land("people", "b", [{"id": 1, "ts": 2, "name": "changed"}, {"id": 3, "ts": 2}])
    lake.wait_for_ids("people", range(4))
    lake.wait_for("people", "Ready")
    with catalog.opened() as outside:

        def published() -> dict[int, str | None]:
            rows = outside.load_table(NAME).scan().to_arrow().to_pylist()
            return {row["id"]: row["name"] for row in rows}

        wanted = {0: "row 0", 1: "changed", 2: "row 2", 3: None}
        # Merged files take the place of logs at the next publication.
        lake.cluster.wait_until(
            lambda: published() == wanted, f"readers find {wanted}", timeout_s=120
        )
    said = catalog.log()
    assert f"POST /v1/namespaces/travel/tables/{NAME.rpartition('.')[2]}" in said, said
    # The token stays in its Secret.
    token = lake.cluster.get("Secret", CREDENTIALS, lake.namespace)
    assert token is not None
    assert catalog.token not in json.dumps(lake.get("people"))
    assert catalog.token not in json.dumps(lake.jobs("people"))


def test_rows_are_erased_from_a_table_that_the_operator_keeps(lake: Lake) -> None:
    lake.land("people", "a", some_rows(3))
    lake.land("people", "theirs", [{"id": 9, "ts": 1, "name": ERASED}])
    lake.apply_table("people", **QUICK)
    lake.wait_for_ids("people", [0, 1, 2, 9])
    lake.patch("people", {"fenced": True})
    lake.wait_for("people", "Ingesting", "False", reason="Fenced")
    table, landing = (f"s3://{lake.bucket}/{path}" for path in ("people", "landing/people"))
    said = tideline(
        lake, "erase", table, "--where", f"name = '{ERASED}'", "--prove", "--yes", "--allow-http",
        "--landing", landing, "--delete-landing-files",
    )  # fmt: skip
    assert "Deleted 1 row" in said, said
    for path in [*lake.paths("people/"), *lake.paths("landing/people/")]:
        body = lake.minio.client().get_object(lake.bucket, path).read()
        assert ERASED.encode() not in body, path
    lake.patch("people", {"fenced": False})
    lake.land("people", "b", [{"id": 5, "ts": 1, "name": "after"}])
    assert sorted(lake.wait_for_ids("people", [0, 1, 2, 5])) == [0, 1, 2, 5]


def tideline(lake: Lake, *words: str) -> str:
    """What a command prints that ends well, outside the cluster."""
    done = subprocess.run(
        [sys.executable, "-m", "tideline", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **lake.minio.environment()},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
