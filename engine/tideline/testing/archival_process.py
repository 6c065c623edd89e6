"""Archival in a process of its own, to be killed in the middle."""

from __future__ import annotations

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import open_fresh


def run_archival(location: StoreLocation, config: ArchivalConfig, plan: FaultPlan) -> int:
    """Archive what is due, dying as `plan` says; returns the number of writes."""
    store = FaultyStore(SmallTable(location).store(), plan, kernel_locks=True)
    opened = open_fresh(location, store)
    archive_table(opened, config)
    return len(store.writes)
