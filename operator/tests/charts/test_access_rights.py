"""What the accounts of operator and engine may do on a real API server, and nothing else.

The server itself lists their rights, so that any right that slips into a role is found.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import partial
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
    ApiRefusedError,
    ApiResource,
    Manifest,
)
from tideline_operator.testing.api_server import ENGINE, OPERATOR, STRANGER, ApiServer
from tideline_operator.testing.api_server_fixtures import make_namespace
from tideline_operator.testing.documented_rights import rights_in
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.manifests import manifests_in

pytestmark = pytest.mark.api_server

HOME, LAKE, OTHER = "tideline-system", "lake", "other"
LIMITED_ROLES = ("tideline-operator", "tideline-namespace")
ACCESS = Path(__file__).resolve().parents[3] / "examples" / "kubernetes" / "operator-access.yaml"

Right = tuple[str, str]
READ = ("get", "list", "watch")
OPERATOR_RIGHTS = {
    "laketables.tideline.dev": ("list", "watch", "patch", "create", "update", "delete"),
    "laketables.tideline.dev/status": ("patch",),
    "lakestores.tideline.dev/status": ("patch",),
    "lakestores.tideline.dev": ("list", "watch"),
    "lakecatalogs.tideline.dev": ("list", "watch"),
    "lakecatalogs.tideline.dev/status": ("patch",),
    "lakesources.tideline.dev": ("list", "watch"),
    "lakesources.tideline.dev/status": ("patch",),
    "jobs.batch": READ,
    "pods": ("list", "watch"),
    "namespaces": ("get",),
}
"""In all namespaces."""
OPEN_RIGHTS = {
    "jobs.batch": ("create", "delete"),
    "configmaps": ("create",),
    "secrets": ("get",),
    "events": ("get", "list", "create", "patch"),
    "serviceaccounts": ("get", "create"),
    "serviceaccounts/token=tideline-engine": ("create",),
    "rolebindings.rbac.authorization.k8s.io": ("get", "create"),
    "clusterroles.rbac.authorization.k8s.io=tideline-engine": ("bind",),
}
"""In those that let the operator in, besides."""
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
        make_namespace(api_server.api(), name, is_open=name == LAKE)
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
    return granted(server, user, namespace) - granted(server, STRANGER, namespace)


def granted(server: ApiServer, user: str, namespace: str) -> set[Right]:
    """Everything `user` may do there."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = server.request("POST", path, review, user=user)
    assert answer.status == 201, answer.content
    assert not answer.content["status"]["incomplete"]
    rules = answer.content["status"]["resourceRules"]
    return {(resource, verb) for _, resource, verb in rights_in(user, rules)}


def test_the_operator_may_do_what_its_list_says_and_no_more(installed: ApiServer) -> None:
    assert rights_of(installed, OPERATOR, OTHER) == pairs(OPERATOR_RIGHTS)
    opened = pairs(OPERATOR_RIGHTS) | pairs(OPEN_RIGHTS)
    assert rights_of(installed, OPERATOR, LAKE) == opened


@pytest.mark.parametrize("namespace", [OTHER, HOME, "kube-system"])
def test_where_it_is_not_let_in_the_operator_reads_no_secret_and_starts_nothing(
    installed: ApiServer, namespace: str
) -> None:
    operator = installed.api(OPERATOR)
    with pytest.raises(ApiRefusedError, match="cannot get resource"):
        operator.get(SECRETS, "store", namespace)
    for resource in (JOBS, CONFIG_MAPS, SERVICE_ACCOUNTS, ROLE_BINDINGS, PODS):
        manifest = named(resource.api_version, resource.kind, "mine")
        with pytest.raises(ApiRefusedError, match="cannot create resource"):
            operator.create(resource, manifest, namespace)
    with pytest.raises(ApiRefusedError, match="cannot create resource"):
        operator.request_token("tideline-engine", namespace, "tideline", 600)


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
    for role in LIMITED_ROLES:
        api.create(ROLE_BINDINGS, {**binding(role, role), "subjects": [subject]}, bound)
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
        for role in LIMITED_ROLES:
            api.delete(ROLE_BINDINGS, role, bound)


ADMIN_ROLES = ("system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view")
"""What Kubernetes' role admin is put together from."""


@pytest.fixture
def admin_of(api_server: ApiServer) -> Iterator[str]:
    """A namespace that is not open, with a user who is its administrator as Kubernetes has it."""
    namespace = f"admin-{secrets.token_hex(4)}"
    make_namespace(api_server.api(), namespace, is_open=False)
    bind_stranger(api_server, namespace, ADMIN_ROLES)
    yield namespace
    for role in (*ADMIN_ROLES, "tideline-admin"):
        api_server.api().delete(ROLE_BINDINGS, role.replace(":", "-"), namespace)


def bind_stranger(server: ApiServer, namespace: str, roles: tuple[str, ...]) -> None:
    subject = {"kind": "User", "name": STRANGER, "apiGroup": "rbac.authorization.k8s.io"}
    for role in roles:
        given = {**binding(role.replace(":", "-"), role), "subjects": [subject]}
        server.api().create(ROLE_BINDINGS, given, namespace)


def is_granted(call: Callable[[], object]) -> bool:
    """Whether the API server lets it through; it learns of a binding a moment later."""
    try:
        call()
    except ApiRefusedError:
        return False
    return True


def test_a_namespaces_administrator_lets_the_operator_in_and_gives_it_nothing_else(
    api_server: ApiServer, admin_of: str
) -> None:
    admin, operator = api_server.api(STRANGER), api_server.api(OPERATOR)
    (access,) = manifests_in(ACCESS.read_text("utf-8"))
    with pytest.raises(ApiRefusedError, match="forbidden"):
        admin.create(ROLE_BINDINGS, access, admin_of)
    bind_stranger(api_server, admin_of, ("tideline-admin",))
    with pytest.raises(ApiRefusedError, match="cannot get resource"):
        operator.get(SECRETS, "store", admin_of)
    binds = partial(admin.create, ROLE_BINDINGS, access, admin_of)
    eventually(lambda: is_granted(binds), "the administrator binds the role")
    reads = partial(operator.get, SECRETS, "store", admin_of)
    eventually(lambda: is_granted(reads), "the operator reads Secrets")
    assert reads() is None
    for role in ("tideline-operator", "tideline-engine", "cluster-admin"):
        with pytest.raises(ApiRefusedError, match="forbidden"):
            admin.create(ROLE_BINDINGS, binding(f"more-{role}", role), admin_of)


def test_who_may_let_the_operator_in_could_do_all_of_that_before(
    api_server: ApiServer, admin_of: str
) -> None:
    """Else binding the role to an account of one's own would be a way to more rights."""
    asked = {(resource.partition("=")[0], verb) for resource, verb in pairs(OPEN_RIGHTS)}
    bind = ("clusterroles.rbac.authorization.k8s.io", "bind")

    def held() -> set[Right]:
        rights = granted(api_server, STRANGER, admin_of)
        return {(resource.partition("=")[0], verb) for resource, verb in rights}

    # The API server learns of each binding a moment later.
    eventually(lambda: asked - held() == {bind}, f"all of {asked} but {bind}")
    engine = pairs(ENGINE_RIGHTS) - {("laketables.tideline.dev", "get")}
    assert engine - held() == set()
