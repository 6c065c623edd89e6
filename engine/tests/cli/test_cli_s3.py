"""Tables on S3: the endpoint from options or the environment, credentials from the latter only."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tideline.cli.main import run
from tideline.storage.location import StoreLocation

pytestmark = pytest.mark.minio


def endpoint_of(location: StoreLocation) -> str:
    return dict(location.options)["endpoint"]


def test_a_table_is_created_by_options_and_shown_by_environment(
    s3_location: StoreLocation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connection = ["--endpoint", endpoint_of(s3_location), "--allow-http"]
    assert run(["create", s3_location.uri, "--record-key", "id", *connection]) == 0
    capsys.readouterr()
    monkeypatch.setenv("TIDELINE_S3_ENDPOINT", endpoint_of(s3_location))
    monkeypatch.setenv("TIDELINE_S3_ALLOW_HTTP", "true")
    for command in (["show"], ["list-instants"], ["list-files"], ["plan", "rollback"]):
        assert run([*command, s3_location.uri, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)


def test_a_missing_bucket_is_created_when_asked(
    s3_location: StoreLocation, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = ["--endpoint", endpoint_of(s3_location), "--allow-http"]
    create = ["create", f"s3://bucket-{uuid4().hex}/t", "--record-key", "id", *connection]
    assert run(create) == 2
    assert "tideline create --create-bucket" in capsys.readouterr().err
    assert run([*create, "--create-bucket"]) == 0
    assert run(["show", create[1], *connection]) == 0


def test_wrong_credentials_are_storage_trouble_and_never_printed(
    s3_location: StoreLocation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    connection = ["--endpoint", endpoint_of(s3_location), "--allow-http"]
    assert run(["show", s3_location.uri, *connection]) == 4
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert endpoint_of(s3_location) in error
    assert "a-wrong-secret" not in error


def test_no_credentials_is_a_usage_error_that_names_the_variables(
    s3_location: StoreLocation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    connection = ["--endpoint", endpoint_of(s3_location), "--allow-http"]
    assert run(["show", s3_location.uri, *connection]) == 2
    assert "AWS_ACCESS_KEY_ID" in capsys.readouterr().err
