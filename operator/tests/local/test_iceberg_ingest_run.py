"""`tideline run` takes files into an Iceberg table, and maintains it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import tideline
from tideline_operator.local.reconciler import SET_ASIDE
from tideline_operator.testing.local_run import run_apart

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: orders}
spec:
  format: Iceberg
  location: table
  recordKey: [id]
  ordering: [n]
  partitionBy: ["bucket(2, id)"]
  services: {rewriteDataFiles: {minInputFiles: 3}}
  ingest:
  - name: landing
    source: {format: FORMAT, path: landing}
    operation: OPERATION
    maxFilesPerCommit: 1
    onBadRow: Quarantine
    trigger: {every: 1h}
"""


class Workspace:
    """A folder with a resource, and a landing folder."""

    def __init__(
        self, folder: Path, file_format: str, operation: str = "insert", more: str = ""
    ) -> None:
        self.folder = folder
        yaml = YAML.replace("FORMAT", file_format).replace("OPERATION", operation)
        (folder / "orders.yaml").write_text(yaml + more)
        (folder / "landing").mkdir()

    def land(self, name: str, content: str | pa.Table, at_s: int) -> None:
        path = self.folder / "landing" / name
        if isinstance(content, str):
            path.write_text(content)
        else:
            pq.write_table(content, path)
        os.utime(path, (at_s, at_s))

    def run(self, *options: str, code: int = 0) -> list[dict[str, Any]]:
        """The events."""
        return run_apart(self.folder, "orders.yaml", *options, code=code)

    def ids(self) -> list[Any]:
        table = tideline.open_iceberg(str(self.folder / "table"))
        return sorted(table.to_arrow(["id"])["id"].to_pylist())

    def rows(self) -> list[tuple[Any, ...]]:
        table = tideline.open_iceberg(str(self.folder / "table"))
        return sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist())

    def status(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.folder / ".tideline/default.orders.status.json").read_text()
        )
        return dict(content["status"])


def test_files_go_in_and_small_ones_are_rewritten(tmp_path: Path) -> None:
    space = Workspace(tmp_path, "parquet")
    for number in range(3):
        space.land(f"{number}.parquet", pa.table({"id": [2 * number, 2 * number + 1]}), number + 1)
    space.run("--dry-run")
    assert not (tmp_path / "table").exists()
    space.run()
    assert space.ids() == [*range(6)]
    table = tideline.open_iceberg(str(tmp_path / "table"))
    operations = [snapshot.operation for snapshot in table.snapshots]
    assert operations == ["append"] * 3 + ["replace"]
    status = space.status()["ingest"]["landing"]
    assert status["checkpoint"] == "generation 3 up to 2.parquet"
    space.land("3.parquet", pa.table({"id": [6], "more": ["x"]}), 9)
    (tmp_path / ".tideline/default.orders.status.json").unlink()
    space.run()
    assert space.ids() == [*range(7)]


def test_the_flights_differ_in_what_is_about_hudi_tables_alone() -> None:
    found = []
    for name in ("flights/laketable.yaml", "iceberg/flights.yaml"):
        (document,) = yaml.safe_load_all((EXAMPLES / name).read_text())
        own = ("format", "location", "type", "properties", "services")
        found.append({key: value for key, value in document["spec"].items() if key not in own})
    assert found[0] == found[1]


def test_rows_are_replaced_and_deleted_and_services_run_beside(tmp_path: Path) -> None:
    space = Workspace(tmp_path, "parquet", "upsert")
    flag = "_hoodie_is_deleted"
    space.land("0.parquet", pa.table({"id": [1, 2, 3, 4], "n": [1, 1, 5, 1]}), 1)
    changes = {"id": [1, 2, 3, 5], "n": [2, 2, 4, 1], flag: [False, True, True, False]}
    space.land("1.parquet", pa.table(changes), 2)
    space.land("2.parquet", pa.table({"id": [4, 6], "n": [0, 1]}), 3)
    space.run()
    assert space.rows() == [(1, 2), (3, 5), (4, 1), (5, 1), (6, 1)]
    table = tideline.open_iceberg(str(tmp_path / "table"))
    assert table.schema.names == ["id", "n"]
    space.run()
    assert space.rows() == [(1, 2), (3, 5), (4, 1), (5, 1), (6, 1)]
    space.land("3.parquet", pa.table({"id": [6], "n": [2], "more": ["x"]}), 9)
    (tmp_path / ".tideline/default.orders.status.json").unlink()
    space.run()
    assert space.rows()[-1] == (6, 2)
    assert space.status()["ingest"]["landing"]["checkpoint"] == "generation 4 up to 3.parquet"


@pytest.mark.slow
@pytest.mark.spark
def test_changes_in_text_that_do_not_fit_are_set_aside(tmp_path: Path) -> None:
    space = Workspace(tmp_path, "csv", "upsert", "    deleteWhen: \"state = 'gone'\"\n")
    space.land("a.csv", "id,n,state\n1,1,a\n2,2,a\n3,3,a\n", 1)
    space.run()
    # Of a delete the key is enough; what is left needs an order.
    space.land("b.csv", "id,n,state\n1,,gone\n2,,a\n,5,a\n3,4,b\n2,1,b\n", 2)
    space.run(code=SET_ASIDE)
    assert space.rows() == [("2", 2), ("3", 4)]
    kept = next((tmp_path / "landing/_quarantine").glob("b.*")).read_text().splitlines()
    assert sorted(json.loads(row)["reason"] for row in kept) == [
        "it has no value, and the table requires one",
        "the ordering value is null",
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_rows_of_text_that_do_not_fit_are_set_aside(tmp_path: Path) -> None:
    space = Workspace(tmp_path, "csv")
    space.land("a.csv", "id,n\n1,1\n2,2\n", 1)
    space.run()
    space.land("b.csv", "id,n\n3,3\nx,4\n,5\n", 2)
    space.land("c.csv", "n\n6\n", 3)
    space.run(code=SET_ASIDE)
    assert space.ids() == ["1", "2", "3", "x"]
    kept = sorted(path.name for path in (tmp_path / "landing/_quarantine").iterdir())
    assert [name.split(".")[0] for name in kept] == ["b", "c"]
    (row,) = next((tmp_path / "landing/_quarantine").glob("b.*")).read_text().splitlines()
    assert json.loads(row)["reason"] == "it has no value, and the table requires one"
