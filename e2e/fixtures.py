"""The fixtures of the end-to-end tests, as a pytest plugin: `-p e2e.fixtures`.

    cluster      a Kubernetes, through pytest-kind's `kind_cluster`, with the project's images in it
    operator     the operator, installed from the manifests in charts/tideline
    release      a release of the chart in the place of that operator
    minio        MinIO in the cluster
    broker       a broker of Kafka in the cluster
    previous_release   the operator and engine of an earlier commit
    lake         a namespace of the test's own with a LakeStore and an empty bucket

The cluster is kind's where Docker and kind are there, elsewhere a node of our own (e2e/node).
`--kind-bin` and `--kind-kubectl-bin` still decide when they are given.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pytest_kind import KindCluster

from e2e.build.go_tools import build_helm
from e2e.build.images import docker_runs
from e2e.build.previous_release import PreviousRelease, build_previous_release
from e2e.build.source_tree import CommitMissingError
from e2e.build.versions import kubernetes_folder
from e2e.harness.account import account
from e2e.harness.broker_pod import BrokerPod
from e2e.harness.cluster import ONE_NODE, Cluster
from e2e.harness.helm import HelmRelease
from e2e.harness.installation import Operator, let_operator_in
from e2e.harness.lake import Lake
from e2e.harness.made_release import Made
from e2e.harness.object_store import IMAGE as MINIO_IMAGE
from e2e.harness.object_store import ClusterMinio
from tideline.testing.peer_environment import PeerEnvironment, prepare_hudi_peer


def pytest_configure(config: pytest.Config) -> None:
    """Choose the program behind pytest-kind, unless the command line did."""
    os.environ.setdefault("TIDELINE_PYTHON", sys.executable)
    if config.option.kind_bin is None:
        config.option.kind_bin = str(_kind() or ONE_NODE)
    if config.option.kind_kubectl_bin is None:
        config.option.kind_kubectl_bin = str(kubernetes_folder() / "kubectl")
    if config.option.cluster_name == "pytest-kind":
        config.option.cluster_name = "tideline-e2e"


@pytest.fixture(scope="session")
def cluster(kind_cluster: KindCluster, request: pytest.FixtureRequest) -> Cluster:
    """The cluster that all tests share."""
    option = request.config.option
    return Cluster(
        kind_cluster.name,
        Path(kind_cluster.kubeconfig_path),
        Path(option.kind_kubectl_bin),
        Path(option.kind_bin),
    )


@pytest.fixture(scope="session")
def minio(cluster: Cluster) -> Iterator[ClusterMinio]:
    """The object store that all tests share."""
    cluster.load_image(MINIO_IMAGE)
    store = ClusterMinio(cluster)
    store.start()
    yield store
    store.stop()


@pytest.fixture(scope="session")
def broker(cluster: Cluster) -> Iterator[BrokerPod]:
    """The broker that all tests share; each makes its own topics."""
    broker = BrokerPod(cluster)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Operator:
    """The operator as users install it."""
    operator = Operator(cluster)
    operator.install()
    return operator


@pytest.fixture
def release(cluster: Cluster, operator: Operator) -> Iterator[HelmRelease]:
    """A cluster without the operator that the other tests share, which gets it back."""
    release = HelmRelease(build_helm(), cluster)
    operator.remove()
    yield release
    release.uninstall()
    operator.install()


@pytest.fixture(scope="session")
def previous_release() -> PreviousRelease:
    """The version that users upgrade from; built at first use."""
    try:
        return build_previous_release()
    except CommitMissingError as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A release of HEAD that is made and pushed."""
    with Made.published(tmp_path_factory.mktemp("release")) as made:
        yield made


@pytest.fixture(scope="session")
def hudi_rs() -> PeerEnvironment:
    """The Python in which hudi-rs is installed."""
    return prepare_hudi_peer()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test that enforces the strictest Pod Security."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    name = f"{words[:30].strip('-')}-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": labels}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    let_operator_in(cluster, name)
    yield name
    cluster.delete("Namespace", name)


@pytest.fixture
def lake(
    cluster: Cluster,
    operator: Operator,  # noqa: ARG001 -- must be installed, nothing more
    minio: ClusterMinio,
    namespace: str,
    hudi_rs: PeerEnvironment,
) -> Lake:
    """A namespace with credentials, a LakeStore and a bucket."""
    lake = Lake(cluster, minio, namespace, hudi_rs)
    lake.prepare()
    return lake


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the content of the cluster when a test failed: it is deleted afterwards."""
    report = yield
    found = getattr(item, "funcargs", {})
    if report.failed and "cluster" in found and "namespace" in found:
        report.sections.append(("the cluster", account(found["cluster"], found["namespace"])))
    return report


def _kind() -> Path | None:
    """kind, where it is installed and Docker runs."""
    kind = shutil.which("kind")
    return Path(kind) if kind is not None and docker_runs() else None
