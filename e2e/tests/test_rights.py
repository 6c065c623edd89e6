"""What the two accounts may do, and that credentials stay in their Secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from e2e.harness.cluster import Cluster
from e2e.harness.installation import NAMESPACE, Operator
from e2e.harness.lake import Lake
from tideline_operator.testing.documented_rights import documented_rights, rights_in

OPERATOR = f"system:serviceaccount:{NAMESPACE}:tideline-operator"
OF_EVERYBODY = ("authorization.k8s.io", "authentication.k8s.io")


def may(cluster: Cluster, account: str, verb: str, what: str, namespace: str, *groups: str) -> bool:
    """Whether the API server lets an account do something. Fails on a resource or a verb that it
    does not have: nobody may do that."""
    # In kubectl a slash precedes a name; `pods exec` is the subresource.
    resource, _, subresource = what.partition(" ")
    words = [verb, resource, f"--subresource={subresource}", f"--as={account}"]
    words += [f"--as-group={group}" for group in groups]
    answer = cluster.kubectl("auth", "can-i", *words, "-n", namespace, check=False)
    said = [line for line in answer.splitlines() if line and "namespace scoped" not in line]
    assert said[-1] in ("yes", "no"), answer
    assert len(said) == 1, answer
    return said[0] == "yes"


def rights(cluster: Cluster, account: str, namespace: str) -> set[tuple[str, str]]:
    """Everything that an account may do in a namespace, as the API server says: resource, verb."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = cluster.kubectl(
        "create", "--raw", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "-f", "-", f"--as={account}", "--as-group=system:serviceaccounts",
        "--as-group=system:authenticated", given=json.dumps(review),
    )  # fmt: skip
    status = json.loads(answer)["status"]
    assert not status.get("incomplete"), status
    found = rights_in("", status["resourceRules"])
    return {(what, verb) for _, what, verb in found if what.partition(".")[2] not in OF_EVERYBODY}


@pytest.mark.usefixtures("operator")
def test_the_operator_has_the_rights_that_are_documented(cluster: Cluster, lake: Lake) -> None:
    """Those of the running one, line by line."""
    documented = documented_rights()
    for namespace, roles in (
        ("default", {"tideline-operator"}),
        (lake.namespace, {"tideline-operator", "tideline-namespace"}),
        (NAMESPACE, {"tideline-operator", "tideline-operator-lease"}),
    ):
        wanted = {(what, verb) for role, what, verb in documented if role in roles}
        assert rights(cluster, OPERATOR, namespace) == wanted, namespace


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("get", "secrets"),
        ("list", "secrets"),
        ("watch", "secrets"),
        ("create", "secrets"),
        ("create", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "configmaps"),
        ("create", "serviceaccounts"),
        ("create", "serviceaccounts/tideline-engine token"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("bind", "clusterroles.rbac.authorization.k8s.io/tideline-engine"),
        ("create", "events"),
        ("create", "pods"),
        ("create", "pods exec"),
        ("delete", "pods"),
        ("delete", "lakecatalogs.tideline.dev"),
        ("create", "lakecatalogs.tideline.dev"),
        ("patch", "lakecatalogs.tideline.dev"),
        ("create", "lakesources.tideline.dev"),
        ("patch", "lakesources.tideline.dev"),
        ("delete", "lakestores.tideline.dev"),
        ("update", "jobs.batch"),
        ("patch", "jobs.batch"),
        ("get", "configmaps"),
        ("patch", "configmaps"),
        ("delete", "configmaps"),
        ("create", "deployments.apps"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("bind", "clusterroles.rbac.authorization.k8s.io/cluster-admin"),
        ("escalate", "clusterroles.rbac.authorization.k8s.io"),
        ("impersonate", "users"),
        ("delete", "namespaces"),
        ("get", "nodes"),
    ],
)
def test_the_operator_may_not_do_what_it_does_not_need(
    cluster: Cluster, verb: str, what: str
) -> None:
    for namespace in ("default", NAMESPACE, "kube-system"):
        assert not may(cluster, OPERATOR, verb, what, namespace)
        assert may(cluster, "somebody", verb, what, namespace, "system:masters")


def test_a_namespace_lets_the_operator_in_for_itself_alone(lake: Lake) -> None:
    cluster, namespace = lake.cluster, lake.namespace
    for verb, what in (("get", "secrets"), ("create", "jobs.batch")):
        assert may(cluster, OPERATOR, verb, what, namespace)
        assert not may(cluster, OPERATOR, verb, what, "default")
    for verb, what in (("list", "secrets"), ("create", "pods"), ("get", "configmaps")):
        assert not may(cluster, OPERATOR, verb, what, namespace)


def test_the_operator_cannot_hand_out_more_than_the_engine_s_role(
    cluster: Cluster, operator: Operator, namespace: str
) -> None:
    del operator
    # Where it is let in it has all of `tideline-namespace` already.
    for role, where in (
        ("cluster-admin", "default"),
        ("cluster-admin", namespace),
        ("tideline-namespace", "default"),
    ):
        said = cluster.kubectl(
            "create", "rolebinding", "too-much", f"--clusterrole={role}",
            f"--serviceaccount={NAMESPACE}:tideline-operator", "-n", where, f"--as={OPERATOR}",
            check=False,
        )  # fmt: skip
        assert "forbidden" in said, (role, where)


def test_the_engine_may_start_executors_and_little_else(lake: Lake) -> None:
    lake.land("people", "first", [{"id": 1, "ts": 1}])
    lake.apply_table("people")
    lake.wait_for_ids("people", [1])
    account = f"system:serviceaccount:{lake.namespace}:tideline-engine"
    cluster, namespace = lake.cluster, lake.namespace
    assert may(cluster, account, "create", "pods", namespace)
    # A warm worker reads the table whose operation it was given.
    assert may(cluster, account, "get", "laketables.tideline.dev", namespace)
    assert not may(cluster, account, "create", "pods", "default")
    for verb, what in (
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "jobs.batch"),
        ("create", "pods exec"),
        ("list", "laketables.tideline.dev"),
        ("patch", "laketables.tideline.dev"),
        ("patch", "laketables.tideline.dev status"),
        ("get", "lakecatalogs.tideline.dev"),
        ("get", "lakesources.tideline.dev"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
    ):
        assert not may(cluster, account, verb, what, namespace), (verb, what)


def test_credentials_appear_nowhere_but_in_their_secret(lake: Lake, operator: Operator) -> None:
    lake.land("people", "first", [{"id": 1, "ts": 1}])
    lake.apply_table("people")
    lake.wait_for_operation("people", "ingest")
    kinds = "laketables,lakestores,jobs,pods,configmaps,events,serviceaccounts,rolebindings"
    shown = lake.cluster.kubectl("get", kinds, "-n", lake.namespace, "-o", "json")
    assert json.loads(shown)["items"]
    logs = [operator.logs()]
    for pod in lake.pods("app.kubernetes.io/managed-by=tideline-operator"):
        name = pod["metadata"]["name"]
        logs.append(lake.cluster.kubectl("logs", "-n", lake.namespace, name, check=False))
    secret = lake.minio.credentials["AWS_SECRET_ACCESS_KEY"]
    assert len(logs) > 1
    for text in (shown, *logs):
        assert [form for form in forms(secret) if form in text] == []
    stored = lake.cluster.kubectl("get", "secrets", "-n", lake.namespace, "-o", "json")
    assert any(form in stored for form in forms(secret)), "what is looked for is in the Secret"


def forms(secret: str) -> Iterator[str]:
    """A secret as it may be written: plainly, in addresses, in JSON, in hexadecimal digits, and
    within a longer text of base 64 from each of three places."""
    yield from {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], secret.encode().hex()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            text = encode(b"x" * before + secret.encode()).decode().rstrip("=")
            # Characters at both ends also encode neighbours.
            yield text[4 if before else 0 : -1]
