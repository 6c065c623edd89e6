"""`tideline changes`: what commits did to rows, of tables of both formats."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.errors import ConfigError


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[tuple[str, str]], str]:
    assert run(["changes", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return [(row["_change_type"], row["id"]) for row in found["rows"]], found["until"]


def test_changes_of_both_formats_are_followed_from_where_the_last_ones_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = pa.schema([("id", pa.string()), ("n", pa.int64())])
    hudi = tideline.create(tmp_path / "h", record_key="id")
    iceberg = tideline.create_iceberg(tmp_path / "i", columns, key="id")
    for table in (hudi, iceberg):
        table.upsert([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
        first, until = printed(capsys, table.uri)
        assert sorted(first) == [("INSERT", "a"), ("INSERT", "b")]
        table.upsert([{"id": "a", "n": 3}])
        table.delete("id = 'b'")
        then, until = printed(capsys, table.uri, "--after", until)
        assert then == [("UPDATE_BEFORE", "a"), ("UPDATE_AFTER", "a"), ("DELETE", "b")]
        assert printed(capsys, table.uri, "--after", until)[0] == []
        assert len(printed(capsys, table.uri)[0]) == table.changes().read_all().num_rows == 5


def test_what_is_cut_off_says_no_place_to_continue_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tideline.create(tmp_path / "h", record_key="id")
    table.write([{"id": "a"}, {"id": "b"}])
    assert printed(capsys, table.uri, "--limit", "1")[1] is None
    assert run(["changes", table.uri]) == 0
    said = capsys.readouterr().out
    assert "_hoodie_commit_time" not in said and "INSERT" in said
    assert said.splitlines()[-1].startswith("Next: --after 2")
    assert run(["changes", table.uri, "--meta"]) == 0
    assert "_hoodie_commit_time" in capsys.readouterr().out


def test_a_commit_and_a_number_are_times(tmp_path: Path) -> None:
    table = tideline.create(tmp_path / "h", record_key="id")
    table.write([{"id": "a"}])
    first = table.latest_commit
    table.write([{"id": "b"}])
    assert first is not None
    assert table.changes(first).read_all()["id"].to_pylist() == ["b"]
    assert table.to_arrow("id", as_of=first)["id"].to_pylist() == ["a"]
    assert table.changes(int(str(first.time))).read_all()["id"].to_pylist() == ["b"]
    with pytest.raises(ConfigError, match="not a time"):
        table.changes(True)
    made = tideline.create_iceberg(tmp_path / "i", pa.schema([("id", pa.string())]))
    assert repr(made).startswith("<IcebergLakeTable, version 2, no snapshot yet, at file://")
    made.append([{"id": "a"}])
    assert made.current_snapshot is not None
    assert f"newest snapshot {made.current_snapshot.snapshot_id}" in repr(made)
