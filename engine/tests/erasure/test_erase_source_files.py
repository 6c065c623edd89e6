"""Erasing rows from landing prefixes: which source files hold them, and what is deleted of them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.cli.main import run
from tideline.erasure import source_files as erasure_files
from tideline.erasure.report import LandingSearch
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.location import Location
from tideline.ingest.sources.set_aside import keep_bad_rows
from tideline.spark.session.connector_jars import install_jars
from tideline.spark.session.connectors import S3A
from tideline.storage.location import StoreLocation
from tideline.testing.written_table import WrittenTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("who", pa.string()), ("v", pa.int64())])
PERSON = "zaphod@example.org"
WHERE = f"who = '{PERSON}'"

ON_S3 = """
import io, json, sys
import pyarrow as pa, pyarrow.parquet as pq
import tideline
from tideline.storage.location import StoreLocation

uri, endpoint = sys.argv[1:]
options = {"endpoint": endpoint, "allow_http": "true"}
rows = pa.table({"id": [1], "who": ["zaphod"], "v": [1]})
lake = tideline.create(uri, record_key=["id"], schema=rows.schema, storage_options=options)
lake.write(rows, "insert")
place = StoreLocation.of(uri + "-landing", options)
store, body = place.open(), io.BytesIO()
pq.write_table(rows, body)
store.put("a folder/x.parquet", body.getvalue())
store.put("y.csv", b"id,who,v\\n1,zaphod,1\\n")
done = lake.erase("who = 'zaphod'", landing=place.uri, delete_landing_files=True)
lake.write(rows, "insert")
spark = tideline.spark_session()
net = lake.incremental(spark, done.deleted_at, deletes=True).select("_change_type", "id").collect()
print(json.dumps({
    "held": {file.path: file.rows for file in done.landing[0].holding},
    "complete": done.is_complete,
    "left": [info.path for info in store.list()],
    "net": [list(row) for row in net],
}))
"""


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    made = WrittenTable.create(spark, tmp_path / "t", SCHEMA, ordering=["v"])
    made.write([(1, PERSON, 1), (2, "ford", 1)])
    return made


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """The person is in a file of each format, in a record set aside, and in what is not read."""
    folder = tmp_path / "landing"
    rows = [{"id": 1, "who": PERSON, "v": 1}, {"id": 2, "who": "ford", "v": 1}]
    for name in ("2024/a.parquet", "_old/b.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / name)
    pq.write_table(pa.Table.from_pylist(rows[1:], SCHEMA), folder / "2024/ford.parquet")
    (folder / "c.csv").write_text(f"id,WHO,v\n1,{PERSON},1\n3,{PERSON},1\n2,ford,1\n")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "d.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    quarantine = folder / "_quarantine"
    quarantine.mkdir()
    (quarantine / "c.csv.0123456789abcdef.json").write_text('{"file": "c.csv"}')
    aside = [{"file": "e.parquet", "record": json.dumps(row)} for row in rows]
    (quarantine / "e.parquet.0123456789abcdef.2.rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in aside)
    )
    (folder / "_SUCCESS").write_text("")
    return folder


HELD = {
    "2024/a.parquet": 1,
    "_old/b.parquet": 1,
    "c.csv": 2,
    "d.jsonl.gz": 1,
    "_quarantine/e.parquet.0123456789abcdef.2.rows.jsonl": 1,
}


def held(search: LandingSearch) -> dict[str, int]:
    return {file.path: file.rows for file in search.holding}


def test_files_that_hold_rows_are_named_and_kept(table: WrittenTable, landing: Path) -> None:
    before = sorted(landing.rglob("*"))
    done = table.lake.erase(WHERE, prove=True, landing=str(landing))
    (search,) = done.landing
    assert held(search) == HELD
    assert (search.unread, search.deleted, search.files_read) == ((), (), 6)
    assert not done.is_complete
    assert done.after is not None and done.after.is_clean
    assert sorted(landing.rglob("*")) == before
    assert not any("landing" in place for place in done.not_reached)


def test_they_are_deleted_whole_where_that_is_asked_for(table: WrittenTable, landing: Path) -> None:
    preview = table.lake.erase(WHERE, landing=[str(landing)], delete_landing_files=True,
                               dry_run=True)  # fmt: skip
    assert held(preview.landing[0]) == HELD and (landing / "c.csv").exists()
    done = table.lake.erase(WHERE, landing=[str(landing)], delete_landing_files=True)
    assert done.is_complete
    assert set(done.landing[0].deleted) == set(HELD)
    left = {str(path.relative_to(landing)) for path in landing.rglob("*") if path.is_file()}
    assert left == {"2024/ford.parquet", "_SUCCESS"}
    again = table.lake.erase(WHERE, landing=str(landing), delete_landing_files=True)
    assert again.is_complete and again.landing[0].rows == 0


def test_what_cannot_be_counted_is_named(table: WrittenTable, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    (folder / "_quarantine").mkdir(parents=True)
    (folder / "broken.parquet").write_text("no Parquet")
    (folder / "letter.pdf").write_text(PERSON)
    (folder / "_hidden.csv").write_text(f"id,who,v\n1,{PERSON},1\n")
    (folder / "bad.csv").write_text(f"id,who,v\n1,{PERSON},1\n{PERSON}\n")
    (folder / "other.csv").write_text(f"id,name\n1,{PERSON}\n")
    aside = {"file": "bad.csv", "record": f"{PERSON}"}
    aside_path = folder / "_quarantine/bad.csv.0123456789abcdef.1.rows.jsonl"
    aside_path.write_text(json.dumps(aside) + "\n")
    inner = folder / "inner/.hoodie"
    inner.mkdir(parents=True)
    (inner / "hoodie.properties").write_text("x=y")
    search = table.lake.erase(WHERE, landing=str(folder), dry_run=True).landing[0]
    reasons = {file.path: file.reason for file in search.unread}
    assert set(reasons) == {
        "_hidden.csv",
        "_quarantine/bad.csv.0123456789abcdef.1.rows.jsonl",
        "bad.csv",
        "broken.parquet",
        "inner",
        "letter.pdf",
        "other.csv",
    }
    assert reasons["bad.csv"] == "1 row that cannot be read"
    assert "a column that it lacks" in reasons["other.csv"]
    assert held(search) == {"bad.csv": 1}


@pytest.mark.parametrize("below", ["t", "t/day=1", "i", "i/data"])
def test_no_folder_of_a_table_is_a_landing_prefix(
    table: WrittenTable, landing: Path, tmp_path: Path, below: str
) -> None:
    """Files of a table would go, whole."""
    rows = pa.Table.from_pylist([{"id": 1, "who": PERSON, "v": 1}], SCHEMA)
    for file in ("t/day=1/1.parquet", "i/data/1.parquet", "i/metadata/v1.metadata.json"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, tmp_path / file)
    with pytest.raises(ConfigError, match=r"in the (Hudi|Iceberg) table at .*/[ti], and no"):
        places = [str(landing), str(tmp_path / below)]
        table.lake.erase(WHERE, landing=places, delete_landing_files=True)
    assert (tmp_path / "t/day=1/1.parquet").exists() and (tmp_path / "i/data/1.parquet").exists()
    assert (landing / "c.csv").exists()
    assert table.lake.to_arrow(filter=WHERE).num_rows == 1


def test_rows_that_were_set_aside_from_streams_are_searched(
    table: WrittenTable, tmp_path: Path
) -> None:
    person = {"id": "one", "who": PERSON, "v": 1}
    records: dict[str, list[dict[str, Any]]] = {
        "people-0/00000000000000000005-00000000000000000009.jsonl": [person, {"who": "ford"}],
        "people-1/00000000000000000000-00000000000000000001.jsonl": [
            {"payload": {"op": "u", "before": person, "after": {"who": "ford"}}}
        ],
        "public.people/00000000000000ff.jsonl": [{"op": "c", "after": person}],
        "public.people/00000000000000ff-unseen.jsonl": [{"data": [person], "old": None}],
        "public.people/copy-0123456789abcdef.jsonl": [person],
        "public.people/copy-0123456789abcdee.jsonl": [{"who": "ford"}],
    }
    broken = "people-0/00000000000000000020-00000000000000000021.jsonl"
    folder = Location(f"file://{tmp_path}/aside")
    for path, rows in records.items():
        kept = [{"reason": "no number", "record": json.dumps(row)} for row in rows]
        keep_bad_rows(folder, path, kept)
    keep_bad_rows(folder, broken, [{"reason": "no JSON", "record": f'{{"who": "{PERSON}'}])
    (search,) = table.lake.erase(WHERE, landing=f"{tmp_path}/aside", dry_run=True).landing
    names = list(records)
    assert held(search) == dict.fromkeys(names[:5], 1)
    assert [file.path for file in search.unread] == [broken]
    assert search.files_read == 7


def test_a_file_that_was_replaced_since_it_was_read_stays(
    table: WrittenTable, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = erasure_files.search_landing

    def replaced(*arguments: Any) -> LandingSearch:
        found = read(*arguments)
        (landing / "c.csv").write_text("id,who,v\n4,trillian,1\n")
        return found

    monkeypatch.setattr("tideline.erasure.source_files.search_landing", replaced)
    done = table.lake.erase(WHERE, landing=str(landing), delete_landing_files=True)
    (search,) = done.landing
    assert set(search.deleted) == set(HELD) - {"c.csv"}
    assert [file.path for file in search.unread] == ["c.csv"]
    assert not done.is_complete
    assert (landing / "c.csv").exists()


def test_the_command_says_what_it_deleted(
    table: WrittenTable, landing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["erase", str(table.folder), "--where", WHERE]
    assert run([*arguments, "--delete-landing-files"]) == 2
    assert run([*arguments, "--landing", str(landing), "--yes"]) == 1
    assert "c.csv  2 rows\n" in capsys.readouterr().out
    assert run([*arguments, "--landing", str(landing), "--delete-landing-files", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "6 rows in 5 files, of 6 read" in shown
    assert "c.csv  2 rows, deleted\n" in shown


@pytest.mark.slow
@pytest.mark.minio
def test_a_landing_prefix_on_s3(s3_location: StoreLocation) -> None:
    """In a process of its own: the session of tests cannot read from S3."""
    ask_s3a_jars()
    endpoint = dict(s3_location.options)["endpoint"]
    arguments = [sys.executable, "-c", ON_S3, s3_location.uri, endpoint]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "held": {"a folder/x.parquet": 1, "y.csv": 1},
        "complete": True,
        "left": [],
        "net": [["INSERT", 1]],
    }


def ask_s3a_jars() -> None:
    try:
        install_jars(S3A)
    except StorageUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the S3A jars cannot be downloaded: {error.message}")
