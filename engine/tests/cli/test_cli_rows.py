"""`write` and `read`: rows in and out, through Spark and without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.cli.main import run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def uri(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    uri = str(tmp_path / "table")
    columns = ["--record-key", "id", "--partition-by", "day", "--ordering", "n"]
    assert run(["create", uri, *columns]) == 0
    capsys.readouterr()
    return uri


def landed(tmp_path: Path, rows: list[dict[str, Any]], name: str = "batch.parquet") -> str:
    path = tmp_path / name
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def read_rows(capsys: pytest.CaptureFixture[str], uri: str, *arguments: str) -> list[Any]:
    assert run(["read", uri, *arguments, "--json"]) == 0
    return list(printed_json(capsys)["rows"])


@pytest.mark.parametrize("engine", ["in_process", "spark"])
def test_written_rows_are_read_back_in_three_ways(
    engine: str, uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_engine = ["--option", f"tideline.engine.small={engine}"]
    first = landed(tmp_path, [{"id": "a", "day": "mon", "n": 1}, {"id": "b", "day": "tue", "n": 1}])
    assert run(["write", uri, "--source", first, "--json", *by_engine]) == 0
    report = printed_json(capsys)
    assert (report["rows_inserted"], report["rows_updated"]) == (2, 0)
    second = landed(tmp_path, [{"id": "a", "day": "mon", "n": 2}])
    assert run(["write", uri, "--source", second, *by_engine]) == 0
    assert "0 inserted, 1 updated, 0 deleted" in capsys.readouterr().out

    answering = ["--engine", "spark" if engine == "spark" else "duckdb"]
    query = ["--sql", "select id, n from t order by id", *answering]
    assert read_rows(capsys, uri, *query) == [{"id": "a", "n": 2}, {"id": "b", "n": 1}]
    before = read_rows(capsys, uri, *query, "--as-of", report["instant"])
    assert before == [{"id": "a", "n": 1}, {"id": "b", "n": 1}]
    changed = read_rows(capsys, uri, "--after", report["instant"])
    assert changed == [{"id": "a", "day": "mon", "n": 2}]

    gone = landed(tmp_path, [{"id": "b", "day": "tue", "n": 1}])
    assert run(["write", uri, "--source", gone, "--operation", "delete", *by_engine]) == 0
    capsys.readouterr()
    net = read_rows(capsys, uri, "--after", report["instant"], "--deletes")
    assert {row.pop("_change_instant") > report["instant"] for row in net} == {True}
    assert sorted(net, key=lambda row: str(row["id"])) == [
        {"_change_type": "UPDATE_AFTER", "id": "a", "day": "mon", "n": 2},
        {"_change_type": "DELETE", "id": "b", "day": "tue", "n": 1},
    ]
    query = ["--sql", "select id from t where _change_type = 'DELETE'", *answering]
    asked = read_rows(capsys, uri, "--after", report["instant"], "--deletes", *query)
    assert asked == [{"id": "b"}]


@pytest.mark.parametrize(
    ("source_format", "text"),
    [("csv", "id,day,n\na,mon,1\nb,mon,2\n"), ("json", '{"id":"a","day":"mon","n":1}\n'
                                                        '{"id":"b","day":"mon","n":2}\n')],
)  # fmt: skip
def test_text_files_are_taken_in(
    source_format: str,
    text: str,
    uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = tmp_path / f"rows.{source_format}"
    source.write_text(text)
    assert run(["write", uri, "--source", str(source), "--format", source_format]) == 0
    capsys.readouterr()
    assert read_rows(capsys, uri, "--sql", "select id, n from t order by id") == [
        {"id": "a", "n": 1},
        {"id": "b", "n": 2},
    ]


def test_a_delete_takes_rows_away(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": "a", "day": "mon", "n": 1}, {"id": "b", "day": "mon", "n": 1}]
    assert run(["write", uri, "--source", landed(tmp_path, rows)]) == 0
    gone = landed(tmp_path, rows[:1], "gone.parquet")
    assert run(["write", uri, "--source", gone, "--operation", "delete"]) == 0
    capsys.readouterr()
    assert [row["id"] for row in read_rows(capsys, uri)] == ["b"]


def test_a_limit_is_announced_and_meta_columns_come_on_request(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": str(n), "day": "mon", "n": n} for n in range(5)]
    assert run(["write", uri, "--source", landed(tmp_path, rows)]) == 0
    capsys.readouterr()
    assert run(["read", uri, "--limit", "3"]) == 0
    output = capsys.readouterr().out
    assert "the first 3 rows" in output
    assert "_hoodie" not in output
    assert len(read_rows(capsys, uri, "--limit", "all")) == 5
    assert read_rows(capsys, uri, "--limit", "0") == []
    assert "_hoodie_commit_time" in read_rows(capsys, uri, "--meta", "--limit", "1")[0]


@pytest.mark.parametrize("engine", ["DuckDB", "Spark"])
def test_a_query_that_is_refused_is_a_usage_error(
    engine: str, uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["write", uri, "--source", landed(tmp_path, [{"id": "a", "day": "m", "n": 1}])]) == 0
    capsys.readouterr()
    for query in ("select nothing from t", "selectt", "select * from elsewhere"):
        assert run(["read", uri, "--sql", query, "--engine", engine.lower()]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"{engine} refuses the query" in error


def test_an_unreadable_source_leaves_the_table_as_it_was(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and then nothing")
    before = sorted(str(path) for path in Path(uri).rglob("*"))
    assert run(["write", uri, "--source", str(broken)]) == 1
    error = capsys.readouterr().err
    assert "broken.parquet" in error
    assert error.count("\n") == 1
    assert sorted(str(path) for path in Path(uri).rglob("*")) == before


@pytest.mark.slow
def test_files_and_rows_that_cannot_be_taken_in_are_named_and_may_be_left_out(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["write", uri, "--source", landed(tmp_path, [{"id": "z", "day": "mon", "n": 0}])]) == 0
    )
    source = tmp_path / "source"
    source.mkdir()
    (source / "1.csv").write_text('id,day,n\na,mon,1\n,mon,2\nb,mon,"3\n')
    (source / "2.csv").write_text("other,n\n1,2\n")
    (source / "3.csv").write_text('id,day,n\n"0 ""7""\n",mon,7\nc,mon,x\n')
    (source / "4.csv").write_text("id,day,n\n008,../up,8\n")
    write = ["write", uri, "--source", str(source), "--format", "csv"]
    capsys.readouterr()
    assert run(write) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "2.csv" in error
    assert "it has no column id, which the record key is made of" in error
    tolerant = ["--on-bad-file", "skip", "--on-bad-row", "quarantine", "--max-bad-rows", "2"]
    assert run([*write, *tolerant, "--json"]) == 0
    report = printed_json(capsys)
    assert report["rows_set_aside"] == {"1.csv": 2, "3.csv": 1}
    assert list(report["skipped"]) == ["2.csv", "4.csv"]
    assert "makes no path inside the table" in report["skipped"]["4.csv"]
    assert read_rows(capsys, uri, "--sql", "select id, day, n from t order by id") == [
        {"id": '0 "7"\n', "day": "mon", "n": 7},
        {"id": "a", "day": "mon", "n": 1},
        {"id": "z", "day": "mon", "n": 0},
    ]
    assert sum(1 for _ in (source / "_quarantine").iterdir()) == 2
