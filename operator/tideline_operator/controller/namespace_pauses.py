"""Namespaces whose tables are all paused: `tideline.dev/paused: "true"` on the Namespace."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tideline.clock import Clock
from tideline_operator.api_objects import NAMESPACES, ApiRefusedError, ApiUnavailableError
from tideline_operator.kube import KubeApi
from tideline_operator.resources.metadata import is_pause

FRESH_S = 15.0
PAUSED_LOOK_S = 30.0
"""How soon a table of a paused namespace is looked at again: namespaces are not watched."""


@dataclass(frozen=True, slots=True)
class _Known:
    is_paused: bool
    at_s: float


class NamespacePauses:
    """Whether a namespace is paused, asked at most every `FRESH_S`. For any number of threads."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def is_paused(self, namespace: str) -> bool:
        """What the namespace said last; False until it could be read once."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            known = self._known.get(namespace)
        if known is not None and now_s - known.at_s < FRESH_S:
            return known.is_paused
        try:
            found = self._api.get(NAMESPACES, namespace)
            annotations = ((found or {}).get("metadata") or {}).get("annotations") or {}
            is_paused = is_pause(annotations)
        except (ApiRefusedError, ApiUnavailableError):
            # A table that was paused stays so while the API server does not answer.
            is_paused = known is not None and known.is_paused
        with self._lock:
            self._known[namespace] = _Known(is_paused, now_s)
        return is_paused
