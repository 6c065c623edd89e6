"""A small client for the Kubernetes API: plain JSON in and out, the only importer of the SDK.

Every request has a time limit, and every write calls `before_write` first. A failure is
`ApiUnavailableError` when a retry may help, `ApiRefusedError` when it will not, and a value
(`Exists`, `Stale`, None) where callers branch on it. Nothing is retried here: that is up to the
work queue.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from urllib3.exceptions import HTTPError

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline_operator.api_objects import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    LAKE_CATALOGS,
    LAKE_STORES,
    LAKE_TABLES,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    ApiRefusedError,
    ApiResource,
    ApiUnavailableError,
    Created,
    Exists,
    ExpiredError,
    LeadershipLostError,
    Manifest,
    Replaced,
    Stale,
    WatchEvent,
    WatchKind,
)

__all__ = [
    "CONFIG_MAPS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "EVENTS",
    "FIELD_MANAGER",
    "JOBS",
    "LAKE_CATALOGS",
    "LAKE_STORES",
    "LAKE_TABLES",
    "LEASES",
    "NAMESPACES",
    "PODS",
    "ROLE_BINDINGS",
    "SECRETS",
    "SERVICE_ACCOUNTS",
    "ApiRefusedError",
    "ApiResource",
    "ApiUnavailableError",
    "Created",
    "Exists",
    "ExpiredError",
    "KubeApi",
    "LeadershipLostError",
    "Manifest",
    "Replaced",
    "Stale",
    "WatchEvent",
    "WatchKind",
]

FIELD_MANAGER = "tideline-operator"
REQUEST_TIMEOUT_S = 15.0
_CONNECT_TIMEOUT_S = 5.0
_WATCH_GRACE_S = 15.0
"""A watch that is still silent this long after its end counts as dead."""
_FOLLOW_SILENCE_S = 3_600.0
_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_BUSY = (401, 408, 425, 429)

RequestObserver = Callable[[str, str, int], None]
"""Called after every request with verb, resource and status; 0 when there was no answer."""


def context_namespace(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """The namespace that kubectl would use. Raises ConfigError when there is no such context."""
    try:
        contexts, current = list_kube_config_contexts(
            None if kubeconfig is None else str(kubeconfig)
        )  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise ConfigError(f"cannot find a Kubernetes cluster: {error}", path=kubeconfig) from error
    named = (item for item in contexts if item["name"] == context)
    chosen = current if context is None else next(named, None)
    if chosen is None:
        message = "kubeconfig has no such context: kubectl config get-contexts"
        raise ConfigError(message, path=kubeconfig, value=context)
    return str(chosen["context"].get("namespace") or "default")


class KubeApi:
    """One API server, for any number of threads."""

    def __init__(self, configuration: Configuration) -> None:
        # A retry here would hide from the caller that a write may have happened.
        configuration.retries = False
        configuration.keep_alive = True
        self._client = ApiClient(configuration)
        self._client.user_agent = FIELD_MANAGER
        self._auth = ["BearerToken"]
        self._timeouts_s = (_CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S)
        self.on_request: RequestObserver | None = None
        self.before_write: Callable[[], None] | None = None
        """Called before every request that changes something; what it raises reaches the caller."""

    @classmethod
    def from_environment(
        cls, kubeconfig: Path | None = None, context: str | None = None
    ) -> KubeApi:
        """The server that `kubeconfig` names, that of the pod we run in, or kubectl's default; of
        a file with several, that of its current context or of `context`.

        Raises ConfigError when none of them can be used.
        """
        configuration = Configuration()
        try:
            is_given = kubeconfig is not None or context is not None
            if not is_given and "KUBERNETES_SERVICE_HOST" in os.environ:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                file = None if kubeconfig is None else str(kubeconfig)
                load_kube_config(file, context, configuration)  # type: ignore[no-untyped-call]
        except ConfigException as error:
            raise ConfigError(
                f"cannot find a Kubernetes cluster: {error}; give --kubeconfig FILE",
                path=kubeconfig,
            ) from error
        return cls(configuration)

    @property
    def url(self) -> str:
        """Where the API server is."""
        return str(self._client.configuration.host)

    def bounded(self, timeout_s: float) -> KubeApi:
        """The same server with this limit on connecting and on waiting for an answer, and without
        `before_write`."""
        twin = copy.copy(self)
        twin._timeouts_s = (timeout_s, timeout_s)
        twin.before_write = None
        return twin

    def check_may_write(self) -> None:
        """For writes that go elsewhere, such as to a store: raises LeadershipLostError where a
        write here would be refused."""
        if self.before_write is not None:
            self.before_write()

    def get(
        self, resource: ApiResource, name: str, namespace: str | None = None
    ) -> Manifest | None:
        """One object; None when there is none of that name."""
        return self._or_none("get", resource, resource.path(namespace, name))

    def list(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> tuple[list[Manifest], str]:
        """All objects that match `labels` and `fields` (selectors), and the version to watch from.

        Reads in pages of `limit`. Raises ExpiredError when the pages took too long.
        """
        items: list[Manifest] = []
        query = {
            "limit": str(limit),
            "labelSelector": labels,
            "fieldSelector": fields,
            "continue": "",
        }
        while True:
            page = self._call("list", resource, resource.path(namespace), query=query)
            for item in page.get("items") or ():
                # The items of a list carry neither apiVersion nor kind.
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                items.append(item)
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return items, str(page["metadata"]["resourceVersion"])

    def watch(
        self,
        resource: ApiResource,
        resource_version: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        timeout_s: float = 60.0,
    ) -> Iterator[WatchEvent]:
        """Changes since `resource_version`, as they happen, until the server ends the watch.

        The server ends it after `timeout_s`; a silent connection is given up soon after. Raises
        ExpiredError when the version is too old.
        """
        query = {
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(timeout_s))),
            "labelSelector": labels,
        }
        response = self._send(
            "watch",
            resource,
            "GET",
            resource.path(namespace),
            query=query,
            read_timeout_s=timeout_s + _WATCH_GRACE_S,
        )
        try:
            for line in _lines(response):
                yield _watch_event(json.loads(line))
        except (HTTPError, OSError, ValueError) as error:
            raise ApiUnavailableError(
                f"the watch of {resource} was interrupted: {_words(error)}"
            ) from error
        finally:
            # Closed, not released: unread data would break the connection for the next request.
            response.close()

    def create(
        self,
        resource: ApiResource,
        manifest: Manifest,
        namespace: str | None = None,
        *,
        is_strict: bool = False,
    ) -> Created | Exists:
        """Create the object if there is none of its name. A field that the API server does not know
        is refused where it `is_strict`, and dropped otherwise."""
        try:
            path = resource.path(namespace)
            query = {"fieldManager": FIELD_MANAGER}
            if is_strict:
                query["fieldValidation"] = "Strict"
            return Created(self._call("create", resource, path, "POST", query, manifest))
        except ApiRefusedError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return Exists()
            raise

    def apply(
        self,
        resource: ApiResource,
        manifest: Manifest,
        namespace: str | None = None,
        *,
        subresource: str = "",
        force: bool = True,
    ) -> Manifest:
        """Server-side apply: fields in `manifest` are ours, those it no longer has are removed."""
        name = str(manifest["metadata"]["name"])
        query = {"fieldManager": FIELD_MANAGER, "force": str(force).lower()}
        path = resource.path(namespace, name, subresource)
        return self._call("apply", resource, path, "PATCH", query, manifest, _APPLY)

    def replace(
        self,
        resource: ApiResource,
        manifest: Manifest,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Replaced | Stale:
        """Replace the object if it is still the one that `metadata.resourceVersion` names."""
        if not manifest["metadata"].get("resourceVersion"):
            raise ConfigError("a replacement needs metadata.resourceVersion")
        path = resource.path(namespace, str(manifest["metadata"]["name"]), subresource)
        try:
            query = {"fieldManager": FIELD_MANAGER}
            return Replaced(self._call("replace", resource, path, "PUT", query, manifest))
        except ApiRefusedError as error:
            if error.status in (404, 409):
                return Stale()
            raise

    def patch(
        self,
        resource: ApiResource,
        name: str,
        change: Manifest,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Manifest | None:
        """Merge `change` into the object; None when there is none of that name."""
        path = resource.path(namespace, name, subresource)
        query = {"fieldManager": FIELD_MANAGER}
        return self._or_none("patch", resource, path, "PATCH", query, change, _MERGE)

    def log(self, pod: str, namespace: str, *, follows: bool = False) -> Iterator[str]:
        """The lines of a pod's log, further ones as they are written if `follows`."""
        query = {"follow": "true"} if follows else {}
        path = PODS.path(namespace, pod, "log")
        read_timeout_s = _FOLLOW_SILENCE_S if follows else None
        response = self._send("log", PODS, "GET", path, query=query, read_timeout_s=read_timeout_s)
        try:
            for line in _lines(response, keeps_rest=True):
                yield line.decode("utf-8", "replace")
        except (HTTPError, OSError) as error:
            raise ApiUnavailableError(
                f"the log of {pod} was interrupted: {_words(error)}"
            ) from error
        finally:
            response.close()

    def request_token(self, account: str, namespace: str, audience: str, seconds: int) -> str:
        """A token of a service account for `audience`, which lives so long if the cluster allows it
        (TokenRequest)."""
        path = SERVICE_ACCOUNTS.path(namespace, account, "token")
        wanted: Manifest = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": seconds},
        }
        made = self._call("create a token of", SERVICE_ACCOUNTS, path, "POST", {}, wanted)
        token = str(made["status"]["token"])
        note_secrets([token])
        return token

    def delete(
        self,
        resource: ApiResource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str = "Background",
        uid: str | None = None,
    ) -> bool:
        """Delete the object, and what it owns; False when it was gone (or is not `uid`)."""
        options: Manifest = {"propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        path = resource.path(namespace, name)
        try:
            return self._or_none("delete", resource, path, "DELETE", None, options) is not None
        except ApiRefusedError as error:
            if error.status == 409:
                return False
            raise

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()  # type: ignore[no-untyped-call]

    def _or_none(self, *arguments: Any) -> Manifest | None:
        try:
            return self._call(*arguments)
        except ApiRefusedError as error:
            if error.is_missing:
                return None
            raise

    def _call(
        self,
        verb: str,
        resource: ApiResource,
        path: str,
        method: str = "GET",
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = _JSON,
    ) -> Manifest:
        response = self._send(verb, resource, method, path, query, body, content_type)
        try:
            content = json.loads(response.data)
        except (HTTPError, OSError, ValueError) as error:
            message = f"the answer to {verb} {resource} was interrupted: {_words(error)}"
            raise ApiUnavailableError(message) from error
        if not isinstance(content, dict):
            raise ApiUnavailableError(f"the answer to {verb} {resource} is not a JSON object")
        return content

    def _send(
        self,
        verb: str,
        resource: ApiResource,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = _JSON,
        read_timeout_s: float | None = None,
    ) -> Any:
        """A successful answer, its body unread."""
        if method != "GET":
            self.check_may_write()
        connect_timeout_s, answer_timeout_s = self._timeouts_s
        headers = {"Accept": _JSON, "User-Agent": FIELD_MANAGER}
        if body is not None:
            headers["Content-Type"] = content_type
        given = {name: text for name, text in (query or {}).items() if text}
        url = self.url + path + (f"?{urlencode(given)}" if given else "")
        status = 0
        try:
            self._client.update_params_for_auth(headers, [], self._auth, path, method, body)
            note_secrets([headers.get("authorization")])
            response = self._client.rest_client.request(  # type: ignore[no-untyped-call]
                method,
                url,
                headers=headers,
                body=body,
                _request_timeout=(connect_timeout_s, read_timeout_s or answer_timeout_s),
            ).response
            status = response.status
            if not 200 <= status <= 299:
                raise _failure(response, verb, resource)
            return response
        except (HTTPError, OSError, ApiException) as error:
            raise ApiUnavailableError(f"no answer from {self.url}: {_words(error)}") from error
        finally:
            if self.on_request is not None:
                self.on_request(verb, resource.plural, status)


def _failure(response: Any, verb: str, resource: ApiResource) -> Exception:
    """The error that an unsuccessful answer means to the caller."""
    try:
        content = json.loads(response.data)
    except ValueError:
        content = {}
    if not isinstance(content, dict):
        content = {}
    status = int(response.status)
    reason = str(content.get("reason") or response.reason or status)
    message = str(content.get("message") or f"{verb} {resource}: {status} {reason}")
    if status == 410:
        return ExpiredError(message)
    is_race = status == 409 and verb == "create" and reason != "AlreadyExists"
    if status in _BUSY or status >= 500 or is_race:
        wait = str(response.headers.get("Retry-After", ""))
        seconds = float(wait) if wait.isdecimal() else None
        return ApiUnavailableError(f"{status} {reason}: {message}", retry_after_s=seconds)
    return ApiRefusedError(status, reason, message)


def _watch_event(content: Any) -> WatchEvent:
    kind, thing = content["type"], content["object"]
    if kind != "ERROR":
        return WatchEvent(WatchKind(kind), thing)
    message = str(thing.get("message", "the watch ended with an error"))
    if thing.get("code") == 410:
        raise ExpiredError(message)
    raise ApiUnavailableError(f"{thing.get('code')} {thing.get('reason')}: {message}")


def _lines(response: Any, *, keeps_rest: bool = False) -> Iterator[bytes]:
    """The complete lines of a stream, each as soon as it is there, and what follows the last one
    if `keeps_rest`."""
    rest = bytearray()
    while True:
        chunk = response.read1()
        if not chunk:
            if rest and keeps_rest:
                yield bytes(rest)
            return
        rest += chunk
        end = rest.rfind(b"\n")
        if end >= 0:
            complete = bytes(rest[:end])
            del rest[: end + 1]
            yield from (line for line in complete.split(b"\n") if line.strip())


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
