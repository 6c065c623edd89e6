"""What the accounts of operator and engine may do on a real API server, and that it is all.

Every verb on every resource that the server knows is asked for, so that a right which slips into a
role is found whatever it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tideline_operator.kube import (
    CONFIG_MAPS,
    JOBS,
    LAKE_TABLES,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    ApiRefused,
    ApiResource,
    Manifest,
)
from tideline_operator.testing.api_server import ENGINE, OPERATOR, STRANGER, ApiServer
from tideline_operator.testing.manifests import apply_all, manifests_in

pytestmark = pytest.mark.api_server

OPERATOR_YAML = Path(__file__).resolve().parents[2] / "charts" / "tideline" / "operator.yaml"
VERBS = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
    "bind", "escalate", "impersonate",
)  # fmt: skip
HOME, LAKE, OTHER = "tideline-system", "lake", "other"

Right = tuple[str, str]
READ = ("get", "list", "watch")
OPERATOR_RIGHTS = {
    "laketables.tideline.dev": (*READ, "update", "patch"),
    "laketables.tideline.dev/status": ("get", "update", "patch"),
    "lakestores.tideline.dev": READ,
    "jobs.batch": (*READ, "create", "delete"),
    "pods": READ,
    "configmaps": ("create", "patch", "delete"),
    "secrets": ("get",),
    "namespaces": ("get",),
    "events": ("create",),
    "serviceaccounts": ("get", "create"),
    "rolebindings.rbac.authorization.k8s.io": ("get", "create"),
}
ENGINE_VERBS = (*READ, "create", "update", "patch", "delete", "deletecollection")
ENGINE_RIGHTS = dict.fromkeys(
    ("pods", "services", "configmaps", "persistentvolumeclaims"), ENGINE_VERBS
)


def pairs(rights: dict[str, tuple[str, ...]]) -> set[Right]:
    return {(resource, verb) for resource, verbs in rights.items() for verb in verbs}


@pytest.fixture(scope="module")
def installed(api_server: ApiServer) -> ApiServer:
    """A server with the committed manifests and what the operator makes for the engine."""
    api = api_server.api()
    for name in (LAKE, OTHER):
        api.create(NAMESPACES, named("v1", "Namespace", name))
    apply_all(api, manifests_in(OPERATOR_YAML.read_text("utf-8")))
    operator = api_server.api(OPERATOR)
    operator.create(SERVICE_ACCOUNTS, named("v1", "ServiceAccount", "tideline-engine"), LAKE)
    operator.create(ROLE_BINDINGS, binding("tideline-engine", "tideline-engine"), LAKE)
    return api_server


def named(version: str, kind: str, name: str) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def binding(name: str, role: str) -> Manifest:
    return {
        **named("rbac.authorization.k8s.io/v1", "RoleBinding", name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "tideline-engine", "namespace": LAKE}],
    }


def known_resources(server: ApiServer) -> Iterator[tuple[str, str, str]]:
    """Group, resource and subresource of all that the server serves."""
    versions = [("", "/api/v1")]
    for group in server.request("GET", "/apis").content["groups"]:
        version = group["preferredVersion"]["groupVersion"]
        versions.append((group["name"], f"/apis/{version}"))
    for group_name, path in versions:
        for item in server.request("GET", path).content["resources"]:
            resource, _, subresource = item["name"].partition("/")
            yield group_name, resource, subresource


def rights_of(server: ApiServer, user: str, namespace: str, name: str = "") -> set[Right]:
    """What `user` may do there, beyond what everyone may."""
    asked = [
        (group, resource, subresource, verb)
        for group, resource, subresource in known_resources(server)
        for verb in VERBS
    ]

    def is_allowed(question: tuple[str, str, str, str], who: str) -> bool:
        group, resource, subresource, verb = question
        attributes = {"group": group, "resource": resource, "subresource": subresource,
                      "verb": verb, "namespace": namespace, "name": name}  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = server.request("POST", path, review, user=who)
        assert answer.status == 201, answer.content
        return bool(answer.content["status"]["allowed"])

    with ThreadPoolExecutor(4) as threads:
        allowed = list(threads.map(lambda question: is_allowed(question, user), asked))
    mine = [question for question, yes in zip(asked, allowed, strict=True) if yes]
    return {right_of(question) for question in mine if not is_allowed(question, STRANGER)}


def right_of(question: tuple[str, str, str, str]) -> Right:
    group, resource, subresource, verb = question
    full = f"{resource}.{group}" if group else resource
    return (f"{full}/{subresource}" if subresource else full), verb


@pytest.mark.parametrize("namespace", [LAKE, OTHER, HOME])
def test_the_operator_may_do_what_its_list_says_and_no_more(
    installed: ApiServer, namespace: str
) -> None:
    at_home = {("leases.coordination.k8s.io", "create")} if namespace == HOME else set()
    assert rights_of(installed, OPERATOR, namespace) == pairs(OPERATOR_RIGHTS) | at_home


def test_the_operator_holds_one_lease_by_name(installed: ApiServer) -> None:
    verbs = ("get", "create", "update", "patch")
    allowed = pairs(OPERATOR_RIGHTS) | pairs({"leases.coordination.k8s.io": verbs})
    assert rights_of(installed, OPERATOR, HOME, "tideline-operator") == allowed
    with pytest.raises(ApiRefused, match="forbidden"):
        installed.api(OPERATOR).get(LEASES, "another", HOME)


@pytest.mark.parametrize("role", ["cluster-admin", "admin", "tideline-operator", "tideline-edit"])
def test_the_operator_gives_nobody_a_role_but_the_engines(installed: ApiServer, role: str) -> None:
    with pytest.raises(ApiRefused, match="forbidden") as refused:
        installed.api(OPERATOR).create(ROLE_BINDINGS, binding(f"more-{role}", role), LAKE)
    assert refused.value.status == 403


def test_the_operator_reads_a_secret_by_name_and_lists_none(installed: ApiServer) -> None:
    secret = {**named("v1", "Secret", "store"), "stringData": {"AWS_ACCESS_KEY_ID": "x"}}
    installed.api().create(SECRETS, secret, LAKE)
    operator = installed.api(OPERATOR)
    assert operator.get(SECRETS, "store", LAKE) is not None
    with pytest.raises(ApiRefused, match="cannot list resource"):
        operator.list(SECRETS, LAKE)


def test_the_engine_may_do_what_spark_needs_where_it_is_bound(installed: ApiServer) -> None:
    assert rights_of(installed, ENGINE, LAKE) == pairs(ENGINE_RIGHTS)


@pytest.mark.parametrize("namespace", [OTHER, HOME, ""])
def test_the_engine_may_do_nothing_anywhere_else(installed: ApiServer, namespace: str) -> None:
    assert rights_of(installed, ENGINE, namespace) == set()


@pytest.mark.parametrize("resource", [SECRETS, LAKE_TABLES, JOBS, ROLE_BINDINGS, LEASES], ids=str)
def test_the_engine_is_refused_by_the_server_itself(
    installed: ApiServer, resource: ApiResource
) -> None:
    with pytest.raises(ApiRefused, match="cannot list resource"):
        installed.api(ENGINE).list(resource, LAKE)


@pytest.mark.parametrize("resource", [PODS, CONFIG_MAPS], ids=str)
def test_the_engine_sees_its_own_namespace_only(
    installed: ApiServer, resource: ApiResource
) -> None:
    engine = installed.api(ENGINE)
    assert engine.list(resource, LAKE)
    with pytest.raises(ApiRefused, match="forbidden"):
        engine.list(resource, OTHER)
