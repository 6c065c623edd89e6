"""Where a warm worker gets operations and leaves what came of them: the Kubernetes API.

The worker only sends requests, so nothing can connect to it. It watches the ConfigMaps that are
labelled for its pod, reads LakeTables, and writes labels and one annotation of its own pod. The
labels of a busy worker are those of an operation's own pod.
"""

from __future__ import annotations

import json
import sys
import urllib.error
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError, TidelineError
from tideline.ingest.executors.kubernetes_account import MERGE_PATCH, KubernetesAccount
from tideline.ingest.executors.kubernetes_pods import ThisPod
from tideline.ingest.operation.assignment import (
    ASSIGNEE_LABEL,
    ASSIGNMENT_KEY,
    KIND_LABEL,
    OPERATION_LABEL,
    REPORT_ANNOTATION,
    TABLE_LABEL,
    Assignment,
    WorkerReport,
)

_REQUEST_S = 10.0
_WATCH_S_MAX = 60.0
_PAUSE_S = 1.0
_MISSING = 404


class ApiSilentError(TidelineError):
    """The API server did not answer, or not as it should; a retry may help."""


class Assignments(Protocol):
    """What a worker needs of the operator. All but `next` raise ApiSilentError."""

    def next(self, timeout_s: float) -> Assignment | None:
        """The next operation for this worker that was not returned before, if one comes in
        time."""

    def table(self, name: str) -> dict[str, Any] | None:
        """The LakeTable as it is now; None when there is none."""

    def show(self, report: WorkerReport | None, busy_with: Assignment | None) -> None:
        """Make the report readable, and what the worker is busy with."""

    def forget(self, assignment: Assignment) -> None:
        """It is done with."""


@dataclass(slots=True)
class PodAssignments:
    """Those of this pod. `termination_log` gets every report first: it stays readable when the pod
    dies, and when the API server cannot be reached."""

    pod: ThisPod
    uid: str
    account: KubernetesAccount
    termination_log: Path | None = None
    clock: Clock = field(default_factory=SystemClock)
    _returned: set[str] = field(default_factory=set)
    _complaint: str = ""

    def next(self, timeout_s: float) -> Assignment | None:
        try:
            return self._watched(min(timeout_s, _WATCH_S_MAX))
        except (OSError, ValueError) as error:
            self._complain(f"assignments cannot be watched: {error}")
            self.clock.sleep(_PAUSE_S)
            return None

    def table(self, name: str) -> dict[str, Any] | None:
        url = (
            f"{self.pod.api_url}/apis/tideline.dev/v1alpha1/namespaces/{self.pod.namespace}"
            f"/laketables/{name}"
        )
        try:
            return self.account.call("GET", url, timeout_s=_REQUEST_S)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _MISSING:
                    return None
                raise ApiSilentError(f"LakeTable {name} cannot be read: {error}") from error
        except (OSError, ValueError) as error:
            raise ApiSilentError(f"LakeTable {name} cannot be read: {error}") from error

    def show(self, report: WorkerReport | None, busy_with: Assignment | None) -> None:
        text = None if report is None else report.to_json()
        if self.termination_log is not None:
            self.termination_log.write_text(text or "", encoding="utf-8")
        labels = {
            TABLE_LABEL: None if busy_with is None else busy_with.table,
            OPERATION_LABEL: None if busy_with is None else busy_with.operation_id,
            KIND_LABEL: None if busy_with is None else busy_with.kind,
        }
        change = {"metadata": {"labels": labels, "annotations": {REPORT_ANNOTATION: text}}}
        url = f"{self._namespace_url}/pods/{self.pod.name}"
        try:
            self.account.call("PATCH", url, change, content_type=MERGE_PATCH, timeout_s=_REQUEST_S)
        except (OSError, ValueError) as error:
            raise ApiSilentError(f"pod {self.pod.name} cannot be changed: {error}") from error

    def forget(self, assignment: Assignment) -> None:
        url = f"{self._namespace_url}/configmaps/{assignment.name}"
        try:
            self.account.call("DELETE", url, timeout_s=_REQUEST_S)
        except (OSError, ValueError) as error:
            raise ApiSilentError(f"{assignment.name} cannot be deleted: {error}") from error

    @property
    def _namespace_url(self) -> str:
        return f"{self.pod.api_url}/api/v1/namespaces/{self.pod.namespace}"

    def _watched(self, timeout_s: float) -> Assignment | None:
        selector = {"labelSelector": f"{ASSIGNEE_LABEL}={self.uid}"}
        url = f"{self._namespace_url}/configmaps"
        for event in self.account.watch(url, selector, timeout_s=timeout_s):
            if event.get("type") not in ("ADDED", "MODIFIED"):
                continue
            name = str(event["object"]["metadata"]["name"])
            if name in self._returned:
                continue
            self._returned.add(name)
            try:
                return Assignment.parse(name, event["object"]["data"][ASSIGNMENT_KEY])
            except (ConfigError, KeyError, TypeError, json.JSONDecodeError) as error:
                self._complain(f"{name} is no operation: {error}")
        return None

    def _complain(self, text: str) -> None:
        """Once, however often it recurs."""
        if text != self._complaint:
            self._complaint = text
            print(f"tideline: {text}", file=sys.stderr, flush=True)
