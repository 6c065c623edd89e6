"""A namespace that lets the operator in, and the account that engine pods run as there.

The operator may read Secrets and start Jobs only where a RoleBinding to the ClusterRole
`tideline-namespace` says so. Engine pods run as a ServiceAccount with a RoleBinding to the
ClusterRole `tideline-engine`, created if missing and never changed: what an administrator put there
stays.
"""

from __future__ import annotations

import threading

from tideline.clock import Clock
from tideline_operator.api_objects import (
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    ApiRefusedError,
    Manifest,
)
from tideline_operator.kube import KubeApi

ENGINE_ROLE = "tideline-engine"
NAMESPACE_ROLE = "tideline-namespace"
OPERATOR_ACCOUNT = "tideline-operator"
NOT_OPEN = "NamespaceNotOpen"
"""Why nothing is done for a table: its namespace does not let the operator in."""
FRESH_S = 300.0
OPEN_S = 60.0
CLOSED_S = 5.0
"""How long it counts as known that a namespace is open, or is not."""
_FORBIDDEN = 403
_LABELS = {"app.kubernetes.io/managed-by": "tideline-operator"}


class NamespaceAccess:
    """Makes sure that operations can run in a namespace."""

    def __init__(
        self, api: KubeApi, clock: Clock, service_account: str, own_namespace: str
    ) -> None:
        """`own_namespace` is the operator's."""
        self._api = api
        self._clock = clock
        self._account = service_account
        self._lock = threading.Lock()
        self._own_namespace = own_namespace
        self._made_s: dict[str, float] = {}
        self._asked: dict[str, tuple[float, str | None]] = {}

    def closed(self, namespace: str) -> str | None:
        """Why nothing can be done in a namespace, and what opens it; None where it is open.

        Raises ApiUnavailableError.
        """
        now_s = self._clock.monotonic_s()
        with self._lock:
            asked_s, known = self._asked.get(namespace, (float("-inf"), None))
        if now_s - asked_s < (OPEN_S if known is None else CLOSED_S):
            return known
        reason = None
        try:
            self._api.get(SERVICE_ACCOUNTS, self._account, namespace)
        except ApiRefusedError as error:
            if error.status != _FORBIDDEN:
                raise
            reason = (
                f"namespace {namespace} does not let the operator in; its administrator does, "
                f"with: kubectl -n {namespace} create rolebinding tideline "
                f"--clusterrole={NAMESPACE_ROLE} "
                f"--serviceaccount={self._own_namespace}:{OPERATOR_ACCOUNT}"
            )
        with self._lock:
            self._asked[namespace] = now_s, reason
        return reason

    def ensure(self, namespace: str) -> None:
        """Create what is missing, looking at most every few minutes.

        Raises ApiRefusedError when that is not allowed, ApiUnavailableError.
        """
        now_s = self._clock.monotonic_s()
        with self._lock:
            made_s = self._made_s.get(namespace)
        if made_s is not None and now_s - made_s < FRESH_S:
            return
        account, binding = self._manifests(namespace)
        # Read first: with a full quota even creating an existing object would be refused.
        if self._api.get(SERVICE_ACCOUNTS, self._account, namespace) is None:
            self._api.create(SERVICE_ACCOUNTS, account, namespace)
        if self._api.get(ROLE_BINDINGS, self._account, namespace) is None:
            self._api.create(ROLE_BINDINGS, binding, namespace)
        with self._lock:
            self._made_s[namespace] = now_s

    def _manifests(self, namespace: str) -> tuple[Manifest, Manifest]:
        metadata = {"name": self._account, "namespace": namespace, "labels": _LABELS}
        account: Manifest = {
            "apiVersion": SERVICE_ACCOUNTS.api_version,
            "kind": SERVICE_ACCOUNTS.kind,
            "metadata": metadata,
            "automountServiceAccountToken": False,
        }
        binding: Manifest = {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": metadata,
            "roleRef": {
                "apiGroup": ROLE_BINDINGS.group,
                "kind": "ClusterRole",
                "name": ENGINE_ROLE,
            },
            "subjects": [{"kind": "ServiceAccount", "name": self._account, "namespace": namespace}],
        }
        return account, binding
