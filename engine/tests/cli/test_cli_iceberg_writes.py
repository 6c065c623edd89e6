"""`tideline create` and `tideline write` for Iceberg tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.cli.main import run

Tideline = Callable[..., Any]


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "landed"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder / "1.parquet")
    pq.write_table(pa.table({"name": ["c"], "id": [3]}), folder / "2.parquet")
    return str(folder)


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Tideline:
    def ask(*arguments: str, fails: bool = False) -> Any:
        code = run([*arguments, *(() if fails else ("--json",))])
        printed = capsys.readouterr()
        assert bool(code) is fails, printed
        return printed.err if fails else json.loads(printed.out)

    return ask


def create(answer: Tideline, source: str, uri: str, *more: str) -> Any:
    schema = f"{source}/1.parquet"
    return answer("create", uri, "--format", "iceberg", "--schema", schema, *more)


def test_a_table_is_created_and_filled(answer: Tideline, source: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options = ("--record-key", "id", "--partition-by", "bucket(2, id)", "--sort-by", "name DESC",
               "--format-version", "3")  # fmt: skip
    planned = create(answer, source, uri, *options, "--dry-run")
    assert (planned["uri"], planned["dry_run"], planned["format_version"]) == (uri, True, 3)
    assert not (tmp_path / "t").exists()
    made = create(answer, source, uri, *options, "--property", "mine=kept")
    assert made["partition_by"] == planned["partition_by"]
    assert made["properties"] == {"mine": "kept"}
    dry = answer("write", uri, "--source", source, "--dry-run")
    assert (dry["operation"], len(dry["source_files"])) == ("append", 2)
    for is_repeat in (False, True):
        done = answer("write", uri, "--source", source, "--operation", "insert", "--token", "x")
        assert (done["rows_inserted"], done["is_repeat"]) == (3, is_repeat)
    assert tideline.open_iceberg(uri).count() == 3
    shown = answer("read", uri)["rows"]
    assert sorted(row["id"] for row in shown) == [1, 2, 3]


def test_rows_are_replaced_and_taken_away(
    answer: Tideline, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    create(answer, source, uri)
    write = ("write", uri, "--source", source)
    assert answer(*write, "--operation", "upsert", "--key", "id")["rows_inserted"] == 3
    done = answer(*write, "--operation", "upsert", "--key", "id")
    assert (done["rows_inserted"], done["rows_updated"]) == (0, 3)
    overwrite = (*write, "--operation", "overwrite", "--where", "id > 1")
    monkeypatch.setattr("tideline.cli.consent.is_asked", lambda *, yes: not yes)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    answer(*overwrite, fails=True)
    assert tideline.open_iceberg(uri).count() == 3
    assert answer(*overwrite, "--yes")["rows_deleted"] == 2
    assert tideline.open_iceberg(uri).count() == 4
    answer(*write, "--operation", "delete", "--key", "id", "--yes")
    assert tideline.open_iceberg(uri).count() == 0


def test_a_table_of_a_catalog(answer: Tideline, source: str, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    catalog = ("--catalog", f"sqlite:///{tmp_path}/catalog.db",
               "--catalog-option", f"warehouse=file://{tmp_path}/lake")  # fmt: skip
    create(answer, source, "db.t", *catalog)
    assert answer("write", "db.t", *catalog, "--source", source)["rows_inserted"] == 3
    elsewhere = f"file://{tmp_path}/elsewhere"
    assert create(answer, source, "db.u", *catalog, "--location", elsewhere)["uri"] == elsewhere
    assert "already" in answer("create", "db.t", "--format", "iceberg", "--schema",
                               f"{source}/1.parquet", *catalog, fails=True)  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_text_files_are_taken_in(answer: Tideline, source: str, tmp_path: Path) -> None:
    uri, text = str(tmp_path / "t"), tmp_path / "text"
    create(answer, source, uri, "--record-key", "id")
    text.mkdir()
    (text / "1.csv").write_text("id,name\n1,a\n,lacks its key\n2,b\n")
    (text / "2.csv").write_text("other\n5\n")
    write = ("write", uri, "--source", str(text))
    assert answer(*write, "--dry-run")["operation"] == "append"
    assert "csv" in answer(*write, fails=True)
    done = answer(*write, "--operation", "upsert", "--on-bad-file", "skip",
                  "--on-bad-row", "quarantine")  # fmt: skip
    assert (done["rows_inserted"], list(done["skipped"])) == (2, ["2.csv"])
    assert done["rows_set_aside"] == {"1.csv": 1}
    (tmp_path / "1.json").write_text('{"id": 2, "name": "c"}\n{"id": 3, "name": "d"}\n')
    written = answer("write", uri, "--source", f"{tmp_path}/1.json", "--operation", "upsert")
    assert (written["rows_inserted"], written["rows_updated"]) == (1, 1)
    found = sorted((row["id"], row["name"]) for row in answer("read", uri)["rows"])
    assert found == [(1, "a"), (2, "c"), (3, "d")]


REFUSED = (
    (("create", "{uri}/new", "--format", "iceberg"), "needs --schema"),
    (("create", "{uri}/new", "--format", "iceberg", "--name", "x"), "--name is not for Iceberg"),
    (("create", "{uri}/new", "--sort-by", "id"), "--sort-by is not for Hudi"),
    (("create", "{uri}/new"), "needs --record-key"),
    (("write", "{uri}", "--source", "{source}", "--strict"), "--strict"),
    (("write", "{uri}", "--source", "{source}", "--read-option", "sep=;"), "sep"),
    (("write", "{uri}", "--source", "{source}", "--branch", "x"), "no such branch"),
    (("write", "{uri}", "--source", "{source}", "--option", "hoodie.x=1"), "no such option"),
    (("write", "{uri}", "--source", "{source}", "--operation", "upsert"), "no identifier fields"),
    (("write", "{uri}", "--source", "{source}", "--where", "id > 1"), "a condition is for rows"),
    (("write", "{uri}", "--source", "{source}/broken"), "source file"),
)


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused_is_named(
    answer: Tideline, source: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    uri = str(tmp_path / "t")
    create(answer, source, uri)
    (tmp_path / "landed" / "broken").write_bytes(b"PAR1 is not all of it")
    given = [item.format(uri=uri, source=source) for item in arguments]
    assert said in answer(*given, fails=True)
    assert tideline.open_iceberg(uri).current_snapshot is None
