"""Services in processes of their own: to be killed in the middle, or to run alongside writers.

They move rows with the in-process engine, so that a run costs milliseconds and no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tideline.errors import ConflictError
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.service import TableService
from tideline.services.run import ServiceRun
from tideline.settings.setting import SettingPlace
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.observed_service_engine import ObservedServiceEngine
from tideline.testing.small_table import SmallTable

_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class ServiceTask:
    """One run of a service for a process: `plan` says when it is killed."""

    location: StoreLocation
    service: TableService
    options: Mapping[str, str]
    plan: FaultPlan = field(default_factory=FaultPlan)


def local_services(
    table: SmallTable,
    options: Mapping[str, str],
    store: ObjectStore | None = None,
    *,
    after_files: Callable[[], object] = lambda: None,
) -> TableServices:
    """The table's services, run by the in-process engine, over `store` if given."""
    lake = table.lake(store)
    given = lake.writer.given(options, SettingPlace.SERVICE)
    return TableServices(lake.writer, given, ObservedServiceEngine(lake.hoodie_table, after_files))


def run_service(task: ServiceTask) -> FaultyStore:
    """Run it once; returns the store it went through."""
    table = SmallTable(task.location)
    store = FaultyStore(table.store(), task.plan, kernel_locks=True)
    local_services(table, task.options, store).run(task.service)
    return store


def hold_a_service_open(task: ServiceTask, ready: str) -> None:
    """Write all files, say so by creating the file `ready`, and wait to be killed or let go."""

    def wait() -> None:
        Path(ready).touch()
        while Path(ready).exists():
            time.sleep(0.01)

    table = SmallTable(task.location)
    local_services(table, task.options, after_files=wait).run(task.service)


def run_services_until(
    location: StoreLocation,
    services: Sequence[TableService],
    options: Mapping[str, str],
    stop: str,
    diary: str,
    only_pending: bool = False,
) -> None:
    """Run the services in turn, again and again, until the file `stop` exists.

    Each finished run is a line of the file `diary`: its name, or `conflict` after it when another
    writer got in the way. `only_pending` executes what others scheduled and plans nothing.
    """
    table = SmallTable(location)
    with Path(diary).open("a") as lines:
        while not Path(stop).exists():
            for service in services:
                line = _run_once(table, service, options, only_pending=only_pending)
                if line:
                    lines.write(f"{line}\n")
                    lines.flush()
            time.sleep(_PAUSE_S)


def _run_once(
    table: SmallTable, service: TableService, options: Mapping[str, str], *, only_pending: bool
) -> str:
    services = local_services(table, options)
    try:
        run: ServiceRun = (services.run_pending if only_pending else services.run)(service)
    except ConflictError as conflict:
        return f"{service} conflict: {conflict}"
    return str(service) if run.done else ""
