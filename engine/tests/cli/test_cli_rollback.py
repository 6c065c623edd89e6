"""`plan rollback` and `execute rollback`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.heartbeat import Heartbeat

DEAD = InstantTime("20240102030405678")
LEFTOVER = f"mon/0a1b2c3d-0000-4000-8000-000000000000-0_0-1-0_{DEAD}.parquet"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table on which a writer died with one data file written."""
    uri = str(tmp_path / "table")
    schema = pa.schema([("id", pa.string()), ("day", pa.string())])
    table = tideline.create(uri, schema=schema, record_key=["id"], partition_by=["day"])
    hoodie = table.hoodie_table
    requested = hoodie.timelines.create_requested(DEAD, Action.COMMIT)
    hoodie.timelines.to_inflight(requested)
    partition, _, name = LEFTOVER.partition("/")
    create_marker(hoodie.store, str(DEAD), Marker(partition, name, MarkerKind.CREATE))
    write_partition_metadata(hoodie.store, partition, DEAD)
    hoodie.store.put(LEFTOVER, b"half a file")
    return uri


def files_below(uri: str) -> set[str]:
    return {str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()}


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_plan_names_the_dead_write_and_its_files_and_changes_nothing(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(uri)
    assert run(["plan", "rollback", uri]) == 0
    output = capsys.readouterr().out
    assert f"Would roll back {DEAD} (commit), because its writer is gone: 1 file to" in output
    assert LEFTOVER in output
    assert files_below(uri) == before


def test_execute_removes_every_trace_of_the_dead_write(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["execute", "rollback", uri, "--json"]) == 0
    audit = {
        "service": "rollback",
        "instant": str(DEAD),
        "action": "commit",
        "files": [{"path": LEFTOVER, "what": "deleted"}],
    }
    answer = printed_json(capsys)
    assert answer.pop("core_seconds") >= 0
    assert answer.pop("requests") == 0
    assert not any(answer.pop("saved").values())
    assert answer == {
        "service": "rollback",
        "done": [audit],
        "not_due": None,
        "left_alone": [],
        "notes": [],
    }
    # The rollback's own instants and marker-free folders may name it; data and markers may not.
    assert not [name for name in files_below(uri) if str(DEAD) in name]
    assert run(["execute", "rollback", uri]) == 0
    assert capsys.readouterr().out == "rollback: not due, no writer died.\n"


def test_execute_prints_every_file_it_deletes(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["execute", "rollback", uri]) == 0
    *printed, took = capsys.readouterr().out.splitlines()
    assert printed == [f"rollback {DEAD}: action commit", f"  deleted {LEFTOVER}"]
    assert re.fullmatch(r"rollback: took \d+\.\d core-seconds\.", took)


def test_a_live_write_is_left_alone_and_named(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    hoodie = tideline.open(uri).hoodie_table
    with Heartbeat(hoodie.store, str(DEAD), hoodie.clock):
        assert run(["plan", "rollback", uri, "--json"]) == 0
        assert printed_json(capsys) == {
            "service": "rollback",
            "would_roll_back": [],
            "left_alone": [str(DEAD)],
        }
        assert run(["execute", "rollback", uri]) == 0
        assert LEFTOVER in files_below(uri)
