"""Which of the services that are due goes first, by what each saves per core-second. Pure.

1. What a person asked for, and what a dead run left, has no rate and goes first.
2. A rewrite of an Iceberg table has a plan, as far as the newest snapshot is counted: what that
   saves, for what past runs took in proportion to its bytes.
3. Of other services the last run that did something says both. Without one, a service of a Hudi
   table goes first, so that its rate becomes known; one of an Iceberg table comes after rewrites,
   whose plans are known, and removes what they leave behind.
"""

from __future__ import annotations

from tideline.iceberg.services.due_facts import RewriteOutlook
from tideline.services.ranking import benefit_per_core_second, default_core_seconds, ranked
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.resources.status import LakeTableStatus, ServiceStatus

Rate = float | None
"""Bytes that a scan no longer reads, per core-second; None where that is not known."""


def rate_of(need: ServiceNeed, status: LakeTableStatus, observed: Observed) -> Rate:
    """What running a service is expected to save for what it takes."""
    if need.rerun is not None or need.resumes:
        return None
    known = status.services.get(need.name, ServiceStatus())
    outlook = need.outlook
    if outlook is not None:
        return benefit_per_core_second(outlook.benefit.benefit_bytes, _core_seconds(outlook, known))
    last = known.last_saving
    if last is None:
        return 0.0 if observed.iceberg is not None else None
    return benefit_per_core_second(last.benefit_bytes, last.core_ms / 1e3)


def in_order(
    needs: tuple[ServiceNeed, ...], status: LakeTableStatus, observed: Observed
) -> tuple[ServiceNeed, ...]:
    """The needs in the order in which to run them; those that are not due come last."""
    due = ranked(
        [need for need in needs if need.is_due],
        lambda need: rate_of(need, status, observed),
        lambda service_need, other: service_need.service.goes_after(other.service),
    )
    return (*due, *(need for need in needs if not need.is_due))


def _core_seconds(outlook: RewriteOutlook, known: ServiceStatus) -> float:
    last, counts = known.last_saving, known.last_figures
    if last is not None and last.core_ms and counts is not None and counts.bytes_before:
        return last.core_ms / 1e3 * outlook.bytes_before / counts.bytes_before
    files = outlook.files_before + outlook.files_after
    return default_core_seconds(2 * outlook.bytes_before, files)
