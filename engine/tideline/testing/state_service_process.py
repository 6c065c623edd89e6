"""Cleaning, savepoints and restores in a process of their own, to be killed in the middle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.table_audit import open_fresh

KEEP_ONE = CleaningConfig(commits_retained=1)

SERVICES: Mapping[str, Callable[[HoodieTable, InstantTime], object]] = {
    "clean": lambda table, _: clean_table(table, KEEP_ONE),
    "create savepoint": create_savepoint,
    "delete savepoint": delete_savepoint,
    "restore": restore_table,
}


@dataclass(frozen=True, slots=True)
class StateServiceTask:
    """One run of a service for a process; `instant` is the savepoint, `plan` says when it dies."""

    location: StoreLocation
    service: str
    instant: InstantTime
    plan: FaultPlan = field(default_factory=FaultPlan)


def run_state_service(task: StateServiceTask) -> FaultyStore:
    """Run it; returns the store it went through."""
    store = FaultyStore(task.location.open(), task.plan, kernel_locks=True)
    SERVICES[task.service](open_fresh(task.location, store), task.instant)
    return store
