"""What `tideline init` writes, `tideline run` takes, and gives the rows of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.cli.main import run
from tideline.storage.location import StoreLocation

WAIT_S = 600.0


def init(folder: Path) -> Path:
    """A LakeTable next to the landing folder; the table is beside it."""
    assert run(["init", str(folder / "landing"), "-o", str(folder / "laketable.yaml")]) == 0
    return folder / "laketable.yaml"


def reconcile(*files: Path) -> None:
    """In a process of its own, as people start it."""
    named = [word for file in files for word in ("-f", str(file))]
    state = ["--state", str(files[0].parent / ".tideline")]
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "run", "--once", *named, *state],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "set aside" not in done.stdout + done.stderr


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = tideline.open(str(folder / "table")).to_arrow().to_pylist()
    own = [{name: row[name] for name in row if not name.startswith("_hoodie_")} for row in rows]
    return sorted(own, key=lambda row: str(row[next(iter(row))]))


def landed(tmp_path: Path, name: str, file: str, content: bytes) -> Path:
    folder = tmp_path / name
    (folder / "landing").mkdir(parents=True)
    (folder / "landing" / file).write_bytes(content)
    return folder


def test_parquet(tmp_path: Path) -> None:
    folder = landed(tmp_path, "people", "1.parquet", b"")
    table = pa.table({"id": [1, 2], "name": ["x", None], "day": [date(2024, 5, 1)] * 2})
    pq.write_table(table, folder / "landing/1.parquet")
    reconcile(init(folder))
    assert rows_of(folder) == table.to_pylist()


@pytest.mark.slow
def test_texts_of_every_form(tmp_path: Path) -> None:
    at = datetime(2024, 5, 1, 10, tzinfo=UTC)
    spaced = "Order ID;Größe (cm);Bought at;x\n1;1.5;2024-05-01 10:00:00;NA\n2;;2024-05-01;7\n"
    records: list[dict[str, Any]] = [
        {
            "id": 1,
            "who": {"age": 3, "tags": ["a"]},
            "at": "2024-05-01T10:00:00Z",
            "odd": {"a b": 1},
        },
        {"id": 2, "at": "2024-05-01T12:00:00+02:00", "odd": None, "who": None},
    ]
    as_read: list[dict[str, Any]] = [
        {"id": 1, "who": {"age": 3, "tags": ["a"]}, "at": at, "odd": {"a b": 1}},
        {"id": 2, "who": None, "at": at, "odd": None},
    ]
    plain = 'id,zip,note,ok\r\n1,01067,"a\nb; ""c""",true\r\n2,04109,,false\r\n'
    expected: dict[str, tuple[Path, list[dict[str, Any]]]] = {
        "plain": (
            landed(tmp_path, "plain", "1.csv", b"\xef\xbb\xbf" + plain.encode()),
            [
                {"id": 1, "zip": "01067", "note": 'a\nb; "c"', "ok": True},
                {"id": 2, "zip": "04109", "note": None, "ok": False},
            ],
        ),
        "spaced": (
            landed(tmp_path, "spaced", "1.csv", spaced.encode("latin-1")),
            [
                {"order_id": 1, "groesse_cm": 1.5, "bought_at": at, "x": None},
                {"order_id": 2, "groesse_cm": None, "bought_at": at.replace(hour=0), "x": 7},
            ],
        ),
        "unnamed": (
            landed(tmp_path, "unnamed", "1.csv", b"1|x|2024-05-01\n2|y|2024-05-02\n"),
            [
                {"column_1": 1, "column_2": "x", "column_3": date(2024, 5, 1)},
                {"column_1": 2, "column_2": "y", "column_3": date(2024, 5, 2)},
            ],
        ),
        "lines": (
            landed(tmp_path, "lines", "1.jsonl", "\n".join(map(json.dumps, records)).encode()),
            as_read,
        ),
        "list": (
            landed(tmp_path, "list", "1.json", json.dumps(records, indent=1).encode()),
            as_read,
        ),
        "spaced_json": (
            landed(tmp_path, "spaced_json", "1.json", b'{"order id": "7", "b": {"c": 1}}\n'),
            [{"order_id": "7", "b": {"c": 1}}],
        ),
    }
    folder = landed(tmp_path, "spaced_parquet", "1.parquet", b"")
    pq.write_table(pa.table({"order id": [7], "b": ["c"]}), folder / "landing/1.parquet")
    expected["spaced_parquet"] = folder, [{"order_id": 7, "b": "c"}]
    reconcile(*[init(folder) for folder, _ in expected.values()])
    found = {name: rows_of(folder) for name, (folder, _) in expected.items()}
    for row in (*found["lines"], *found["list"]):
        # Text: as it is in the file, or as Spark spells it.
        row["odd"] = json.loads(row["odd"]) if row["odd"] else None
    assert found == {name: rows for name, (_, rows) in expected.items()}


@pytest.mark.minio
@pytest.mark.spark
@pytest.mark.slow
def test_files_in_a_bucket(s3_location: StoreLocation, tmp_path: Path) -> None:
    """The table beside them, reached through the LakeStore that is written with it."""
    root = s3_location.uri.removesuffix("/table")
    options = dict(s3_location.options)
    landing = StoreLocation.of(f"{root}/landing", options).open()
    landing.put("1.csv", b"id;name\n1;x\n2;y\n")
    file = tmp_path / "laketable.yaml"
    given = ["--endpoint", options["endpoint"], "--allow-http", "-o", str(file)]
    assert run(["init", f"{root}/landing", *given]) == 0
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    assert secret and secret not in file.read_text()
    reconcile(file)
    rows = tideline.open(s3_location.uri, storage_options=options).to_pandas(["id", "name"])
    assert sorted(rows.itertuples(index=False, name=None)) == [(1, "x"), (2, "y")]
