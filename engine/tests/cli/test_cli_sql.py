"""`sql`, and `read --sql`: queries that DuckDB answers without Spark."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.testing.iceberg_delete_table import DeleteTable


@pytest.fixture
def orders(tmp_path: Path) -> str:
    """A merge-on-read table with a row in a log, two partitions."""
    uri = str(tmp_path / "orders")
    table = tideline.create(
        uri, record_key="id", partition_by="day", ordering="n", table_type="MERGE_ON_READ"
    )
    rows = [
        {"id": "a", "day": "mon", "n": 1, "city": "Kiel"},
        {"id": "b", "day": "mon", "n": 2, "city": "Bonn"},
        {"id": "c", "day": "tue", "n": 3, "city": "Kiel"},
    ]
    table.write(pa.Table.from_pylist(rows))
    table.write(pa.Table.from_pylist([{"id": "a", "day": "mon", "n": 10, "city": "Köln"}]))
    return uri


@pytest.fixture
def cities(tmp_path: Path) -> str:
    uri = str(tmp_path / "cities")
    rows = [{"name": "Kiel", "people": 247}, {"name": "Köln", "people": 1084}]
    tideline.create(uri, record_key="name").write(pa.Table.from_pylist(rows))
    return uri


def documents(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line)["rows"] for line in capsys.readouterr().out.splitlines()]


def test_read_answers_a_query_without_spark(orders: str) -> None:
    program = """
import sys
from tideline.cli.main import run
code = run(["read", sys.argv[1], "--sql", "select id from t where n > 2 order by n", "--json"])
assert "pyspark" not in sys.modules
sys.exit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, orders], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["rows"] == [{"id": "c"}, {"id": "a"}]


def test_tables_are_joined_by_their_names(
    orders: str, cities: str, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "select id, people from t join cities on city = name order by id"
    counted = "select count(*) as n from cities"
    tables = [orders, f"cities={cities}"]
    assert run(["sql", *tables, "-c", query, "-c", counted, "--json"]) == 0
    assert documents(capsys) == [
        [{"id": "a", "people": 1084}, {"id": "c", "people": 247}],
        [{"n": 2}],
    ]


def test_an_iceberg_table_is_joined_with_a_hudi_table(
    orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    iceberg = DeleteTable.create()
    iceberg.append("a", range(10))
    iceberg.delete({"a": [2]})
    query = "select id from t join i on n = number order by id"
    assert run(["sql", orders, f"i={iceberg.model.location.uri}", "-c", query, "--json"]) == 0
    assert documents(capsys) == [[{"id": "c"}]]


def test_statements_come_from_a_pipe(
    orders: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "create view late as from t where n > 2;\nselect count(*) as n from late;\nfrom late\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert run(["sql", orders, "--limit", "1"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].split() == ["n"]
    assert output[1].split() == ["2"]
    assert "the first 1 row;" in output[-1]


def test_a_state_of_the_past_and_base_files_alone_are_queried(
    orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (str(instant.time) for instant in tideline.open(orders).timeline().writes())
    query = ["--sql", "select sum(n) as n from t", "--json"]
    assert run(["read", orders, *query]) == 0
    assert run(["read", orders, *query, "--as-of", first]) == 0
    assert run(["read", orders, *query, "--read-optimized"]) == 0
    assert run(["read", orders, *query, "--after", first]) == 0
    assert run(["read", orders, *query, "--after", first, "--deletes", "--until", second]) == 0
    assert documents(capsys) == [[{"n": 15}], [{"n": 6}], [{"n": 6}], [{"n": 10}], [{"n": 10}]]


def test_hudis_own_columns_come_on_request(orders: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select _hoodie_record_key as key from t where id = 'b'"
    assert run(["sql", orders, "-c", query, "--json"]) == 2
    assert "_hoodie_record_key" in json.loads(capsys.readouterr().err)["message"]
    assert run(["sql", orders, "-c", query, "--json", "--meta"]) == 0
    assert documents(capsys) == [[{"key": "b"}]]


def test_what_is_refused_says_what_else_may_answer(
    orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["read", orders, "--sql", "select date_format(id, 'yyyy') from t"]) == 2
    error = capsys.readouterr().err
    assert "DuckDB refuses the query" in error
    assert "--engine spark" in error


def test_a_file_is_not_read_by_a_query(
    orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("word\nswordfish\n")
    assert run(["read", orders, "--sql", f"select * from '{secret}'"]) == 2
    assert run(["sql", orders, "-c", f"select * from read_text('{secret}')"]) == 2
    told = capsys.readouterr()
    assert "swordfish" not in told.out + told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{uri}", "{uri}", "-c", "select 1"], "two tables have one name"),
        (["a={uri}", "a={uri}", "-c", "select 1"], "two tables have one name"),
        (["{uri}/nothing", "-c", "select 1"], "no Hudi table"),
        (["{uri}", "-c", "insert into t values (1)"], "refuses"),
    ],
)
def test_what_is_wrong_is_a_usage_error(
    arguments: list[str], said: str, orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sql", *(argument.format(uri=orders) for argument in arguments)]) in (1, 2)
    assert said in capsys.readouterr().err


def test_read_takes_one_query_and_an_engine_only_with_one(
    orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["read", orders, "--sql", "select 1; select 2"]) == 2
    assert "one query" in capsys.readouterr().err
    assert run(["read", orders, "--engine", "spark"]) == 2
    assert "add --sql" in capsys.readouterr().err


def test_a_table_that_is_damaged_says_so_and_not_that_the_query_is_wrong(
    orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in Path(orders).rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:100])
    assert run(["read", orders, "--sql", "select max(n) from t"]) == 1
    error = capsys.readouterr().err
    assert "refuses" not in error
    assert ".parquet" in error


def test_a_prompt_takes_statements_over_several_lines(orders: str) -> None:
    said = at_a_prompt(
        orders,
        "select sum(n)\n",
        "as total from t;\n",
        "select nothing from t;\n",
        ".tables\n",
        ".quit\n",
    )
    assert "total" in said
    assert "15" in said
    assert "nothing" in said
    assert said.count(f"t: {Path(orders).as_uri()}") == 2


def at_a_prompt(uri: str, *lines: str) -> str:
    """What the command says on a terminal where these lines are typed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tideline", "sql", uri],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, "".join(lines).encode())
    said = b""
    # A terminal whose other end is closed reads as an error.
    while True:
        try:
            more = os.read(ours, 65_536)
        except OSError:
            break
        if not more:
            break
        said += more
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return said.decode()


@pytest.mark.parametrize(
    ("command", "not_loaded"),
    [
        (["--help"], {"rich", "pyarrow", "tideline.settings", "tideline.hudi"}),
        (["show", "{uri}"], {"pyarrow", "tideline.storage.s3.store", "http"}),
        (["read", "{uri}", "--limit", "1"], {"pandas.core", "pyspark", "duckdb"}),
        (["sql", "{uri}", "-c", "select timestamp_ns '2020-01-01 00:00:00.123456789'"],
         {"pandas.core", "pyspark", "tideline.lake_table"}),
    ],
)  # fmt: skip
def test_a_command_does_not_load_what_it_does_without(
    command: list[str], not_loaded: set[str], orders: str
) -> None:
    filled = [name.format(uri=orders) for name in command]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tideline", *filled],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "tideline.cli.main" in loaded
    assert not not_loaded & loaded
    if "-c" in command:
        assert "00:00:00.123456789" in done.stdout
