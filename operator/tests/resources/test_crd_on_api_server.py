"""The resource definitions on a real API server: what it takes, refuses, fills in and prints."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline_operator.kube import (
    CUSTOM_RESOURCE_DEFINITIONS,
    LAKE_STORES,
    LAKE_TABLES,
    KubeApi,
    Manifest,
)
from tideline_operator.resources.documents import read_documents
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import (
    parse_object,
    parse_resource,
    parse_stored,
    to_json_object,
)
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    PendingInstant,
    ServiceStatus,
    TableStatus,
    TimelineStatus,
)
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.refused_iceberg_specs import ICEBERG_REFUSALS
from tideline_operator.testing.refused_indexes import INDEX_REFUSALS
from tideline_operator.testing.refused_pod_templates import POD_REFUSALS, RESTRICTED
from tideline_operator.testing.refused_postgres import POSTGRES_REFUSALS
from tideline_operator.testing.refused_specs import REFUSALS, RefusedSpec
from tideline_operator.testing.refused_stores import CLOUD_STORES, MIXED_STORES
from tideline_operator.testing.refused_topics import TOPIC_REFUSALS
from tideline_operator.testing.resource_examples import (
    EVERYTHING,
    ICEBERG,
    ICEBERG_CATALOG,
    ICEBERG_MINIMAL,
    LAKE_CATALOG,
    MINIMAL,
)

pytestmark = pytest.mark.api_server

ROOT = Path(__file__).resolve().parents[3]
GROUP = "/apis/tideline.dev/v1alpha1"
TABLE_FORM = "application/json;as=Table;v=v1;g=meta.k8s.io"
STORE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {name: minio}
spec: {endpoint: "http://minio:9000"}
"""
EXAMPLES = {
    "everything": EVERYTHING,
    "minimal": MINIMAL,
    "iceberg": ICEBERG,
    "iceberg-minimal": ICEBERG_MINIMAL,
    "iceberg-catalog": ICEBERG_CATALOG,
}
ALL_REFUSALS = (
    *REFUSALS,
    *ICEBERG_REFUSALS,
    *INDEX_REFUSALS,
    *TOPIC_REFUSALS,
    *POSTGRES_REFUSALS,
    *POD_REFUSALS,
)
STATUS = LakeTableStatus(
    observed_generation=1,
    conditions=(
        Condition(
            type=ConditionType.READY,
            status=ConditionStatus.TRUE,
            reason="Current",
            last_transition_time=Timestamp(1_700_000_000_123),
        ),
    ),
    lag_files=3,
    timeline=TimelineStatus(
        latest="20240101000000000",
        latest_action="deltacommit",
        completed=4,
        pending_count=1,
        pending=(PendingInstant(time="20240101000001000", action="commit", state="inflight"),),
    ),
    table=TableStatus(files=0, bytes=0),
    services={"cleaning": ServiceStatus(is_due=True, reason="3 commits")},
    operations=(
        OperationStatus(
            id="t-ingest-1",
            kind="ingest",
            phase=OperationPhase.FAILED,
            started_at=Timestamp(1_700_000_000_000),
            retry_at=Timestamp(1_700_000_030_000),
            exit_code=4,
            message="the store is unreachable",
        ),
    ),
    ingest={"landing": IngestStatus(lag_files=3, polled_at=Timestamp(1_700_000_000_000))},
)


def values_in(text: str, file: str = "test.yaml") -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = []
    for item in read_documents(text, file=file):
        assert isinstance(item.value, dict)
        values.append(dict(item.value))
    return values


def value_in(text: str) -> dict[str, Any]:
    (value,) = values_in(text)
    return value


def path_of(value: Manifest, namespace: str) -> str:
    plural = f"{value['kind'].lower()}s"
    return f"{GROUP}/namespaces/{namespace}/{plural}"


def create(server: ApiServer, value: Manifest, namespace: str) -> Any:
    """What kubectl does: unknown fields are refused."""
    value = copy.deepcopy(value)
    value["metadata"]["namespace"] = namespace
    return server.request("POST", f"{path_of(value, namespace)}?fieldValidation=Strict", value)


def resources_of_the_repository() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        for value in values_in(path.read_text("utf-8"), str(path)):
            is_ours = value.get("apiVersion", "").startswith("tideline.dev/")
            if is_ours:
                yield f"{path.relative_to(ROOT)}:{value['kind']}", value


@pytest.fixture
def api(api_server: ApiServer) -> KubeApi:
    return api_server.api()


@pytest.mark.parametrize("plural", ["laketables", "lakecatalogs", "lakesources", "lakestores"])
def test_the_definitions_are_structural_and_established(api: KubeApi, plural: str) -> None:
    definition = api.get(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.tideline.dev")
    assert definition is not None
    conditions = {item["type"]: item["status"] for item in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_every_example_of_the_repository_is_accepted(api_server: ApiServer, namespace: str) -> None:
    examples = dict(resources_of_the_repository())
    assert len(examples) >= 3
    answers = {name: create(api_server, value, namespace) for name, value in examples.items()}
    refused = {name: item.message for name, item in answers.items() if item.status != 201}
    # The two flights tables share their name.
    assert {name: text for name, text in refused.items() if "already exists" not in text} == {}


@pytest.mark.parametrize(
    "text",
    [*EXAMPLES.values(), STORE, LAKE_CATALOG],
    ids=[*EXAMPLES, "store", "catalog"],
)
def test_what_the_parser_accepts_the_server_accepts(
    api_server: ApiServer, namespace: str, text: str
) -> None:
    answer = create(api_server, value_in(text), namespace)
    assert answer.status == 201, answer.content


@pytest.mark.parametrize("refusal", [item for item in ALL_REFUSALS if item.field], ids=str)
def test_what_is_wrong_is_refused_and_the_field_named(
    api_server: ApiServer, namespace: str, refusal: RefusedSpec
) -> None:
    answer = create(api_server, value_in(refusal.text), namespace)
    assert answer.status in (400, 422)
    assert refusal.field in answer.message
    assert refusal.words in answer.message


def test_what_the_restricted_standard_allows_is_kept_as_it_is_written(
    api_server: ApiServer, namespace: str
) -> None:
    value = value_in(RESTRICTED)
    assert parse_object(LakeTable, value).spec.pod_template == value["spec"]["podTemplate"]
    answer = create(api_server, value, namespace)
    assert answer.status == 201, answer.content
    # A null removes what a lower layer has, so that it must be stored.
    assert answer.content["spec"]["podTemplate"] == value["spec"]["podTemplate"]


@pytest.mark.parametrize("refusal", [item for item in ALL_REFUSALS if not item.field], ids=str)
def test_what_only_the_operator_can_check_is_accepted(
    api_server: ApiServer, namespace: str, refusal: RefusedSpec
) -> None:
    assert create(api_server, value_in(refusal.text), namespace).status == 201


@pytest.mark.parametrize(
    ("landing", "extra", "field", "words"),
    [
        ("s3://lake/in", {}, "spec.ingest", "such as s3://: give the ingest's source or"),
        ("table/in", {}, "spec.ingest", "overlap; keep them apart"),
        ("table/", {}, "spec.ingest", "overlap; keep them apart"),
        (".", {"location": "./table"}, "spec.ingest", "overlap; keep them apart"),
    ],
)
def test_places_that_overlap_are_refused(
    api_server: ApiServer, namespace: str, landing: str, extra: Manifest, field: str, words: str
) -> None:
    value = value_in(MINIMAL)
    value["spec"] |= extra
    value["spec"]["ingest"][0]["source"]["path"] = landing
    answer = create(api_server, value, namespace)
    assert answer.status == 422
    assert field in answer.message
    assert words in answer.message


def test_places_side_by_side_are_accepted(api_server: ApiServer, namespace: str) -> None:
    value = value_in(MINIMAL)
    value["spec"]["ingest"][0]["source"] |= {"path": "table-in"}
    assert create(api_server, value, namespace).status == 201


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("location", "elsewhere"),
        ("format", "Iceberg"),
        ("type", "COPY_ON_WRITE"),
        ("recordKey", ["carrier"]),
        ("recordKey", None),
        ("partitionBy", ["carrier"]),
        ("partitionBy", None),
        ("ordering", ["month"]),
        ("ordering", None),
        ("keyGenerator", {"hiveStyle": False, "urlEncode": True}),
        ("keyGenerator", None),
    ],
)
def test_what_the_table_was_created_with_stays(
    api_server: ApiServer, namespace: str, field: str, change: object
) -> None:
    value = value_in(EVERYTHING)
    made = create(api_server, value, namespace).content
    path = f"{path_of(value, namespace)}/{made['metadata']['name']}"
    answer = api_server.request(
        "PATCH", path, {"spec": {field: change}}, content_type="application/merge-patch+json"
    )
    assert answer.status == 422
    assert f"spec.{field}: Invalid value" in answer.message
    assert "is immutable: delete this LakeTable" in answer.message or change is None


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (ICEBERG, {"location": "s3://lake/elsewhere"}),
        (ICEBERG, {"location": None, "catalog": {"type": "rest", "table": "a.b"}}),
        (ICEBERG, {"format": "Hudi", "recordKey": ["id"]}),
        (ICEBERG_CATALOG, {"catalog": {"table": "sales.refunds"}}),
        (ICEBERG_CATALOG, {"catalog": None, "location": "s3://lake/orders", "storeRef": "minio"}),
    ],
)
def test_an_iceberg_table_stays_the_table_it_is(
    api_server: ApiServer, namespace: str, text: str, change: Manifest
) -> None:
    value = value_in(text)
    made = create(api_server, value, namespace).content
    path = f"{path_of(value, namespace)}/{made['metadata']['name']}"
    answer = api_server.request(
        "PATCH", path, {"spec": change}, content_type="application/merge-patch+json"
    )
    assert answer.status == 422
    assert "is immutable: delete this LakeTable" in answer.message


def test_a_catalog_may_move(api_server: ApiServer, namespace: str) -> None:
    value = value_in(ICEBERG_CATALOG)
    create(api_server, value, namespace)
    change = {"spec": {"catalog": {"uri": "https://elsewhere.example"}}}
    path = f"{path_of(value, namespace)}/orders"
    answer = api_server.request("PATCH", path, change, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.content


def test_what_can_change_does(api_server: ApiServer, namespace: str) -> None:
    value = value_in(EVERYTHING)
    made = create(api_server, value, namespace).content
    change = {
        "spec": {
            "suspend": True,
            "fenced": True,
            "services": {"mode": "Advise", "clustering": {"sortBy": ["origin"]}},
            "ingest": None,
            "rerun": {"landing": None, "compaction": 4},
        }
    }
    path = f"{path_of(value, namespace)}/{made['metadata']['name']}"
    answer = api_server.request("PATCH", path, change, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.content
    assert answer.content["metadata"]["generation"] == 2


def test_an_empty_list_is_as_good_as_none(api_server: ApiServer, namespace: str) -> None:
    value = value_in(MINIMAL)
    value["spec"]["partitionBy"] = []
    path = f"{path_of(value, namespace)}/people"
    assert create(api_server, value, namespace).status == 201
    change = {"spec": {"partitionBy": None}}
    answer = api_server.request("PATCH", path, change, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.content


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_the_server_fills_in_the_parsers_defaults(
    api_server: ApiServer, namespace: str, text: str
) -> None:
    (document,) = read_documents(text, file="laketable.yaml")
    stored = create(api_server, value_in(text), namespace).content
    read_back = parse_stored(LakeTable, stored)
    assert read_back is not None
    assert read_back.spec == parse_resource(LakeTable, document).spec


def test_defaults_can_be_read_in_the_object(api_server: ApiServer, namespace: str) -> None:
    spec = create(api_server, value_in(MINIMAL), namespace).content["spec"]
    assert (spec["type"], spec["deletionPolicy"], spec["suspend"]) == (
        "COPY_ON_WRITE",
        "Retain",
        False,
    )
    assert spec["ingest"][0]["trigger"] == {"every": "30s", "once": False}
    assert spec["services"]["compaction"]["trigger"]["deltaCommits"] == 5
    assert spec["resources"]["executor"] == {"cpu": "500m", "memory": "2Gi", "min": 0, "max": 2}


@pytest.mark.parametrize("width", [250, 1990])
def test_the_largest_spec_is_inside_the_budget_of_the_rules(
    api_server: ApiServer, namespace: str, width: int
) -> None:
    value = value_in(EVERYTHING)
    names = [f"a_column_with_as_long_a_name_as_can_be_{number:04}".ljust(255, "x")
             for number in range(width)]  # fmt: skip
    columns = [{"name": name, "type": "string"} for name in names]
    value["spec"]["schema"] = [*columns, *value["spec"]["schema"]]
    value["spec"]["recordKey"] = names[-16:]
    value["spec"]["services"]["clustering"]["sortBy"] = names[-20:]
    landing = value["spec"]["ingest"][0]
    value["spec"]["ingest"] += [
        {**copy.deepcopy(landing), "name": f"landing-{number}"} for number in range(31)
    ]
    value["spec"]["properties"] = {f"hoodie.option.{number}": "x" for number in range(200)}
    answer = create(api_server, value, namespace)
    assert answer.status == 201, answer.content


def test_a_status_is_stored_with_the_spec_and_survives(
    api: KubeApi, api_server: ApiServer, namespace: str
) -> None:
    made = create(api_server, value_in(MINIMAL), namespace).content
    changed = {**made, "spec": {}, "status": to_json_object(STATUS)}
    api.replace(LAKE_TABLES, changed, namespace, subresource="status")
    stored = api.get(LAKE_TABLES, "people", namespace)
    assert stored is not None
    assert stored["spec"] == made["spec"]
    assert parse_stored(LakeTableStatus, stored["status"]) == STATUS
    stored["status"] = {"observedGeneration": 99}
    api.replace(LAKE_TABLES, stored, namespace)
    again = api.get(LAKE_TABLES, "people", namespace)
    assert again is not None
    assert again["status"]["observedGeneration"] == 1


def test_the_columns_show_what_to_look_at(
    api: KubeApi, api_server: ApiServer, namespace: str
) -> None:
    made = create(api_server, value_in(MINIMAL), namespace).content
    made["status"] = to_json_object(STATUS)
    api.replace(LAKE_TABLES, made, namespace, subresource="status")
    printed = api_server.request("GET", LAKE_TABLES.path(namespace), accept=TABLE_FORM).content
    shown = [
        (column["name"], cell)
        for column, cell in zip(
            printed["columnDefinitions"], printed["rows"][0]["cells"], strict=True
        )
        if column["priority"] == 0
    ]
    assert shown[:-1] == [
        ("Name", "people"),
        ("Format", "Hudi"),
        ("Ready", "True"),
        ("Latest", "20240101000000000"),
        ("Pending", 1),
        ("Files", 0),
        ("Reason", "Current"),
        ("Lag", 3),
    ]
    assert shown[-1][0] == "Age"
    wide = [item["name"] for item in printed["columnDefinitions"] if item["priority"] > 0]
    assert wide == ["Adopted", "Type", "Location", "Catalog"]


def test_a_store_shows_where_it_is(api_server: ApiServer, namespace: str) -> None:
    create(api_server, value_in(STORE), namespace)
    printed = api_server.request("GET", LAKE_STORES.path(namespace), accept=TABLE_FORM).content
    assert printed["rows"][0]["cells"][:3] == ["minio", "http://minio:9000", "us-east-1"]


def test_short_names_and_the_category_are_known(api_server: ApiServer) -> None:
    found = {
        item["name"]: (item.get("shortNames"), item.get("categories"))
        for item in api_server.request("GET", GROUP).content["resources"]
    }
    assert found == {
        "laketables": (["lt"], ["tideline"]),
        "laketables/status": (None, None),
        "lakecatalogs": (["lc"], ["tideline"]),
        "lakecatalogs/status": (None, None),
        "lakesources": (["lsrc"], ["tideline"]),
        "lakesources/status": (None, None),
        "lakestores": (["ls"], ["tideline"]),
        "lakestores/status": (None, None),
    }


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"endpoint": "minio:9000"}, "allowed: http:// or https:// and a host"),
        ({"endpoint": "http://minio:9000/path?query"}, "spec.endpoint: Invalid value"),
        ({"credentials": {}}, "spec.credentials.secretName: Required value"),
        ({"tls": {}}, "spec.tls.caSecretName: Required value"),
        ({"accessKey": "x"}, 'unknown field "spec.accessKey"'),
        ({"gcs": {"endpoint": "lake"}}, "spec.gcs.endpoint: Invalid value"),
        ({"azure": {"account": "Acct"}}, "spec.azure.account: "),
        *((spec, f"spec.{field}: ") for spec, field in MIXED_STORES),
    ],
)
def test_a_wrong_store_is_refused(
    api_server: ApiServer, namespace: str, spec: Manifest, field: str
) -> None:
    answer = create(api_server, {**value_in(STORE), "spec": spec}, namespace)
    assert answer.status in (400, 422)
    assert field in answer.message


@pytest.mark.parametrize("spec", CLOUD_STORES, ids=str)
def test_a_store_of_another_cloud_is_accepted(
    api_server: ApiServer, namespace: str, spec: Manifest
) -> None:
    # With the defaults of what is S3's alone, which the server fills in.
    answer = create(api_server, {**value_in(STORE), "spec": spec}, namespace)
    assert answer.status == 201, answer.message
    assert answer.content["spec"]["region"] == "us-east-1"


def test_a_definition_is_explained(api_server: ApiServer) -> None:
    document = api_server.request("GET", f"/openapi/v3{GROUP}").content
    schemas = document["components"]["schemas"]
    table = next(item for name, item in schemas.items() if name.endswith(".LakeTable"))
    spec = table["properties"]["spec"]["properties"]
    assert spec["recordKey"]["description"] == "Columns that identify a row."
