"""What became of the writers that heartbeats of pending instants name, checked by their pods.

1. A writer is one of ours when the pod in its name is known here: listed now, or noted in the
   status while its Job was there. Another cluster may manage the same table and plan the same
   operations; nothing is known here of its pods, and only the age of a heartbeat counts.
2. While a Job of its operation may start a pod, or a pod of it has not ended, it is ENDING. This
   includes executors that outlive their driver.
3. GONE is only concluded after reading past the caches.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.ingest.operation.operation import parse_writer_name
from tideline_operator.api_objects import JOBS, PODS, Manifest
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.observed import Observed, ObservedPending, WriterState
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import OPERATION_LABEL
from tideline_operator.launch.job_outcome import has_ended, may_start_pods
from tideline_operator.resources.status import LakeTableStatus


class WriterStates:
    """Compares heartbeats' writers with pods. Raises ApiUnavailableError."""

    def __init__(self, api: KubeApi, pods: ObjectCache) -> None:
        self._api = api
        self._pods = pods

    def check(self, key: Key, status: LakeTableStatus, observed: Observed) -> Observed:
        """`observed` with the states of its writers; a dead one's instant is dead."""
        table = observed.table
        if table is None or not any(instant.writer for instant in table.pending):
            return observed
        pending = tuple(
            self._checked(key, status, instant, observed.running) for instant in table.pending
        )
        return replace(observed, table=replace(table, pending=pending))

    def _checked(
        self,
        key: Key,
        status: LakeTableStatus,
        instant: ObservedPending,
        running: frozenset[str],
    ) -> ObservedPending:
        named = parse_writer_name(instant.writer)
        if named is None or named[0] in running or not self._is_ours(key, status, *named):
            return instant
        if not self._is_gone(key, named[0]):
            return replace(instant, writer_state=WriterState.ENDING)
        return replace(instant, writer_state=WriterState.GONE, is_dead=True, dead_at_ms=None)

    def _is_ours(self, key: Key, status: LakeTableStatus, operation_id: str, pod_uid: str) -> bool:
        noted = any(
            (item.id, item.pod_uid) == (operation_id, pod_uid) for item in status.operations
        )
        return noted or any(_uid(pod) == pod_uid for pod in self._pods.labelled(*key))

    def _is_gone(self, key: Key, operation_id: str) -> bool:
        known = (pod for pod in self._pods.labelled(*key) if _operation(pod) == operation_id)
        if not all(has_ended(pod) for pod in known):
            return False
        selector = f"{OPERATION_LABEL}={operation_id}"
        jobs, _ = self._api.list(JOBS, key[0], labels=selector)
        if any(may_start_pods(job) for job in jobs):
            return False
        pods, _ = self._api.list(PODS, key[0], labels=selector)
        return all(has_ended(pod) for pod in pods)


def _uid(item: Manifest) -> str:
    return str(item["metadata"].get("uid"))


def _operation(item: Manifest) -> str:
    return str(item["metadata"].get("labels", {}).get(OPERATION_LABEL))
