"""The chart, installed, upgraded and removed by Helm itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.build.go_tools import build_helm
from e2e.harness.cluster import Cluster
from e2e.harness.helm import HelmRelease
from e2e.harness.installation import NAMESPACE, Operator
from e2e.harness.lake import Lake, Row


@pytest.fixture
def release(cluster: Cluster, operator: Operator) -> Iterator[HelmRelease]:
    """A cluster without the operator that the other tests share, which gets it back."""
    release = HelmRelease(build_helm(), cluster)
    operator.remove()
    yield release
    release.uninstall()
    operator.install()


def test_a_release_is_installed_upgraded_and_removed_and_tables_stay(
    lake: Lake, release: HelmRelease, operator: Operator
) -> None:
    release.install()
    assert release.status() == "deployed"
    lake.land("people", "first", some_rows(range(5)))
    lake.apply_table("people")
    lake.wait_for_ids("people", range(5))

    lake.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "tideline-ui", "namespace": NAMESPACE},
            "stringData": {"token": "a-token-of-some-length"},
        }
    )
    pages = {"enabled": True, "tokenSecret": "tideline-ui"}
    release.upgrade(replicas=2, ui=pages, limits={"operations": 2})
    assert len(operator.pods()) == 2
    assert lake.cluster.get("Service", "tideline-ui", NAMESPACE) is not None
    lake.land("people", "second", some_rows(range(5, 10)))
    lake.wait_for_ids("people", range(10))

    release.uninstall()
    assert operator.pods() == []
    assert lake.get("people")["status"]["operations"][-1]["phase"] == "Succeeded"
    assert sorted(lake.by_id("people")) == list(range(10))


def some_rows(ids: range) -> list[Row]:
    return [{"id": number, "ts": 1, "name": f"row {number}"} for number in ids]
