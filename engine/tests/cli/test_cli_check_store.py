"""`tideline check-store`: named checks for people and machines, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideline.cli.main import run
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import Changed, Written
from tideline.storage.probe.report import StorePromise, StoreReport


def test_a_sound_store_passes_every_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "of the user").write_bytes(b"x")
    assert run(["check-store", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for promise in StorePromise:
        assert any(line.split()[:2] == [str(promise), "passed"] for line in lines)
    assert lines[-1] == "Every check passed: concurrent writers are safe here."
    assert [left.name for left in tmp_path.iterdir()] == ["of the user"]


def test_a_store_that_loses_races_ends_with_exit_code_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def overwrite(store: MemoryStore, path: str, body: bytes, *, version: str) -> Written | Changed:
        return store.put(path, body) if version else Changed()

    monkeypatch.setattr(MemoryStore, "put_if_match", overwrite)
    assert run(["check-store", "memory://unsound", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["uri"], document["outcome"]) == ("memory://unsound", "failed")
    failed = {str(result.promise) for result in StoreReport.from_json_object(document).complaints}
    assert failed - {"counter"} == {"replace-matching", "replace-missing", "replace-race"}
    assert run(["check-store", "memory://unsound"]) == 1
    said = capsys.readouterr().out
    assert " checks not passed." in said
    assert "two writers would hold the table lock at once" in said
    MemoryStore.forget("unsound")


def test_other_endpoints_are_for_s3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = ["--also-endpoint", "https://node-2.example:9000"]
    assert run(["check-store", str(tmp_path), *other]) == 2
    assert "--also-endpoint is for s3://" in capsys.readouterr().err


@pytest.mark.usefixtures("aws_credentials")
def test_a_store_out_of_reach_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    connection = ["--endpoint", "http://no-such-host.invalid", "--allow-http"]
    assert run(["check-store", "s3://bucket/t", *connection]) == 4
    assert "host name not found" in capsys.readouterr().err


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "some-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "some-secret")
