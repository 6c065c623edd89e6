"""The Job of an operation: safety, sizes, security, credentials, and what a pod template may do."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.ingest.executors.kubernetes_pods import CONTAINER_NAME
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    CreateTable,
    IngestRange,
    MakeSavepoint,
    Operation,
    RestoreTable,
    RollBack,
    RunService,
    TableTarget,
    Work,
)
from tideline.ingest.sources.files.arrived import ArrivedFile, FileRange
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileFormat
from tideline.own_process import ALLOCATION
from tideline.testing.file_ingests import ingest_of_files
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.asked_memory import operation_memory_bytes
from tideline_operator.launch.driver_job import (
    driver_job,
    job_name,
    memory_asked_bytes,
    operation_config_map,
)
from tideline_operator.launch.engine_pod import CA_BUNDLE_PATH, LaunchSettings
from tideline_operator.launch.made_from import MADE_FROM_LABEL, made_from
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.resources.lake_store import (
    LakeStoreSpec,
    StoreCredentials,
    StoreTls,
    StoreWebIdentity,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.table_states import resolved

GIB = 1024**3
SETTINGS = LaunchSettings("localhost/tideline-engine:dev")
OWNER: Manifest = {
    "apiVersion": "tideline.dev/v1alpha1",
    "kind": "LakeTable",
    "metadata": {"name": "people", "uid": "0f"},
}
INGEST = ingest_of_files(
    "landing", Location("s3://lake/in"), FileFormat.PARQUET, (ArrivedFile("a", 1, 1),), generation=0
)
MOVES_ROWS: tuple[Work, ...] = (
    INGEST,
    RunService(COMPACTION, ""),
    RunService(LOG_COMPACTION, ""),
    RunService(CLUSTERING, ""),
)
MOVES_NONE: tuple[Work, ...] = (
    CreateTable(),
    RollBack(("1",)),
    RunService(CLEANING, ""),
    RunService(ARCHIVAL, ""),
    RunService(PARTITION_TTL, ""),
    MakeSavepoint("s", "1"),
    RestoreTable("1", "2"),
)


def operation(work: Work = INGEST, **target: Any) -> Operation:
    place = Location("s3://lake/people", (("endpoint", "https://minio:9000"),))
    return Operation("people-ingest-0a1b2c", TableTarget("people", place, ("id",), **target), work)


def on_s3(table: ResolvedTable | None = None, **stores: LakeStoreSpec) -> ResolvedTable:
    named = stores or {"minio": store("minio-credentials")}
    return replace(table or resolved(), stores=named)


def store(secret: str | None, *, ca: str | None = None) -> LakeStoreSpec:
    credentials = StoreCredentials(secret_name=secret) if secret else None
    tls = StoreTls(ca_secret_name=ca) if ca else None
    return LakeStoreSpec(endpoint="https://minio:9000", credentials=credentials, tls=tls)


def job_of(work: Work = INGEST, table: ResolvedTable | None = None, **settings: Any) -> Manifest:
    return driver_job(
        operation(work),
        table or on_s3(),
        1,
        owner=OWNER,
        settings=replace(SETTINGS, **settings),
    )


def pod_of(work: Work = INGEST, table: ResolvedTable | None = None, **settings: Any) -> Manifest:
    template: Manifest = job_of(work, table, **settings)["spec"]["template"]
    return template


def data_of(work: Work = INGEST, table: ResolvedTable | None = None) -> dict[str, Any]:
    """The ConfigMap's files, parsed."""
    manifest = operation_config_map(
        operation(work), table or on_s3(), 1, owner=OWNER, settings=SETTINGS
    )
    return {name: json.loads(text) for name, text in manifest["data"].items()}


def variables(template: Manifest) -> dict[str, Any]:
    found = engine_container(template)["env"]
    assert len({item["name"] for item in found}) == len(found)
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in found}


def test_nothing_starts_a_second_driver() -> None:
    spec = job_of()["spec"]
    assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (0, 1, 1)
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_a_job_names_its_table_and_operation() -> None:
    metadata = job_of()["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("people-ingest-0a1b2c-1", "default")
    labels = dict(metadata["labels"])
    assert re.fullmatch("[0-9a-f]{16}", labels.pop(MADE_FROM_LABEL))
    assert labels == {
        "app.kubernetes.io/managed-by": "tideline-operator",
        "tideline.dev/table": "people",
        "tideline.dev/operation": "people-ingest-0a1b2c",
        "tideline.dev/kind": "ingest",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("LakeTable", "people", "0f")
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, False)
    assert labels.items() <= pod_of()["metadata"]["labels"].items()


def test_what_a_job_is_made_from_changes_with_spec_stores_and_settings() -> None:
    table = resolved()
    same = made_from(table, asdict(SETTINGS))
    assert made_from(resolved(), asdict(SETTINGS)) == same
    others = (
        made_from(resolved(podTemplate={"spec": {"nodeSelector": {"a": "b"}}}), asdict(SETTINGS)),
        made_from(replace(table, stores={"minio": LakeStoreSpec(region="eu-1")}), asdict(SETTINGS)),
        made_from(table, asdict(replace(SETTINGS, image="localhost/tideline-engine:next"))),
    )
    assert len({same, *others}) == 4


def test_time_limits_are_those_of_the_settings() -> None:
    assert "activeDeadlineSeconds" not in job_of()["spec"]
    spec = job_of(ttl_s=60, deadline_s=900, grace_s=45)["spec"]
    assert (spec["ttlSecondsAfterFinished"], spec["activeDeadlineSeconds"]) == (60, 900)
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 45
    assert variables(spec["template"])["TIDELINE_GRACE_S"] == "45"


@pytest.mark.parametrize(
    ("operation_id", "attempt", "name"),
    [
        ("orders-ingest-0a1b", 1, "orders-ingest-0a1b-1"),
        ("a" * 60 + "-0a1b", 12, "a" * 55 + "-0a1b-12"),
        ("a-" + "b" * 55 + "-0a1b", 123, "b" * 54 + "-0a1b-123"),
    ],
)
def test_a_job_name_fits_and_keeps_its_end(operation_id: str, attempt: int, name: str) -> None:
    assert job_name(operation_id, attempt) == name
    assert len(name) <= 63


@pytest.mark.parametrize("work", MOVES_NONE, ids=lambda work: type(work).__name__)
def test_work_without_rows_is_one_small_pod_that_cannot_reach_the_api(work: Work) -> None:
    template = pod_of(work)
    assert template["spec"]["automountServiceAccountToken"] is False
    assert "TIDELINE_SPARK_PODS" not in variables(template)
    assert engine_container(template)["resources"]["limits"]["memory"] == "512Mi"
    assert set(data_of(work)) == {"operation.json"}
    assert memory_asked_bytes(operation(work), on_s3()) == GIB // 2


@pytest.mark.parametrize("work", MOVES_ROWS, ids=lambda work: type(work).__name__)
def test_work_that_moves_rows_is_a_driver_that_may_start_executors(work: Work) -> None:
    template = pod_of(work)
    assert template["spec"]["serviceAccountName"] == "tideline-engine"
    assert template["spec"]["automountServiceAccountToken"] is True
    found = variables(template)
    assert found["TIDELINE_SPARK_PODS"] == "/etc/tideline/operation/spark-pods.json"
    assert found["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert set(data_of(work)) == {"operation.json", "spark-pods.json", "executor-pod.json"}


def test_the_memory_asked_for_is_that_of_the_driver_and_of_all_executors() -> None:
    sizes = {"driver": {"memory": "2Gi"}, "executor": {"memory": "3Gi", "max": 4}}
    table = on_s3(resolved(resources=sizes))
    assert memory_asked_bytes(operation(), table) == 14 * GIB
    side = {"name": "more", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}
    larger = on_s3(resolved(resources=sizes, podTemplate={"spec": {"containers": [side]}}))
    assert operation_memory_bytes(operation(), larger) == 19 * GIB
    assert engine_container(pod_of(table=table))["resources"] == {
        "requests": {"cpu": "500m", "memory": "2048Mi"},
        "limits": {"memory": "2048Mi"},
    }
    pods = data_of(table=table)["spark-pods.json"]
    assert (pods["driver_memory_bytes"], pods["executor_memory_bytes"]) == (2 * GIB, 3 * GIB)
    assert (pods["executors_min"], pods["executors_max"]) == (0, 4)


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_containers_too_small_for_java_are_refused_by_field(role: str) -> None:
    table = on_s3(resolved(resources={role: {"memory": "500Mi"}}))
    with pytest.raises(ConfigError, match=rf"spec\.resources\.{role}\.memory: 500Mi.*896Mi"):
        job_of(table=table)
    assert job_of(CreateTable(), table)


def test_pods_meet_the_restricted_security_standard_on_a_read_only_root() -> None:
    for template in (pod_of(), pod_of(CreateTable()), data_of()["executor-pod.json"]):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        container = engine_container(template)
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_credentials_are_only_ever_references() -> None:
    reference = {"secretKeyRef": {"name": "minio-credentials", "key": "AWS_SECRET_ACCESS_KEY"}}
    for template in (pod_of(), pod_of(CreateTable()), data_of()["executor-pod.json"]):
        assert variables(template)["AWS_SECRET_ACCESS_KEY"] == reference
    bare = on_s3(minio=store(None))
    assert "AWS_SECRET_ACCESS_KEY" not in variables(pod_of(table=bare))


def test_temporary_keys_may_have_a_token() -> None:
    reference = {"name": "minio-credentials", "key": "AWS_SESSION_TOKEN", "optional": True}
    for template in (pod_of(), data_of()["executor-pod.json"]):
        assert variables(template)["AWS_SESSION_TOKEN"] == {"secretKeyRef": reference}


def test_an_identity_is_a_token_that_the_kubelet_renews() -> None:
    identity = StoreWebIdentity(
        role_arn="arn:minio:iam:::role/lake",
        audience="tideline",
        sts_endpoint="https://minio:9000/",
    )
    table = on_s3(minio=replace(store(None), web_identity=identity))
    for template in (
        pod_of(table=table),
        pod_of(CreateTable(), table),
        data_of(table=table)["executor-pod.json"],
    ):
        given = variables(template)
        assert given["AWS_ROLE_ARN"] == "arn:minio:iam:::role/lake"
        assert given["AWS_ENDPOINT_URL_STS"] == "https://minio:9000"
        assert given["AWS_REGION"] == "us-east-1"
        assert "AWS_ACCESS_KEY_ID" not in given
        folder, _, file = str(given["AWS_WEB_IDENTITY_TOKEN_FILE"]).rpartition("/")
        mounts = engine_container(template)["volumeMounts"]
        assert {"name": "identity", "mountPath": folder, "readOnly": True} in mounts
        volume = next(item for item in template["spec"]["volumes"] if item["name"] == "identity")
        (source,) = volume["projected"]["sources"]
        token = {"audience": "tideline", "expirationSeconds": 3_600, "path": file}
        assert source == {"serviceAccountToken": token}


def test_stores_of_one_table_have_one_identity() -> None:
    identity = StoreWebIdentity(role_arn="arn:minio:iam:::role/lake")
    table = on_s3(a=store(None), b=replace(store(None), web_identity=identity))
    with pytest.raises(ConfigError, match=r"a, b differ in spec\.webIdentity.*the same one"):
        job_of(table=table)


def test_authorities_are_mounted_where_the_operation_looks_for_them() -> None:
    table = on_s3(minio=store("keys", ca="authorities"))
    for template in (pod_of(table=table), data_of(table=table)["executor-pod.json"]):
        assert variables(template)["AWS_CA_BUNDLE"] == CA_BUNDLE_PATH
        volume = next(item for item in template["spec"]["volumes"] if item["name"] == "ca")
        assert volume["secret"]["secretName"] == "authorities"
        assert volume["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    assert isinstance(INGEST.source, DeclaredFiles)
    elsewhere = Location("s3://lake/people", (("ca_bundle", "/somewhere/else.pem"),))
    planned = replace(
        operation(replace(INGEST, source=replace(INGEST.source, landing=elsewhere))),
        table=replace(operation().table, location=elsewhere),
    )
    written = operation_config_map(planned, table, 1, owner=OWNER, settings=SETTINGS)
    read = Operation.from_json_object(json.loads(written["data"]["operation.json"]))
    assert isinstance(read.work, IngestRange)
    for place in (read.table.location, *read.work.source.places):
        assert dict(place.options)["ca_bundle"] == CA_BUNDLE_PATH
    assert read.id == planned.id


@pytest.mark.parametrize(
    ("one", "other", "field"),
    [
        (store("a"), store("b"), "credentials"),
        (store("a"), store(None), "credentials"),
        (store("a", ca="x"), store("a", ca="y"), "tls"),
    ],
)
def test_stores_with_different_secrets_are_refused(
    one: LakeStoreSpec, other: LakeStoreSpec, field: str
) -> None:
    with pytest.raises(ConfigError, match=rf"spec\.ingest: .*one, other.*spec\.{field}"):
        job_of(table=on_s3(one=one, other=other))


def test_the_operation_in_the_config_map_is_the_operation() -> None:
    written = data_of()["operation.json"]
    assert Operation.from_json_object(written) == operation()


def test_an_operation_too_large_for_a_config_map_says_what_to_lower() -> None:
    files = tuple(ArrivedFile("x" * 1000 + str(number), 1, 1) for number in range(1000))
    with pytest.raises(ConfigError, match="maxFilesPerCommit"):
        data_of(replace(INGEST, range=FileRange(files)))


def test_a_pod_template_reaches_driver_and_executors() -> None:
    users = {
        "metadata": {"labels": {"team": "air"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "spark", "operator": "Exists"}],
            "securityContext": {"runAsUser": None, "fsGroup": 1000},
            "containers": [
                {"name": CONTAINER_NAME, "env": [{"name": "TZ", "value": "UTC"}]},
                {"name": "sidecar", "image": "logs:1"},
            ],
        },
    }
    table = on_s3(resolved(podTemplate=users))
    for template in (pod_of(table=table), data_of(table=table)["executor-pod.json"]):
        pod = template["spec"]
        assert template["metadata"]["labels"]["team"] == "air"
        assert template["metadata"]["labels"]["tideline.dev/table"] == "people"
        assert pod["nodeSelector"] == {"disk": "ssd"}
        assert pod["tolerations"] == [{"key": "spark", "operator": "Exists"}]
        assert "runAsUser" not in pod["securityContext"]
        assert pod["securityContext"]["fsGroup"] == 1000
        assert [item["name"] for item in pod["containers"]] == [CONTAINER_NAME, "sidecar"]
        assert variables(template)["TZ"] == "UTC"
        assert "AWS_ACCESS_KEY_ID" in variables(template)


def test_memory_is_kept_as_in_a_local_worker_unless_the_template_says_otherwise() -> None:
    assert ALLOCATION.items() <= variables(pod_of()).items()
    users = [{"name": "MALLOC_ARENA_MAX", "value": "8"}]
    template = {"spec": {"containers": [{"name": CONTAINER_NAME, "env": users}]}}
    found = variables(pod_of(table=on_s3(resolved(podTemplate=template))))
    assert ({**ALLOCATION, "MALLOC_ARENA_MAX": "8"}).items() <= found.items()


def test_what_kueue_queues_a_job_by_is_on_the_job_and_changes_nothing_else_of_it() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "tables", "team": "air"}
    table = on_s3(resolved(podTemplate={"metadata": {"labels": labels}}))
    plain, queued = (job_of(table=found)["metadata"] for found in (on_s3(), table))
    assert queued["labels"].pop("kueue.x-k8s.io/queue-name") == "tables"
    plain["labels"].pop(MADE_FROM_LABEL), queued["labels"].pop(MADE_FROM_LABEL)
    assert queued == plain


def test_defaults_of_the_operator_are_under_a_tables_own() -> None:
    defaults = {
        "metadata": {"labels": {"team": "platform", "cost": "7"}},
        "spec": {"nodeSelector": {"pool": "spark"}, "imagePullSecrets": [{"name": "pull"}]},
    }
    table = on_s3(resolved(podTemplate={"metadata": {"labels": {"team": "air"}}}))
    settings: dict[str, Any] = {
        "pod_template": defaults,
        "spark_conf": {"spark.task.maxFailures": "2", "spark.x": "1"},
    }
    data = operation_config_map(
        operation(), table, 1, owner=OWNER, settings=replace(SETTINGS, **settings)
    )["data"]
    for template in (pod_of(table=table, **settings), json.loads(data["executor-pod.json"])):
        labels = template["metadata"]["labels"]
        assert (labels["team"], labels["cost"]) == ("air", "7")
        assert template["spec"]["nodeSelector"] == {"pool": "spark"}
        assert template["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert json.loads(data["spark-pods.json"])["conf"] == settings["spark_conf"]
    own = on_s3(resolved(engine={"sparkConf": {"spark.x": "2"}}))
    pods = operation_config_map(
        operation(), own, 1, owner=OWNER, settings=replace(SETTINGS, **settings)
    )["data"]["spark-pods.json"]
    assert json.loads(pods)["conf"] == {"spark.task.maxFailures": "2", "spark.x": "2"}


def test_a_driver_stays_when_a_cluster_shrinks() -> None:
    annotations = pod_of()["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"
    assert "annotations" not in data_of()["executor-pod.json"]["metadata"]
    away = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}}
    kept = pod_of(table=on_s3(resolved(podTemplate=away)))["metadata"]["annotations"]
    assert list(kept) == ["cluster-autoscaler.kubernetes.io/safe-to-evict"]


def test_room_on_the_disk_is_requested_and_limited() -> None:
    sizes = {"driver": {"ephemeralStorage": "1Gi"}, "executor": {"ephemeralStorage": "8Gi"}}
    table = on_s3(resolved(resources=sizes))
    driver = engine_container(pod_of(table=table))["resources"]
    executor = engine_container(data_of(table=table)["executor-pod.json"])["resources"]
    for kind in ("requests", "limits"):
        assert driver[kind]["ephemeral-storage"] == "1Gi"
        assert driver[kind]["memory"]
        assert executor[kind] == {"ephemeral-storage": "8Gi"}
    assert "resources" not in engine_container(data_of()["executor-pod.json"])


def test_event_logs_go_where_the_tables_store_says() -> None:
    logs = "s3://lake/spark-events"
    kept = replace(store("minio-credentials"), event_logs=logs)
    table = on_s3(resolved(storeRef="minio"), minio=kept)
    assert data_of(table=table)["spark-pods.json"]["event_logs"] == logs
    assert "event_logs" not in data_of()["spark-pods.json"]


def test_a_pod_template_cannot_take_the_operation_away() -> None:
    users = {
        "spec": {
            "containers": [
                {
                    "name": CONTAINER_NAME,
                    "image": "mirror/engine:1",
                    "command": ["sleep"],
                    "args": ["1"],
                    "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "oops"}],
                    "resources": {"limits": {"memory": "64Mi", "cpu": "2"}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                }
            ],
        },
    }
    table = on_s3(resolved(podTemplate=users))
    template = pod_of(table=table)
    container = engine_container(template)
    assert template["spec"]["restartPolicy"] == "Never"
    assert "command" not in container
    assert container["args"][:3] == ["tideline", "execute", "--operation"]
    assert container["terminationMessagePolicy"] == "File"
    assert container["resources"]["limits"] == {"memory": "1024Mi", "cpu": "2"}
    secret = next(item for item in container["env"] if item["name"] == "AWS_SECRET_ACCESS_KEY")
    assert "secretKeyRef" in secret["valueFrom"]
    assert "value" not in secret
    assert data_of(table=table)["spark-pods.json"]["image"] == "mirror/engine:1"


@pytest.mark.parametrize(
    ("users", "field"),
    [
        ({"status": {}}, "status"),
        ({"metadata": {"name": "x"}}, "metadata.name"),
        ({"spec": []}, "spec"),
        ({"spec": {"containers": {}}}, "spec.containers"),
        ({"spec": {"containers": [{"image": "x"}]}}, r"spec.containers\[0\].name"),
        ({"spec": {"containers": ["x"]}}, r"spec.containers\[0\]"),
        ({"spec": {"containers": [{"name": "engine", "env": [{}]}]}}, r"containers\[0\].env\[0\]"),
        ({"spec": {"volumes": [{}]}}, r"spec.volumes\[0\].name"),
    ],
)
def test_a_pod_template_of_another_shape_is_refused_by_field(
    users: dict[str, Any], field: str
) -> None:
    table = on_s3(with_template(users))
    with pytest.raises(ConfigError, match=rf"spec\.podTemplate\..*{field}"):
        job_of(table=table)


def with_template(users: dict[str, Any]) -> ResolvedTable:
    """A table whose template no parser has seen."""
    table = resolved()
    spec = replace(table.resource.spec, pod_template=users)
    return replace(table, resource=replace(table.resource, spec=spec))
