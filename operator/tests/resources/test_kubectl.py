"""What people type, with a real kubectl against a real API server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tideline_operator.kube import LAKE_TABLES
from tideline_operator.resources.parsing import to_json_object
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
    TableStatus,
    TimelineStatus,
)
from tideline_operator.testing.api_server import ApiServer, programs_folder

pytestmark = pytest.mark.api_server

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "kubernetes"
STATUS = LakeTableStatus(
    conditions=(
        Condition(
            type=ConditionType.READY,
            status=ConditionStatus.TRUE,
            reason="Current",
            last_transition_time=Timestamp(1_700_000_000_000),
        ),
    ),
    lag_files=3,
    timeline=TimelineStatus(latest="20240101000000000", pending_count=1),
    table=TableStatus(files=12),
)

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(api_server: ApiServer, tmp_path: Path) -> Kubectl:
    """Runs kubectl as the administrator; its output."""
    folder = programs_folder()
    program = None if folder is None else folder / "kubectl"
    if program is None or not program.exists():
        reason = "kubectl is not built; run: python -m e2e.build api-server"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    environment = {"KUBECONFIG": str(api_server.kubeconfig), "HOME": str(tmp_path)}

    def run(*arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [str(program), *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert bool(done.returncode) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


@pytest.fixture
def example(kubectl: Kubectl, tmp_path: Path) -> Kubectl:
    """The example, applied as docs/install.md says."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(EXAMPLE, folder)
    text = "AWS_ACCESS_KEY_ID=lake\nAWS_SECRET_ACCESS_KEY=not-a-secret\n"
    (folder / "credentials.env").write_text(text)
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(folder))
    return kubectl


def test_the_example_applied_again_changes_nothing(
    example: Kubectl, api_server: ApiServer, tmp_path: Path
) -> None:
    before = api_server.api().get(LAKE_TABLES, "flights", "lake")
    lines = example("apply", "--server-side", "-k", str(tmp_path / "kubernetes")).splitlines()
    assert len(lines) == 8
    assert api_server.api().get(LAKE_TABLES, "flights", "lake") == before


def test_the_installation_is_applied_by_the_server(kubectl: Kubectl) -> None:
    chart = ROOT / "charts" / "tideline"
    files = ("-f", str(chart / "crds"), "-f", str(chart / "operator.yaml"))
    lines = kubectl("apply", "--server-side", "--force-conflicts", *files).splitlines()
    assert all(line.endswith("serverside-applied") for line in lines), lines


def test_columns_short_names_and_waiting(example: Kubectl, api_server: ApiServer) -> None:
    api = api_server.api()
    table = api.get(LAKE_TABLES, "flights", "lake")
    assert table is not None
    table["status"] = to_json_object(STATUS)
    api.replace(LAKE_TABLES, table, "lake", subresource="status")
    header, row = example("-n", "lake", "get", "lt").splitlines()
    assert header.split() == [
        *("NAME", "FORMAT", "READY", "LATEST", "PENDING", "FILES", "REASON", "LAG", "AGE"),
    ]
    assert row.split()[:-1] == [
        "flights", "Hudi", "True", "20240101000000000", "1", "12", "Current", "3",
    ]  # fmt: skip
    assert "http://minio.lake.svc:9000" in example("-n", "lake", "get", "ls")
    assert "laketable.tideline.dev/flights" in example(
        "-n", "lake", "get", "tideline", "-o", "name"
    )
    met = example("-n", "lake", "wait", "--for=condition=Ready", "lt/flights", "--timeout=5s")
    assert met.strip() == "laketable.tideline.dev/flights condition met"


def test_fields_are_explained(kubectl: Kubectl) -> None:
    text = " ".join(kubectl("explain", "laketable.spec.ingest.trigger").split())
    assert "When the landing prefix is looked at." in text
    assert "every <string> Interval, such as 30s." in text


def test_a_wrong_field_is_reported_with_its_path(kubectl: Kubectl, tmp_path: Path) -> None:
    text = (EXAMPLE / "flights.yaml").read_text("utf-8")
    (tmp_path / "wrong.yaml").write_text(text.replace("everyCommits: 12", "everyCommits: 0"))
    message = kubectl("apply", "-f", "wrong.yaml", fails=True)
    assert "spec.services.clustering.everyCommits" in message
    assert "should be greater than or equal to 1" in message
    (tmp_path / "wrong.yaml").write_text(text.replace("everyCommits:", "everyCommit:"))
    message = kubectl("apply", "-f", "wrong.yaml", fails=True)
    assert 'unknown field "spec.services.clustering.everyCommit"' in message


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["kubectl", "the-server"])
def test_a_misspelled_selector_of_a_pod_template_is_refused(
    kubectl: Kubectl, tmp_path: Path, way: tuple[str, ...]
) -> None:
    text = (EXAMPLE / "flights.yaml").read_text("utf-8")
    template = "spec:\n  podTemplate: {spec: {nodeSelectr: {disk: fast}}}\n"
    wrong = text.replace("spec:\n", template, 1)
    (tmp_path / "wrong.yaml").write_text(wrong)
    message = kubectl("apply", *way, "-f", "wrong.yaml", fails=True)
    assert ".podTemplate.spec.nodeSelectr" in message, message
