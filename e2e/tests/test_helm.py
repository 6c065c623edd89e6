"""The chart, installed, upgraded and removed by Helm itself."""

from __future__ import annotations

import secrets
import urllib.error
import urllib.request

from e2e.harness.helm import HelmRelease
from e2e.harness.installation import NAMESPACE, Operator
from e2e.harness.lake import Lake, Row

TOKEN = secrets.token_urlsafe(24)


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
            "stringData": {"token": TOKEN},
        }
    )
    pages = {"enabled": True, "tokenSecret": "tideline-ui"}
    release.upgrade(replicas=2, ui=pages, limits={"operations": 2})
    assert len(operator.pods()) == 2
    with lake.cluster.forwarded(NAMESPACE, "service/tideline-ui", 80) as served:
        address = f"{served}/tables/{lake.namespace}/people"
        code, shown = page(address, TOKEN)
        assert (code, "people" in shown) == (200, True), shown[:500]
        assert page(address) == (401, "these pages need a token\n")
        # Wrong tokens are taken at a limited rate.
        assert {page(address, f"another-token-as-long-{number}")[0] for number in range(5)} == {
            401,
            429,
        }
    lake.land("people", "second", some_rows(range(5, 10)))
    lake.wait_for_ids("people", range(10))

    release.uninstall()
    assert operator.pods() == []
    assert lake.get("people")["status"]["operations"][-1]["phase"] == "Succeeded"
    assert sorted(lake.by_id("people")) == list(range(10))


def page(address: str, token: str | None = None) -> tuple[int, str]:
    """Status and text."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def some_rows(ids: range) -> list[Row]:
    return [{"id": number, "ts": 1, "name": f"row {number}"} for number in ids]
