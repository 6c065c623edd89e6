"""`tideline iceberg expire`, `remove-orphans`, `rewrite-manifests` and `rewrite-deletes`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.cli.moment import parse_moment
from tideline.errors import ConfigError
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_delete_table import DeleteTable

DAY_MS = 86_400_000


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of two partitions with six snapshots, made long ago, and a stray file."""
    table = DeleteTable.create()
    table.append("a", range(10))
    table.append("b", range(10, 20), parity="odd")
    table.append("c", range(20, 30))
    for at in range(3):
        table.delete({"a": [at]})
    folder = tmp_path / "orders"
    store = table.model.location.open()
    for info in store.list():
        path = folder / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.path))
        os.utime(path, (time.time() - 9 * 86_400,) * 2)
    stray = folder / "data/stray.parquet"
    stray.write_bytes(b"stray")
    os.utime(stray, (time.time() - 9 * 86_400,) * 2)
    return str(folder)


def printed_json_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(["iceberg", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["iceberg", *words]) == 0
    return capsys.readouterr().out


def snapshots(uri: str) -> int:
    return len(IcebergTable.open(uri).metadata.snapshots)


def test_expire_says_what_would_go_and_does_it(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dry = printed_json_of(capsys, "expire", uri, "--dry-run")
    assert len(dry["expired_snapshots"]) == 5
    assert dry["deleted_manifest_lists"] == 5
    assert len(dry["files"]) == 5
    assert snapshots(uri) == 6
    kept = printed_json_of(capsys, "expire", uri, "--retain-last", "4", "--dry-run")
    assert (len(kept["expired_snapshots"]), kept["kept_snapshots"]) == (2, 4)
    assert "Would expire 5 snapshots; 1 stay." in said(capsys, "expire", uri, "--dry-run")
    done = printed_json_of(capsys, "expire", uri)
    assert done["expired_snapshots"] == dry["expired_snapshots"]
    assert done["metadata"].endswith("v8.metadata.json")
    assert done["saved"]["bytes_stored"] == done["deleted_bytes"]
    assert done["core_seconds"] >= 0
    assert snapshots(uri) == 1
    assert said(capsys, "expire", uri) == "Nothing to expire; 1 snapshot stays.\n"


def test_orphans_are_listed_with_bytes_before_they_go(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dry = printed_json_of(capsys, "remove-orphans", uri, "--dry-run")
    assert [Path(orphan_file["path"]).name for orphan_file in dry["orphan_files"]] == [
        "stray.parquet"
    ]
    assert dry["bytes"] == 5
    assert (Path(uri) / "data/stray.parquet").exists()
    text = said(capsys, "remove-orphans", uri, "--dry-run")
    assert "Would delete 1 file, 5 B." in text
    assert "Left alone: " in text
    assert said(capsys, "remove-orphans", uri, "--older-than", "20d").startswith("Deleted 0 files")
    assert len(printed_json_of(capsys, "remove-orphans", uri)["orphan_files"]) == 1
    assert not (Path(uri) / "data/stray.parquet").exists()
    assert run(["iceberg", "remove-orphans", uri, "--older-than", "1h"]) == 2
    assert "24 hours" in capsys.readouterr().err


def test_manifests_are_rewritten_once(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    dry = printed_json_of(capsys, "rewrite-manifests", uri, "--dry-run")
    assert (dry["rewritten_manifests"], dry["added_manifests"]) == (6, 2)
    assert snapshots(uri) == 6
    words = said(capsys, "rewrite-manifests", uri)
    assert words.startswith("Rewrote 6 manifests")
    assert "\nSaves 4 files fewer to open, " in words
    again = said(capsys, "rewrite-manifests", uri)
    assert again == "Nothing to rewrite: the manifests are well clustered.\n"
    assert run(["iceberg", "rewrite-manifests", uri, "--sort-by", "day"]) == 2
    assert "sorted by its fields: parity" in capsys.readouterr().err


def test_position_deletes_are_rewritten(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    dry = printed_json_of(capsys, "rewrite-deletes", uri, "--dry-run")
    assert (dry["delete_files"], dry["skipped"]) == (0, {"of a good size, or too few": 3})
    fewer = ("rewrite-deletes", uri, "--option", "min-input-files=2")
    assert printed_json_of(capsys, *fewer, "--dry-run")["delete_files"] == 3
    done = printed_json_of(capsys, *fewer)
    assert (done["rewritten_delete_files"], done["added_delete_files"]) == (3, 1)
    assert (done["rewritten_positions"], done["added_positions"]) == (3, 3)
    assert (done["saved"]["files_opened"], done["saved"]["delta_files"]) == (2, 2)
    assert run(["iceberg", "rewrite-deletes", uri, "--option", "strategy=sort"]) == 2


def test_moments_are_ages_or_times() -> None:
    now_ms = 10 * DAY_MS
    assert parse_moment("7d", now_ms=now_ms, option="--x") == 3 * DAY_MS
    assert parse_moment("36h", now_ms=now_ms, option="--x") == 8.5 * DAY_MS
    assert parse_moment("1970-01-02", now_ms=now_ms, option="--x") == DAY_MS
    assert parse_moment("1970-01-02T01:00+01:00", now_ms=now_ms, option="--x") == DAY_MS
    with pytest.raises(ConfigError, match="--x takes an age"):
        parse_moment("last week", now_ms=now_ms, option="--x")


def test_plan_and_execute_serve_iceberg_tables(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the names of the services, with the options of their procedures."""
    aged = ["--option", f"older_than_age_ms={DAY_MS}"]
    assert run(["plan", "expire_snapshots", uri, *aged]) == 0
    assert "expire_snapshots: due, 5 of 6 snapshots are past their age." in capsys.readouterr().out
    assert run(["execute", "expire-snapshots", uri, *aged, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert [len(item["expired_snapshots"]) for item in done["done"]] == [5]
    assert snapshots(uri) == 1
    assert run(["execute", "expire_snapshots", uri, *aged]) == 0
    assert capsys.readouterr().out == "expire_snapshots: not due, no snapshot is old enough.\n"
    assert run(["execute", "rewrite_manifests", uri, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"][0]["added_manifests"] > 0
    assert run(["execute", "remove_orphan_files", uri, "--json"]) == 0
    (removed,) = json.loads(capsys.readouterr().out)["done"]
    assert [Path(orphan).name for orphan in removed["orphans"]] == ["stray.parquet"]
    assert run(["plan", uri, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["services"]) == 5
    assert run(["execute", "expire_snapshots", uri, "--option", "retain=1"]) == 2
    assert "there is no such option of an expiry of snapshots" in capsys.readouterr().err
