"""`tideline init`: what it finds in files, what it asks, what it refuses. That a run takes what it
writes is tested with `tideline run`."""

from __future__ import annotations

import gzip
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tideline.cli.main import run
from tideline.ingest.proposal.lake_table_text import lake_table_text
from tideline.ingest.proposal.places import names_of
from tideline.ingest.proposal.proposal import propose
from tideline.ingest.proposal.sample import read_sample
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "orders" / "landing"
    folder.mkdir(parents=True)
    return folder


def written(*options: str) -> dict[str, Any]:
    assert run(["init", "orders/landing", *options]) == 0
    return spec_of(Path("laketable.yaml"))


def spec_of(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text("utf-8"))
    spec: dict[str, Any] = document["spec"]
    return spec


def source_of(spec: dict[str, Any]) -> dict[str, Any]:
    source: dict[str, Any] = spec["ingest"][0]["source"]
    return source


def types_of(columns: Sequence[dict[str, str]]) -> dict[str, str]:
    return {column["name"]: column["type"] for column in columns}


def test_a_csv_with_semicolons_in_latin_1(landing: Path) -> None:
    text = "id;name;amount;day;at;open;zip\n"
    text += "1;Müller;10.5;2024-05-01;2024-05-01 10:00:00;true;01067\n"
    text += "2;Größe;;2024-05-02;2024-05-01T10:00:01Z;false;04109\n"
    (landing / "1.csv").write_bytes(text.encode("latin-1"))
    spec = written()
    assert source_of(spec)["options"] == {"sep": ";", "encoding": "ISO-8859-1"}
    assert types_of(spec["schema"]) == {
        "id": "long",
        "name": "string",
        "amount": "double",
        "day": "date",
        "at": "timestamp",
        "open": "boolean",
        "zip": "string",
    }
    assert (spec["recordKey"], spec["ordering"]) == (["id"], ["at"])
    assert (spec["location"], source_of(spec)["path"]) == ("orders/table", "orders/landing")
    assert "such as Müller and Größe" in Path("laketable.yaml").read_text("utf-8")


def test_names_with_spaces_get_a_transform(landing: Path) -> None:
    (landing / "1.csv").write_text("Order ID,Größe (cm),a`b\n1,2,3\n", "utf-8")
    spec = written()
    assert types_of(source_of(spec)["schema"]) == dict.fromkeys(
        ("Order ID", "Größe (cm)", "a`b"), "long"
    )
    assert "schema" not in spec
    assert spec["recordKey"] == ["order_id"]
    transform = spec["ingest"][0]["transform"]
    assert "`Größe (cm)` AS groesse_cm," in transform
    assert "`a``b` AS a_b," in transform
    assert "_tideline_sequence" in transform


def test_names_that_become_one_are_numbered(landing: Path) -> None:
    (landing / "1.csv").write_text("id,a b,a-b,a_b\n1,x,y,z\n")
    transform = written()["ingest"][0]["transform"]
    assert "`a b` AS a_b," in transform
    assert "`a-b` AS a_b_2," in transform
    assert "`a_b` AS a_b_3," in transform


def test_a_file_without_a_header_line(landing: Path) -> None:
    (landing / "1.csv").write_text("1|x|2024-05-01\n2|y|2024-05-02\n")
    spec = written()
    assert source_of(spec)["options"] == {"sep": "|", "header": "false"}
    assert types_of(source_of(spec)["schema"]) == {
        "column_1": "long",
        "column_2": "string",
        "column_3": "date",
    }
    assert "CONFIRM: the first line is a row" in Path("laketable.yaml").read_text()


def test_json_by_lines_and_as_one_list(landing: Path) -> None:
    rows = [
        {"id": 1, "who": {"age": 3, "tags": ["a"]}, "at": "2024-05-01T10:00:00Z", "code": "7"},
        {"id": 2, "at": "2024-05-01T10:00:01.5+02:00", "odd": {"a b": 1}, "code": "08"},
    ]
    (landing / "1.jsonl").write_text("\n".join(map(json.dumps, rows)))
    spec = written()
    assert types_of(spec["schema"]) == {
        "id": "long",
        "who": "struct<age:long,tags:array<string>>",
        "at": "timestamp",
        "code": "string",
        "odd": "string",
    }
    assert "options" not in source_of(spec)
    (landing / "1.jsonl").write_text(json.dumps(rows, indent=2))
    as_list = written("--force")
    assert as_list["schema"] == spec["schema"]
    assert source_of(as_list)["options"] == {"multiLine": "true"}


def test_parquet_says_its_own_types(landing: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "x": pa.array([1.5, None])}), landing / "1.parquet")
    spec = written()
    assert "schema" not in spec
    assert spec["recordKey"] == ["id"]
    assert "#   x: double\n" in Path("laketable.yaml").read_text()


def test_a_word_for_missing_values_is_found(landing: Path) -> None:
    (landing / "1.csv").write_text("id,delay\n1,NA\n2,5\n")
    spec = written()
    assert source_of(spec)["options"] == {"nullValue": "NA"}
    assert types_of(spec["schema"])["delay"] == "long"
    # Where another column has it as a text, it is one: NA is Namibia.
    (landing / "1.csv").write_text("id,delay,country\n1,NA,NA\n2,5,DE\n")
    spec = written("--force")
    assert "options" not in source_of(spec)
    assert types_of(spec["schema"])["delay"] == "string"


@pytest.mark.parametrize(
    ("values", "kind", "doubt"),
    [
        (("007", "12"), "string", "leading zeros"),
        (("1e3", "5"), "string", ""),
        (("1.25e-3", "5"), "double", ""),
        (("12345678901234567890", "1"), "string", "a number would not give back"),
        (("0.1234567890123456789", "1"), "string", ""),
        (("1.234,50", "0,10"), "string", "decimal comma"),
        (("31.12.2024", "01.01.2025"), "string", "dateFormat"),
        (("2023-02-29", "2024-01-01"), "string", ""),
        (("2024-05-01", "2024-05-01 10:00"), "timestamp", ""),
        (("1", "2", "n/a?"), "string", "2 values of 3 are numbers, others are such as n/a?"),
        (("12.50", "3.00"), "double", "decimal(12,2)"),
        (("", ""), "string", "no value"),
    ],
)
def test_types_change_no_value(landing: Path, values: Sequence[str], kind: str, doubt: str) -> None:
    lines = [f'{number},"{value}"' for number, value in enumerate(values)]
    (landing / "1.csv").write_text("\n".join(["id,v", *lines]))
    assert types_of(written("--option", "sep=,")["schema"])["v"] == kind
    text = Path("laketable.yaml").read_text()
    assert doubt in text
    assert ("CONFIRM: only" in text, "v, type" in text) == (True, True)


def test_the_key_is_proposed_with_what_was_counted(landing: Path) -> None:
    rows = [(number, f"n{number % 3}", f"2024-01-0{number % 5 + 1}") for number in range(10)]
    text = "n,name,day,order_id\n" + "".join(f"{n},{a},{d},o{n}\n" for n, a, d in rows)
    (landing / "1.csv").write_text(text)
    assert written()["recordKey"] == ["order_id"]
    assert "order_id is unique in the 10 rows read" in Path("laketable.yaml").read_text()


def test_versions_of_a_row_are_no_rows_of_their_own(landing: Path) -> None:
    lines = [f"{number},2024-01-01 10:0{version}:00" for number in (1, 2) for version in (0, 1, 2)]
    (landing / "1.csv").write_text("\n".join(["order_id,updated_at", *lines]))
    spec = written()
    assert (spec["recordKey"], spec["ordering"]) == (["order_id"], ["updated_at"])
    text = Path("laketable.yaml").read_text()
    assert "order_id has 2 values in the 6 rows read: 4 would replace an earlier one" in text
    assert "updated_at is never empty, and differs wherever order_id repeats" in text
    # Readings of a sensor have a time as well.
    (landing / "1.csv").write_text("\n".join(["sensor_id,measured_at", *lines]))
    spec = written("--force")
    assert spec["recordKey"] == ["sensor_id", "measured_at"]


def test_without_a_key_it_says_what_it_counted(
    landing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (landing / "1.csv").write_text("id,x\n1,2\n1,2\n")
    assert run(["init", "orders/landing"]) == 2
    error = capsys.readouterr().err
    assert "id has 1 value in the 2 rows read: 1 would replace an earlier one" in error
    assert "--record-key" in error
    assert not Path("laketable.yaml").exists()
    assert written("--record-key", "id")["recordKey"] == ["id"]


def test_what_a_person_names_stands(landing: Path) -> None:
    (landing / "1.csv").write_text("id,a b,updated_at,day\n1,2,2024-01-01 10:00:00,2024-01-01\n")
    spec = written(
        *("--record-key", "a_b", "--ordering", "", "--partition-by", "day", "--name", "Mine"),
        *("--type", "a b=decimal(9,2)", "--location", "elsewhere", "--option", "mode=PERMISSIVE"),
    )
    assert (spec["recordKey"], spec["partitionBy"], "ordering" in spec) == (["a_b"], ["day"], False)
    assert spec["location"] == "elsewhere"
    assert types_of(source_of(spec)["schema"])["a b"] == "decimal(9,2)"
    assert source_of(spec)["options"] == {"mode": "PERMISSIVE"}
    assert yaml.safe_load(Path("laketable.yaml").read_text())["metadata"] == {"name": "mine"}


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ({}, [], "no file to take in"),
        ({"1.txt": b"id\n1\n"}, [], "1 file named *.txt"),
        ({"1.csv": b"id\n1\n", "1.json": b"{}"}, [], "1 file of csv and 1 file of json"),
        ({"1.csv": b"id,n\n1,\x80\n"}, [], "iconv -f WINDOWS-1252 -t UTF-8"),
        ({"1.csv": b"\xff\xfei\x00"}, [], "it is UTF-16"),
        ({"1.csv": b"id\n\xe9\n", "2.csv": b"id\n\xc3\xa9\n"}, [], "1.csv is not UTF-8 and 2.csv"),
        ({"1.csv": b"id,id\n1,1\n"}, [], "names a column twice"),
        ({"1.json": b'{"id":\n 1}\n'}, [], "line 1 is no JSON object: one object a line"),
        ({"1.json": b"[{}]", "2.json": b"{}"}, [], "1.json holds one list and 2.json"),
        ({"1.csv": b"id\n1\n"}, ["--record-key", "ID2"], "there is no column ID2; there are id"),
        ({"1.csv": b"id\n1\n"}, ["--type", "id=number"], "'number' is not a column type"),
        ({"1.csv": b"id\n1\n"}, ["--location", "orders"], "need folders apart"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    landing: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, bytes],
    options: list[str],
    said: str,
) -> None:
    for name, content in files.items():
        (landing / name).write_bytes(content)
        os.utime(landing / name, (1, 1))
    assert run(["init", "orders/landing", *options]) in (1, 2)
    assert said in capsys.readouterr().err
    assert not Path("laketable.yaml").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "no such folder"),
        ("ftp://lake/landing", "unknown storage scheme"),
        ("s3://key:secret@lake/landing", "credentials do not belong in a s3:// URI"),
        ("memory://lake-of-none/landing", "no file to take in"),
    ],
)
def test_what_is_no_folder_here_is_refused(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", name]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def bucket() -> Iterator[MemoryStore]:
    """In memory; what is in it is read as in S3."""
    unique = f"lake-{secrets.token_hex(8)}"
    yield MemoryStore(unique)
    MemoryStore.forget(unique)


def test_a_prefix_in_a_bucket(landing: Path, bucket: MemoryStore) -> None:
    bucket.put("orders/landing/1.csv.gz", gzip.compress(b"id;day\n1;2024-05-01\n2;2024-05-02\n"))
    assert run(["init", f"{bucket.uri}/orders/landing"]) == 0
    spec = spec_of(Path("laketable.yaml"))
    assert spec["location"] == f"{bucket.uri}/orders/table"
    assert source_of(spec)["path"] == f"{bucket.uri}/orders/landing"
    assert source_of(spec)["options"] == {"sep": ";"}
    assert types_of(spec["schema"]) == {"id": "long", "day": "date"}
    assert yaml.safe_load(Path("laketable.yaml").read_text())["metadata"] == {"name": "orders"}
    assert [found.path for found in bucket.list()] == ["orders/landing/1.csv.gz"]
    assert landing.is_dir()


def test_places_in_a_bucket_that_are_taken_are_refused(
    landing: Path, bucket: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("landing/1.csv", b"id\n1\n")
    bucket.put("table/x", b"")
    for options, said in [
        ([f"{bucket.uri}/landing"], "the table's folder is not empty"),
        ([f"{bucket.uri}/landing", "--location", f"{bucket.uri}/landing/t"], "need folders apart"),
        ([bucket.uri], "the files lie in the whole bucket"),
    ]:
        assert run(["init", *options]) == 2
        assert said in capsys.readouterr().err
    (landing / "1.csv").write_text("id\n1\n")
    assert run(["init", "orders/landing", "--location", f"{bucket.uri}/t"]) == 0
    spec = spec_of(Path("laketable.yaml"))
    assert (spec["location"], source_of(spec)["path"]) == (f"{bucket.uri}/t", "orders/landing")


@pytest.mark.parametrize(
    ("landing_uri", "location", "is_of_table"),
    [("s3://lake/in", None, True), ("s3://lake/in", "table", False), ("x", "s3://lake/t", True)],
)
def test_what_is_in_s3_gets_a_store(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    landing_uri: str,
    location: str | None,
    is_of_table: bool,
) -> None:
    monkeypatch.setattr("tideline.ingest.proposal.places._is_taken", lambda _: False)
    (tmp_path / "1.csv").write_text("id\n1\n")
    store = StoreLocation.of(tmp_path).open()
    landing = list_arrived(store, FileFormat.CSV)
    proposal = propose(read_sample(store, landing, FileFormat.CSV, {}), {}).with_keys(("id",), ())
    options = {"endpoint": "https://minio.example:9000", "region": "1e3", "path_style": "false"}
    place = StoreLocation.of(landing_uri, options)
    names = names_of(place, tmp_path / "laketable.yaml", options, location=location)
    table, lake_store = yaml.safe_load_all(lake_table_text(proposal, names))
    assert (table["spec"].get("storeRef") == "store") is is_of_table
    assert ("storeRef" in source_of(table["spec"])) is not is_of_table
    assert lake_store["kind"] == "LakeStore"
    spec = {"endpoint": "https://minio.example:9000", "region": "1e3", "pathStyle": False}
    assert lake_store["spec"] == spec


def test_a_file_that_exists_is_kept(landing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (landing / "1.csv").write_text("id\n1\n")
    Path("laketable.yaml").write_text("mine")
    assert run(["init", "orders/landing"]) == 2
    assert "give --force" in capsys.readouterr().err
    assert Path("laketable.yaml").read_text() == "mine"


def test_a_dry_run_prints_the_file(landing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (landing / "1.csv").write_text("id\n1\n")
    assert run(["init", "orders/landing", "--dry-run"]) == 0
    assert not Path("laketable.yaml").exists()
    text = capsys.readouterr().out.partition("would be:\n\n")[2]
    written()
    assert text == Path("laketable.yaml").read_text()


def test_of_many_files_some_are_read_and_it_says_so(
    landing: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.ingest.proposal.sample.FILES_MAX", 3)
    for number in range(9):
        (landing / f"{number}.csv").write_text(f"id\n{number}\n")
        os.utime(landing / f"{number}.csv", (number + 1, number + 1))
    assert run(["init", "orders/landing", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["files"], said["files_read"], said["rows_read"]) == (9, 3, 3)
    assert said["record_key_evidence"] == "id is unique in the 3 rows read"
    assert "3 of 9 files, 3 rows read" in Path("laketable.yaml").read_text()


@pytest.mark.parametrize("name", ["1.csv", "1.jsonl", "1.json"])
def test_of_a_large_file_the_beginning_is_read(
    landing: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("tideline.ingest.proposal.sample.BYTES_MAX", 500)
    rows = [{"id": number, "note": "a\nb"} for number in range(100)]
    texts = {
        "1.csv": "id,note\n" + "".join(f'{row["id"]},"a\nb"\n' for row in rows),
        "1.jsonl": "\n".join(map(json.dumps, rows)),
        "1.json": json.dumps(rows, indent=1),
    }
    (landing / name).write_text(texts[name])
    assert types_of(written()["schema"]) == {"id": "long", "note": "string"}
    text = Path("laketable.yaml").read_text()
    assert "1 file, the last in part, " in text
    assert "another number of values" not in text


def test_on_a_terminal_it_asks(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (landing / "1.csv").write_text("id,n,updated_at\n1,2,2024-01-01 10:00:00\n")
    answers = iter(["n=decimal(9,2), id=string", "id,n", "-"])
    monkeypatch.setattr("tideline.cli.init.is_asked", lambda *, yes: not yes)
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    spec = written()
    assert types_of(spec["schema"])["n"] == "decimal(9,2)"
    assert types_of(spec["schema"])["id"] == "string"
    assert (spec["recordKey"], "ordering" in spec) == (["id", "n"], False)
    assert next(answers, None) is None


def test_files_in_a_bucket_of_google_bring_the_store_they_are_in(
    gcs_location: StoreLocation, tmp_path: Path
) -> None:
    options = dict(gcs_location.options)
    folder = gcs_location.uri.removesuffix("/table")
    StoreLocation.of(f"{folder}/landing", options).open().put("1.csv", b"id;name\n1;x\n")
    file = tmp_path / "laketable.yaml"
    given = ["--gcs-endpoint", options["gcs_endpoint"], "--allow-http", "-o", str(file)]
    assert run(["init", f"{folder}/landing", *given]) == 0
    table, store = yaml.safe_load_all(file.read_text("utf-8"))
    assert table["spec"]["location"] == gcs_location.uri
    assert table["spec"]["storeRef"] == store["metadata"]["name"]
    assert store["spec"] == {"gcs": {"endpoint": options["gcs_endpoint"]}}
    assert os.environ["GOOGLE_BEARER_TOKEN"] not in file.read_text("utf-8")
