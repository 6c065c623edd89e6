"""Every alert of the chart, evaluated by Prometheus' own rule engine: when it fires, when it does
not, and what it says.

A series is written as promtool has it: `0x40` is a zero and forty more of it, one a minute.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tideline_operator.testing.helm_chart import helm_program, rendered
from tideline_operator.testing.manifests import manifests_in
from tideline_operator.testing.promtool import promtool

# `make test` does not build Helm.
pytestmark = pytest.mark.slow
CHART = Path(__file__).resolve().parents[3] / "charts" / "tideline"
VALUES = {"prometheusRule": {"enabled": True}}
PEOPLE = {"namespace": "crm", "table": "people"}
DESCRIBE = "kubectl -n crm describe laketable people shows "


@dataclass(frozen=True)
class Case:
    """Series that set an alert off after so many minutes, and some that do not."""

    alert: str
    series: Mapping[str, str]
    minutes: int
    quiet: Mapping[str, str]
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    severity: str = "warning"
    early_minutes: int | None = None
    """When it must not fire yet."""


CASES = (
    Case(
        "TidelineTableNotReady",
        {'tideline_table_ready{namespace="crm", table="people", pod="a"}': "0x40"},
        35,
        {'tideline_table_ready{namespace="crm", table="people", pod="a"}': "1x40"},
        "LakeTable crm/people is not ready",
        PEOPLE,
        f"{DESCRIBE}the reason.",
        early_minutes=25,
    ),
    Case(
        # Another replica leads after a while: the wait does not begin again.
        "TidelineTableNotReady",
        {
            'tideline_table_ready{namespace="crm", table="people", pod="a"}': "0x20",
            'tideline_table_ready{namespace="crm", table="people", pod="b"}': "_x22 0x20",
        },
        35,
        {
            'tideline_table_ready{namespace="crm", table="people", pod="a"}': "0x20",
            'tideline_table_ready{namespace="crm", table="people", pod="b"}': "_x22 1x20",
        },
        "LakeTable crm/people is not ready",
        PEOPLE,
        f"{DESCRIBE}the reason.",
    ),
    Case(
        "TidelineStoreNotReady",
        {'tideline_store_ready{namespace="crm", store="minio"}': "0x20"},
        12,
        {'tideline_store_ready{namespace="crm", store="minio"}': "0x5 1x20"},
        "LakeStore crm/minio is not ready",
        {"namespace": "crm", "store": "minio"},
        "kubectl -n crm describe lakestore minio shows the bucket and the reason.",
        early_minutes=8,
    ),
    Case(
        "TidelineCatalogNotReady",
        {'tideline_catalog_ready{namespace="crm", catalog="prod"}': "0x40"},
        35,
        {'tideline_catalog_ready{namespace="crm", catalog="prod"}': "1x40"},
        "LakeCatalog crm/prod is not ready",
        {"namespace": "crm", "catalog": "prod"},
        "kubectl -n crm describe lakecatalog prod shows the reason.",
    ),
    Case(
        "TidelineSourceNotReady",
        {'tideline_source_ready{namespace="crm", source="shop"}': "0x40"},
        35,
        {'tideline_source_ready{namespace="crm", source="shop"}': "1x40"},
        "LakeSource crm/shop is not ready",
        {"namespace": "crm", "source": "shop"},
        "kubectl -n crm describe lakesource shop shows the reason.",
    ),
    Case(
        "TidelineFilesWait",
        {'tideline_table_lag_files{namespace="crm", table="people"}': "1001x40"},
        35,
        {'tideline_table_lag_files{namespace="crm", table="people"}': "1000x40"},
        "1001 files wait for LakeTable crm/people",
        PEOPLE,
    ),
    Case(
        "TidelineFilesLate",
        {'tideline_table_oldest_file_age_seconds{namespace="crm", table="people"}': "1860x20"},
        8,
        {'tideline_table_oldest_file_age_seconds{namespace="crm", table="people"}': "1740x20"},
        "A file has waited for 31m 0s to be ingested into LakeTable crm/people",
        PEOPLE,
        f"{DESCRIBE}what ingests wait for.",
    ),
    Case(
        "TidelineRecordsLate",
        {'tideline_table_oldest_record_age_seconds{namespace="crm", table="people"}': "660x20"},
        8,
        {'tideline_table_oldest_record_age_seconds{namespace="crm", table="people"}': "540x20"},
        "A record has waited for 11m 0s to be ingested into LakeTable crm/people",
        PEOPLE,
        f"{DESCRIBE}what ingests wait for.",
    ),
    Case(
        "TidelineSlotRetainsLog",
        {'tideline_table_slot_retained_bytes{namespace="crm", table="people"}': "21474836480x20"},
        8,
        {'tideline_table_slot_retained_bytes{namespace="crm", table="people"}': "10737418240x20"},
        "A server of Postgres keeps 20GiB of its log for LakeTable crm/people",
        PEOPLE,
        f"Its disk fills until the table has read that log: {DESCRIBE}what the ingest waits for.",
    ),
    Case(
        "TidelineSlotAtRisk",
        {'tideline_table_slot_at_risk{namespace="crm", table="people"}': "0x2 1x20"},
        4,
        {'tideline_table_slot_at_risk{namespace="crm", table="people"}': "0x20"},
        "A server of Postgres is about to give up the slot of LakeTable crm/people, and changes "
        "are lost then",
        PEOPLE,
        "Let the table catch up, or raise max_slot_wal_keep_size: the condition Healthy of kubectl "
        "-n crm describe laketable people names the slot.",
        severity="critical",
    ),
    Case(
        "TidelineTableOperationsFail",
        {
            'tideline_table_operations_total{namespace="crm", table="people", kind="ingest", '
            'result="failed"}': "0+1x60"
        },
        60,
        {
            'tideline_table_operations_total{namespace="crm", table="people", kind="ingest", '
            'result="succeeded"}': "0+1x60",
            'tideline_table_operations_total{namespace="crm", table="people", kind="clean", '
            'result="failed"}': "0x30 3x30",
        },
        "60 operations of kind ingest failed in an hour on LakeTable crm/people",
        {**PEOPLE, "kind": "ingest"},
        f"{DESCRIBE}the reason.",
    ),
    Case(
        "TidelineDeadWriter",
        {'tideline_table_dead_instants{namespace="crm", table="people"}': "1x70"},
        65,
        {'tideline_table_dead_instants{namespace="crm", table="people"}': "1x50 0x20"},
        "An instant of a dead writer is left in LakeTable crm/people",
        PEOPLE,
        "It is rolled back before the next write; after an hour nothing has run for the table.",
    ),
    Case(
        "TidelineFilesSetAside",
        {'tideline_table_quarantined_files{namespace="crm", table="people"}': "0x10 2x50"},
        30,
        {'tideline_table_quarantined_files{namespace="crm", table="people"}': "2x60"},
        "Files of LakeTable crm/people could not be read",
        PEOPLE,
        "The notes in _quarantine/ of the landing prefix give the reason; deleting a note retries "
        "its file.",
        severity="info",
    ),
    Case(
        "TidelineNoLeader",
        {'tideline_leader{pod="a"}': "0x20"},
        8,
        {'tideline_leader{pod="a"}': "0x20", 'tideline_leader{pod="b"}': "1x20"},
        "No Tideline operator is the leader, so no table is managed",
        severity="critical",
        early_minutes=3,
    ),
    Case(
        "TidelineOperationsFail",
        {'tideline_operations_total{kind="ingest", result="failed"}': "0+1x60"},
        60,
        {'tideline_operations_total{kind="ingest", result="failed"}': "0x30 4x30"},
        "60 operations failed in the last hour",
    ),
    Case(
        "TidelineReconcilesFail",
        {'tideline_reconciles_total{result="refused"}': "0+1x30"},
        30,
        {'tideline_reconciles_total{result="done"}': "0+100x30"},
        "15 turns of the Tideline operator failed in a quarter of an hour (refused)",
        {"result": "refused"},
        "Events ReconcileFailed name the table and the reason; after an upgrade of the operator "
        "apply its resource definitions.",
    ),
    Case(
        "TidelineTablesStarve",
        {'tideline_queue_oldest_seconds{pod="a"}': "45x10"},
        4,
        {'tideline_queue_oldest_seconds{pod="a"}': "45 45 2x10"},
        "Tables have been waiting for a worker of the Tideline operator for more than half a "
        "minute",
        description="The operator is not ready for as long. More workers may help, or more CPU; a "
        "restart does not.",
    ),
    Case(
        "TidelineEndpointUnavailable",
        {'tideline_endpoint_unavailable{namespace="crm", endpoint="http://minio:9000"}': "1x15"},
        12,
        {'tideline_endpoint_unavailable{namespace="crm", endpoint="http://minio:9000"}': "1x5 0x9"},
        "http://minio:9000 does not answer the Tideline operator; tables of namespace crm use it",
        {"namespace": "crm", "endpoint": "http://minio:9000"},
    ),
    Case(
        "TidelineOperationsStuck",
        {'tideline_operations_stuck{pod="a"}': "2x40"},
        35,
        {'tideline_operations_stuck{pod="a"}': "2x20 0x20"},
        "2 operations cannot start: an image, a selector, a quota or Pod Security",
        description="kubectl get laketables -A -o wide shows OperationStuck where that is so.",
    ),
    Case(
        "TidelineWatchListsAgain",
        {'tideline_watch_lists_total{resource="laketables"}': "0+60x60"},
        45,
        {'tideline_watch_lists_total{resource="laketables"}': "1x60"},
        "The Tideline operator lists laketables again and again: its watches break, or their "
        "versions expire",
        {"resource": "laketables"},
    ),
    Case(
        "TidelineWatchSilent",
        {'tideline_watch_silent_seconds{resource="jobs"}': "301x10"},
        7,
        {'tideline_watch_silent_seconds{resource="jobs"}': "299x10"},
        "The Tideline operator gets no answer from the Kubernetes API",
    ),
)


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    if helm_program() is None:
        missing("helm is not built; run: python -m e2e.build tools")
    (rule,) = (
        item for item in manifests_in(rendered(CHART, VALUES)) if item["kind"] == "PrometheusRule"
    )
    return dict(rule["spec"])


def missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def test_prometheus_fires_each_alert_when_it_should_and_not_otherwise(
    rules: dict[str, Any], tmp_path: Path
) -> None:
    program = promtool()
    if program is None:
        missing("promtool is missing: install Prometheus")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    leads = {'tideline_leader{pod="leader"}': "1x80"}
    tests = []
    for case in CASES:
        around = {} if case.alert == "TidelineNoLeader" else leads
        loud = {"input_series": series({**around, **case.series})}
        checks = [check(case, case.minutes, fires=True)]
        if case.early_minutes is not None:
            checks.append(check(case, case.early_minutes, fires=False))
        tests.append({"interval": "1m", **loud, "alert_rule_test": checks})
        still = {"input_series": series({**around, **case.quiet})}
        nothing = [check(case, case.minutes, fires=False)]
        tests.append({"interval": "1m", **still, "alert_rule_test": nothing})
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [str(program), "test", "rules", "tests.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_alert_is_without_a_case_and_no_series_is_of_another(rules: dict[str, Any]) -> None:
    found = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    assert {case.alert for case in CASES} == set(found)
    for case in CASES:
        for name in {**case.series, **case.quiet}:
            assert name.partition("{")[0] in found[case.alert], case.alert


def series(given: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in given.items()]


def check(case: Case, minutes: int, *, fires: bool) -> dict[str, Any]:
    said = {"summary": case.summary}
    if case.description is not None:
        said["description"] = case.description
    labels = {"severity": case.severity, **case.labels}
    alerts = [{"exp_labels": labels, "exp_annotations": said}] if fires else []
    return {"eval_time": f"{minutes}m", "alertname": case.alert, "exp_alerts": alerts}
