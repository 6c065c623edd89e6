"""Pretended pods of one namespace: they succeed, fail, are killed or hang, as the walk says.

A thread plays the Job controller, the kubelet and the garbage collector over a `SimulatedCluster`,
and remembers what ran, so that what runs twice is found.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from enum import Enum

from tideline.errors import ConflictError, TidelineError
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import files_of
from tideline.storage.object_store import ObjectStore
from tideline_operator.api_objects import (
    CONFIG_MAPS,
    JOBS,
    LAKE_CATALOGS,
    LAKE_TABLES,
    PODS,
    ApiResource,
    Manifest,
)
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import OPERATION_LABEL
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.testing.simulated_cluster import SimulatedCluster

_LOOK_S = 0.02
_LOOKS_PER_COLLECTION = 5
_DEPENDENTS = (LAKE_TABLES, JOBS, CONFIG_MAPS, PODS)
_OWNERS = (LAKE_TABLES, LAKE_CATALOGS, JOBS)

_log = logging.getLogger(__name__)


class PodEnd(Enum):
    """What becomes of pods."""

    SUCCEED = "succeed"
    FAIL = "fail"
    CONFLICT = "end with a conflict"
    KILLED = "are killed before they commit"
    KILLED_LATE = "are killed after they have committed"
    HANG = "hang"


class PretendedPods:
    """Runs the Jobs of a namespace for the length of a `with` block, each as `end` says."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        cluster: SimulatedCluster,
        open_store: Callable[[Location], ObjectStore],
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._cluster = cluster
        self._open_store = open_store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pretended pods", daemon=True)
        self._looks = 0
        self.end = PodEnd.SUCCEED
        self.is_busy = False
        self.ran = 0
        self.twice: list[str] = []
        self.taken: dict[tuple[str, str], Counter[str]] = {}

    def __enter__(self) -> PretendedPods:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10.0)

    @property
    def looks(self) -> int:
        """How often it has looked for Jobs."""
        return self._looks

    def taken_by(self, location: str, ingest: str) -> Counter[str]:
        """How often each file was taken into the table there, by its path, of an ingest."""
        return self.taken.setdefault((location, ingest), Counter())

    def forget_table(self, location: str) -> None:
        """The table there is gone with its checkpoints."""
        self.taken = {key: files for key, files in self.taken.items() if key[0] != location}

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                if self._looks % _LOOKS_PER_COLLECTION == 0:
                    self._collect_garbage()
                self._look()
            except (TidelineError, AssertionError) as error:
                # What the walk deletes meanwhile is gone.
                _log.info("pods: %s", error)
            self._looks += 1

    def _look(self) -> None:
        jobs = self._cluster.active_jobs()
        self.is_busy = any(self._moves(job) for job in jobs)
        self._note_twins(jobs)
        for job in jobs:
            if job["metadata"].get("deletionTimestamp"):
                self._cluster.remove(job)
            elif WORKER_LABEL in job["metadata"]["labels"]:
                self.ran += 1
                self._cluster.lose(job)
            elif self._cluster.can_start(job):
                self._carry_out(job)

    def _moves(self, job: Manifest) -> bool:
        is_deleted = bool(job["metadata"].get("deletionTimestamp"))
        return is_deleted or self.end is not PodEnd.HANG

    def _note_twins(self, jobs: list[Manifest]) -> None:
        """Two attempts of one operation that are there at the same time."""
        names = Counter(job["metadata"]["labels"].get(OPERATION_LABEL) for job in jobs)
        del names[None]
        self.twice += [f"{name} has {count} Jobs" for name, count in names.items() if count > 1]

    def _carry_out(self, job: Manifest) -> None:
        operation = self._cluster.operation_of(job)
        end = self.end
        if end is PodEnd.HANG:
            self._cluster.start_pod(job)
            return
        self.ran += 1
        if end is PodEnd.KILLED:
            self._cluster.lose(job)
            return
        if end in (PodEnd.FAIL, PodEnd.CONFLICT):
            code = ConflictError.exit_code if end is PodEnd.CONFLICT else 1
            self._cluster.finish(job, _failed(operation, code, f"the pretended pods {end.value}"))
            return
        try:
            result = self._cluster.work(operation)
            self._note_taken(operation, result)
        except TidelineError as error:
            result = _failed(operation, error.exit_code, str(error))
        if end is PodEnd.KILLED_LATE:
            self._cluster.lose(job)
        else:
            self._cluster.finish(job, result)

    def _note_taken(self, operation: Operation, result: OperationResult) -> None:
        work = operation.work
        if not isinstance(work, IngestRange) or result.outcome is not Outcome.SUCCEEDED:
            return
        location = operation.table.location.uri
        taken = self.taken_by(location, work.name)
        if work.former_name:
            taken |= self.taken_by(location, work.former_name)
        assert isinstance(work.source, DeclaredFiles)
        files = files_of(work.range).files
        for file in files:
            if file.identity in taken:
                self.twice.append(f"ingest {work.name} took {file.path} into {location} twice")
            taken[file.identity] += 1
        if work.source.settles:
            landing = self._open_store(work.source.landing)
            for file in files:
                landing.delete(file.path)

    def _collect_garbage(self) -> None:
        """Delete what is owned by an object that is gone."""
        # Owners are listed last: what is owned is made after its owner.
        dependents = [(kind, item) for kind in _DEPENDENTS for item in self._listed(kind)]
        owners = {item["metadata"]["uid"] for kind in _OWNERS for item in self._listed(kind)}
        for kind, item in dependents:
            owned_by = item["metadata"].get("ownerReferences") or ()
            if not owned_by or any(entry["uid"] in owners for entry in owned_by):
                continue
            if kind is JOBS:
                self._cluster.remove(item)
            else:
                self._api.delete(kind, str(item["metadata"]["name"]), self._namespace)

    def _listed(self, kind: ApiResource) -> list[Manifest]:
        return self._api.list(kind, self._namespace)[0]


def _failed(operation: Operation, exit_code: int, message: str) -> OperationResult:
    return OperationResult(operation.id, Outcome.FAILED, message=message, exit_code=exit_code)
