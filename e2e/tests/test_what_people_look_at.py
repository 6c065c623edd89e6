"""What people look at beside kubectl's tables: the plugin, the pages, the metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request

from e2e.harness.cluster import Cluster
from e2e.harness.installation import DEPLOYMENT, NAMESPACE
from e2e.harness.lake import Lake

METRICS, HEALTH = 8080, 8081
OPERATOR = f"deploy/{DEPLOYMENT}"
PLUGIN = "from tideline_operator.plugin.main import main; main()"


def plugin(lake: Lake, *words: str) -> tuple[int, str]:
    """Exit code and output of `kubectl tideline`, as the administrator."""
    done = subprocess.run(
        [sys.executable, "-c", PLUGIN, *words, "-n", lake.namespace],
        capture_output=True,
        text=True,
        env={**os.environ, "KUBECONFIG": str(lake.cluster.kubeconfig)},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_plugin_shows_why_and_pauses_and_resumes(lake: Lake) -> None:
    lake.land("people", "first", [{"id": 1, "ts": 1}])
    lake.apply_table("people")
    lake.wait_for_ids("people", [1])
    lake.wait_for("people", "Ready")
    code, said = plugin(lake, "status", "people", "--json")
    (row,) = json.loads(said)
    assert (code, row["name"], row["ready"]) == (0, "people", "True"), row
    assert plugin(lake, "why", "people") == (0, f"nothing is wrong with {lake.namespace}/people\n")

    assert plugin(lake, "suspend", "people")[0] == 0
    lake.wait_for("people", "Paused")
    code, said = plugin(lake, "why", "people")
    assert code == 1
    assert "Paused" in said
    assert plugin(lake, "resume", "people")[0] == 0
    lake.wait_for("people", "Paused", "False")

    assert plugin(lake, "fence", "people")[0] == 0
    lake.wait_for("people", "Ingesting", "False", reason="Fenced")
    code, said = plugin(lake, "run", "people", "cleaning", "--wait")
    assert code == 0, said
    assert plugin(lake, "resume", "people")[0] == 0
    code, said = plugin(lake, "logs", "people")
    assert code == 0
    assert said.strip()
    assert plugin(lake, "why", "nobody")[0] != 0


def test_the_operator_s_metrics_and_pages_tell_of_the_table(lake: Lake, cluster: Cluster) -> None:
    lake.land("people", "first", [{"id": 1, "ts": 1}])
    lake.apply_table("people")
    lake.wait_for_ids("people", [1])
    lake.wait_for("people", "Ready")
    labels = f'{{namespace="{lake.namespace}",table="people"}}'
    with cluster.forwarded(NAMESPACE, OPERATOR, HEALTH) as address:
        for path in ("/healthz", "/readyz"):
            assert asked(address + path)[0] == 200
    with cluster.forwarded(NAMESPACE, OPERATOR, METRICS) as address:
        cluster.wait_until(
            lambda: f"tideline_table_ready{labels} 1" in asked(f"{address}/metrics")[1],
            "the metrics have the table ready",
            timeout_s=60,
        )
        said = asked(f"{address}/metrics")[1]
    # The labels of the committed dashboard and alerts.
    for name in ("tideline_leader 1", "tideline_reconciles_total{"):
        assert name in said, said


def asked(address: str) -> tuple[int, str]:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.status, answer.read().decode()
