"""Secrets whose keys are variables of the environment, read by name.

Engine pods get them as such. The operator, which works for many tables in one process, reads the
same keys itself, and keeps what it read for `FRESH_S`.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Mapping

from tideline.clock import Clock
from tideline.secret_values import note_environment
from tideline_operator.api_objects import SECRETS, ApiRefusedError
from tideline_operator.controller.connections import FRESH_S
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.kube import KubeApi


class SecretVariables:
    """Variables by namespace and Secret. For any number of threads."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, dict[str, str], str]] = {}

    def read(self, namespace: str, name: str, field: str) -> Mapping[str, str]:
        """What the Secret has, which `field` names.

        Raises SecretProblemError, and ApiUnavailableError when the Secret cannot be read now.
        """
        key = namespace, name
        with self._lock:
            known = self._known.get(key)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[0] <= FRESH_S:
            return known[1]
        try:
            secret = self._api.get(SECRETS, name, namespace)
        except ApiRefusedError as error:
            raise SecretProblemError("SecretRefused", f"{field}: {error.message}") from error
        if secret is None:
            message = f"{field}: there is no Secret {name!r} in namespace {namespace}: create it"
            raise SecretProblemError("SecretMissing", message)
        variables = {key: _decoded(text) for key, text in (secret.get("data") or {}).items()}
        note_environment(variables)
        with self._lock:
            self._known[key] = now_s, variables, str(secret["metadata"].get("resourceVersion"))
        return variables

    def version(self, namespace: str, name: str) -> tuple[str, ...]:
        """The version of the Secret that was read last; none before that."""
        with self._lock:
            known = self._known.get((namespace, name))
        return () if known is None else (known[2],)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text or "", validate=True).decode().strip()
    except (binascii.Error, ValueError):
        return ""
