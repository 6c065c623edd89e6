"""Commands as people first type them: wrong folders, files, names and orders, formats left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import tideline
from tideline.cli.main import run
from tideline.errors import ConfigError, TableNotFoundError
from tideline.ingest.sources.files.named_files import format_by_name
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LakeTable:
    monkeypatch.chdir(tmp_path)
    table = tideline.create("lake/orders", record_key="id")
    table.write([{"id": "a", "n": 1}])
    pq.write_table(pa.table({"id": ["b"], "n": [2]}), "b.parquet")
    Path("b.csv").write_text("id,n\nb,2\n")
    Path("empty").mkdir()
    return table


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["show", "lake/order"], "no such folder, did you mean orders?"),
        (["read", "lake"], "but tables are in this folder: orders"),
        (["check", "b.csv"], "this is a file, a table is a folder"),
        (["show", "db.orders"], "for a table in a catalog name the catalog too"),
        (["show", "empty"], "no Hudi table and no Iceberg table here ["),
        (["report", "nowhere"], "no Hudi table here: there is no such folder"),
        (["iceberg", "show", "lake/orders"], "no Iceberg table here, but a Hudi table"),
        (["iceberg", "show", "lake"], "no Iceberg table here, but tables are in this folder"),
        (["plan", "lake/orders", "cleaning"], "the service comes first: cleaning lake/orders"),
        (["execute", "lake/orders", "cleaning"], "the service comes first: cleaning lake/orders"),
        (["list-instants", "lake/orders", "--action", "comit"], "'comit' is not one of 'commit'"),
        (["list-instants", "lake/orders", "--instant", "1"], "one that `tideline list-instants`"),
        (["sql", "lake/orders", "-c", "from orders"], "There are t;"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(
    lake: LakeTable, capsys: pytest.CaptureFixture[str], command: list[str], said: str
) -> None:
    assert lake.count() == 1
    assert run(command) in (1, 2)
    assert said in " ".join(capsys.readouterr().err.split())


def test_an_action_that_never_happened_is_no_empty_table(
    lake: LakeTable, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["list-instants", lake.uri, "--action", "rollback"]) == 0
    assert capsys.readouterr().out == "None.\n"


@pytest.mark.parametrize("name", ["mor", "MOR", "merge_on_read"])
def test_a_type_has_a_short_name(lake: LakeTable, name: str) -> None:
    assert run(["create", "lake/new", "--record-key", "id", "--type", name]) == 0
    made = tideline.create("lake/other", record_key="id", table_type=name)
    assert str(LakeTable.open("lake/new").hoodie_table.config.table_type) == "MERGE_ON_READ"
    assert str(made.hoodie_table.config.table_type) == "MERGE_ON_READ"
    assert lake.count() == 1


def test_files_tell_their_format_by_their_names(lake: LakeTable, tmp_path: Path) -> None:
    def told(name: str) -> str:
        return format_by_name(StoreLocation.of(str(tmp_path / name)))

    assert (told("b.csv"), told("b.parquet"), told("later.JSON.gz")) == ("csv", "parquet", "json")
    Path("few").mkdir()
    Path("few/part-0").write_bytes(Path("b.parquet").read_bytes())
    assert told("few") == "parquet"
    Path("few/1.jsonl").write_text("{}\n")
    assert told("few") == "json"
    Path("few/2.csv").write_text("id\n")
    with pytest.raises(ConfigError, match=r"files of several formats .*--format"):
        told("few")
    assert lake.count() == 1


def test_a_file_of_parquet_needs_no_format(lake: LakeTable) -> None:
    assert run(["write", lake.uri, "--source", "b.parquet"]) == 0
    assert lake.count() == 2


def test_a_catalog_is_named_by_its_address(
    lake: LakeTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path}/catalog.db"
    theirs = SqlCatalog("default", uri=address, warehouse=f"file://{tmp_path}/warehouse")
    theirs.create_namespace("db")
    theirs.create_table("db.t", pa.schema([("id", pa.string())])).append(pa.table({"id": ["x"]}))
    table = tideline.open_iceberg("db.t", catalog=address)
    assert table.count() == 1
    made = tideline.create_iceberg(
        "db.made", pa.schema([("id", pa.string())]), catalog=address, location="warehouse/made"
    )
    assert made.append(pa.table({"id": ["y"]})).rows_inserted == 1
    assert theirs.load_table("db.made").scan().to_arrow()["id"].to_pylist() == ["y"]
    with pytest.raises(
        TableNotFoundError, match=r"its own name, here default: .*CATALOG__NAME__URI"
    ):
        tideline.open_iceberg("db.nothing", catalog=address)
    assert run(["read", f"{tmp_path}/warehouse/db/t"]) == 1
    assert "name it as the catalog does, namespace.name" in capsys.readouterr().err
    assert lake.count() == 1


@pytest.mark.spark
@pytest.mark.parametrize("text", ["id,n\n", "id,n\n,2\n"], ids=["no row", "no key"])
def test_a_first_csv_file_without_a_key_is_told_what_to_declare(
    lake: LakeTable, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    tideline.create("lake/new", record_key="id")
    Path("new.csv").write_text(text)
    assert run(["write", "lake/new", "--source", "new.csv"]) == 1
    said = capsys.readouterr().err
    assert "it has no value in column id, which the record key is made of" in said
    assert "declare the columns (source.schema)" in said
    Path("new.csv").write_text(",id,n\n0,b,2\n")
    assert run(["write", lake.uri, "--source", "new.csv"]) == 0
    assert lake.to_arrow(["id", "n"], filter="n = 2").to_pydict() == {"id": ["b"], "n": [2]}
