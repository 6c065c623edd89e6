"""`tideline run` against a real MinIO: landing prefix and table in a bucket."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tideline.hudi.open_table import open_table
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline_operator.local.reconciler import SET_ASIDE
from tideline_operator.testing.local_run import run_process

YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: people}
spec:
  location: %(root)s/table
  storeRef: minio
  recordKey: [id]
  ordering: [ts]
  ingest:
  - name: landing
    source: {format: csv, path: "%(root)s/landing/"}
    maxFilesPerCommit: 2
---
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {name: minio}
spec:
  endpoint: %(endpoint)s
  credentials: {secretName: minio-credentials}
"""


def run(folder: Path, root: str, endpoint: str) -> tuple[int, str, str]:
    text = textwrap.dedent(YAML) % {"root": root, "endpoint": endpoint}
    (folder / "table.yaml").write_text(text)
    done = run_process(folder, "table.yaml")
    return done.returncode, done.stdout, done.stderr


@pytest.mark.minio
@pytest.mark.spark
@pytest.mark.slow
def test_files_that_land_in_a_bucket_become_commits_and_bad_ones_a_note(
    s3_location: StoreLocation, tmp_path: Path
) -> None:
    root = s3_location.uri.removesuffix("/table")
    landing = StoreLocation.of(f"{root}/landing", dict(s3_location.options)).open()
    for number in range(3):
        landing.put(f"{number}.csv", f"id,ts,v\n{number},1,v\n".encode())
    landing.put("a b/bad #1.csv", b"id,ts,v\n9\n")
    endpoint = dict(s3_location.options)["endpoint"]
    code, out, err = run(tmp_path, root, endpoint)
    assert (code, out.count(" upsert: ")) == (SET_ASIDE, 2), err
    assert "here credentials come from the environment" in err
    assert "set aside a b/bad #1.csv: row 1 (line 2): it has 1 value where" in err
    table = open_table(s3_location)
    assert len(table.timeline().completed()) == 2
    listed = list_arrived(landing, FileFormat.CSV)
    assert [file.path for file in listed.quarantined] == ["a b/bad #1.csv"]
    code, out, _ = run(tmp_path, root, endpoint)
    first, *others = out.splitlines()
    assert (code, first) == (
        SET_ASIDE,
        "default/people  next: landing: look for new files in 30 s",
    )
    assert others and all(line.startswith("default/people  not due: ") for line in others)


@pytest.mark.minio
@pytest.mark.usefixtures("minio_credentials")
def test_a_missing_bucket_is_reported_with_its_exit_code(
    s3_location: StoreLocation, tmp_path: Path
) -> None:
    endpoint = dict(s3_location.options)["endpoint"]
    code, out, _ = run(tmp_path, "s3://no-such-bucket", endpoint)
    assert code in (2, 4)
    assert "no-such-bucket" in out


def test_an_unreachable_endpoint_is_reported_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    code, out, _ = run(tmp_path, "s3://lake", "http://127.0.0.1:9")
    assert code == 4
    assert "stopped: " in out
    assert "next: look at the table again in 30 s" in out
