"""What the accounts of operator and engine may do on a real API server, and nothing else.

The server itself lists their rights, so that any right that slips into a role is found.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    ApiRefusedError,
    ApiResource,
    Manifest,
)
from tideline_operator.testing.api_server import ENGINE, OPERATOR, STRANGER, ApiServer

pytestmark = pytest.mark.api_server

HOME, LAKE, OTHER = "tideline-system", "lake", "other"

Right = tuple[str, str]
READ = ("get", "list", "watch")
OPERATOR_RIGHTS = {
    "laketables.tideline.dev": ("list", "watch", "patch", "create", "update", "delete"),
    "laketables.tideline.dev/status": ("patch",),
    "lakestores.tideline.dev/status": ("patch",),
    "lakestores.tideline.dev": ("list", "watch"),
    "lakecatalogs.tideline.dev": ("list", "watch"),
    "lakecatalogs.tideline.dev/status": ("patch",),
    "jobs.batch": (*READ, "create", "delete"),
    "pods": ("list", "watch"),
    "configmaps": ("create",),
    "secrets": ("get",),
    "namespaces": ("get",),
    "events": ("get", "list", "create", "patch"),
    "serviceaccounts": ("get", "create"),
    "serviceaccounts/token=tideline-engine": ("create",),
    "rolebindings.rbac.authorization.k8s.io": ("get", "create"),
    "clusterroles.rbac.authorization.k8s.io=tideline-engine": ("bind",),
}
ENGINE_VERBS = (*READ, "create", "update", "patch", "delete", "deletecollection")
ENGINE_RIGHTS = {
    **dict.fromkeys(("pods", "services", "configmaps", "persistentvolumeclaims"), ENGINE_VERBS),
    "laketables.tideline.dev": ("get",),
}


def pairs(rights: Mapping[str, tuple[str, ...]]) -> set[Right]:
    return {(resource, verb) for resource, verbs in rights.items() for verb in verbs}


@pytest.fixture(scope="module")
def installed(api_server: ApiServer) -> ApiServer:
    """A server with two namespaces, and what the operator makes for the engine in one of them."""
    for name in (LAKE, OTHER):
        api_server.api().create(NAMESPACES, named("v1", "Namespace", name))
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


def rights_of(server: ApiServer, user: str, namespace: str) -> set[Right]:
    """Everything `user` may do there, beyond what everyone may; rights on one name carry it."""

    def rights(who: str) -> set[Right]:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        answer = server.request("POST", path, review, user=who)
        assert answer.status == 201, answer.content
        assert not answer.content["status"]["incomplete"]
        return {
            (f"{named_as(resource, group)}{f'={name}' if name else ''}", verb)
            for rule in answer.content["status"]["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames") or [""]
            for verb in rule["verbs"]
        }

    return rights(user) - rights(STRANGER)


def named_as(resource: str, group: str) -> str:
    """`laketables.tideline.dev/status`."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource


@pytest.mark.parametrize("namespace", [LAKE, OTHER])
def test_the_operator_may_do_what_its_list_says_and_no_more(
    installed: ApiServer, namespace: str
) -> None:
    assert rights_of(installed, OPERATOR, namespace) == pairs(OPERATOR_RIGHTS)


def test_in_its_own_namespace_the_operator_holds_one_lease_by_name(installed: ApiServer) -> None:
    leases = pairs(
        {
            "leases.coordination.k8s.io": ("create",),
            "leases.coordination.k8s.io=tideline-operator": ("get", "update"),
        }
    )
    assert rights_of(installed, OPERATOR, HOME) == pairs(OPERATOR_RIGHTS) | leases
    with pytest.raises(ApiRefusedError, match="forbidden"):
        installed.api(OPERATOR).get(LEASES, "another", HOME)


@pytest.mark.parametrize("role", ["cluster-admin", "system:node", "tideline-edit"])
def test_the_operator_may_only_bind_the_engines_role(installed: ApiServer, role: str) -> None:
    with pytest.raises(ApiRefusedError, match="forbidden") as refused:
        installed.api(OPERATOR).create(ROLE_BINDINGS, binding(f"more-{role}", role), LAKE)
    assert refused.value.status == 403


def test_the_operator_reads_a_secret_by_name_and_lists_none(installed: ApiServer) -> None:
    secret = {**named("v1", "Secret", "store"), "stringData": {"AWS_ACCESS_KEY_ID": "x"}}
    installed.api().create(SECRETS, secret, LAKE)
    operator = installed.api(OPERATOR)
    assert operator.get(SECRETS, "store", LAKE) is not None
    with pytest.raises(ApiRefusedError, match="cannot list resource"):
        operator.list(SECRETS, LAKE)


def test_the_engine_may_do_what_spark_needs_where_it_is_bound(installed: ApiServer) -> None:
    assert rights_of(installed, ENGINE, LAKE) == pairs(ENGINE_RIGHTS)


@pytest.mark.parametrize("namespace", [OTHER, HOME, "not-there"])
def test_the_engine_may_do_nothing_anywhere_else(installed: ApiServer, namespace: str) -> None:
    assert rights_of(installed, ENGINE, namespace) == set()


@pytest.mark.parametrize("resource", [SECRETS, LAKE_TABLES, JOBS, ROLE_BINDINGS, LEASES], ids=str)
def test_the_engine_is_refused_by_the_server_itself(
    installed: ApiServer, resource: ApiResource
) -> None:
    with pytest.raises(ApiRefusedError, match="cannot list resource"):
        installed.api(ENGINE).list(resource, LAKE)


@pytest.mark.parametrize("resource", [PODS, CONFIG_MAPS], ids=str)
def test_the_engine_sees_its_own_namespace_only(
    installed: ApiServer, resource: ApiResource
) -> None:
    engine = installed.api(ENGINE)
    assert engine.list(resource, LAKE)
    with pytest.raises(ApiRefusedError, match="forbidden"):
        engine.list(resource, OTHER)


def test_with_namespaces_the_operator_may_do_nothing_outside_them(api_server: ApiServer) -> None:
    """Bound in one namespace only, as the chart does it; a user without other rights stands in."""
    api = api_server.api()
    bound, unbound = "bound", "unbound"
    for name in (bound, unbound):
        api.create(NAMESPACES, named("v1", "Namespace", name))
    subject = {"kind": "User", "name": STRANGER, "apiGroup": "rbac.authorization.k8s.io"}
    given = {**binding("limited", "tideline-operator"), "subjects": [subject]}
    api.create(ROLE_BINDINGS, given, bound)
    stranger = api_server.api(STRANGER)
    try:
        assert stranger.list(LAKE_TABLES, bound)
        assert stranger.get(NAMESPACES, bound) is not None
        for namespace in (unbound, None):
            with pytest.raises(ApiRefusedError, match="forbidden"):
                stranger.list(LAKE_TABLES, namespace)
        with pytest.raises(ApiRefusedError, match="forbidden"):
            stranger.get(NAMESPACES, unbound)
        account = named("v1", "ServiceAccount", "tideline-engine")
        assert stranger.create(SERVICE_ACCOUNTS, account, bound)
        stranger.create(ROLE_BINDINGS, binding("tideline-engine", "tideline-engine"), bound)
        with pytest.raises(ApiRefusedError, match="forbidden"):
            stranger.create(ROLE_BINDINGS, binding("more", "cluster-admin"), bound)
    finally:
        api.delete(ROLE_BINDINGS, "limited", bound)
