"""The adoption report of a Hudi table: capabilities, state, what would break, what to do next.

Reading it changes nothing. Its JSON is a public form: names stay, new ones may be added.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tideline.clock import Clock, SystemClock
from tideline.hudi.adoption.consequences import Consequence, consequences_of
from tideline.hudi.adoption.survey import read_state
from tideline.hudi.adoption.table_state import TableState
from tideline.hudi.capabilities.look import capabilities_by_properties, read_capabilities
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.table_capabilities import TableCapabilities
from tideline.hudi.open_table import open_table
from tideline.hudi.table.table_config import TIMEZONE
from tideline.hudi.timeline.known_zone import ZoneBasis
from tideline.hudi.timeline.zone import offset_text
from tideline.plain_json import members
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

_SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do: why, and the command, without the program's name and the table's URI."""

    why: str
    command: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdoptionReport:
    """All that is to be known of a table; `state` is None of one that is refused altogether."""

    capabilities: TableCapabilities
    state: TableState | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing may be done with the table."""
        return self.capabilities.is_refused

    @property
    def consequences(self) -> tuple[Consequence, ...]:
        """What would break once Tideline works on the table."""
        return () if self.state is None else consequences_of(self.capabilities, self.state)

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """What to do next, in order."""
        capabilities = self.capabilities
        if capabilities.is_refused:
            return ()
        steps = []
        if capabilities.is_changed and any(
            declaration.declare == TIMEZONE for declaration in capabilities.declarations
        ):
            steps.append(_declare_zone(capabilities))
        steps.append(NextStep("look for what is wrong with it, which changes nothing", "check"))
        zone = capabilities.zone
        if capabilities.is_changed and zone is not None and zone.basis is not ZoneBasis.NOT_UTC:
            steps.append(NextStep("see what its services would do, and why", "plan"))
        count = ("--sql", "select count(*) from t")
        if capabilities.may(Permission.MERGE_LOGS) is None:
            steps.append(NextStep("count its rows", "read", count))
        else:
            steps.append(NextStep("count the rows of its base files", "read",
                                  ("--read-optimized", *count)))  # fmt: skip
        return tuple(steps)

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            **self.capabilities.as_json(),
            "refused": self.is_refused,
            **members(self, "state", "consequences", next="next_steps"),
        }


def read_adoption_report(
    location: StoreLocation,
    store: ObjectStore | None = None,
    clock: Clock = _SYSTEM_CLOCK,
    *,
    published: Collection[str] = (),
) -> AdoptionReport:
    """Read the report of the Hudi table at `location`; `published` are the paths of what it is
    published as. Raises as `look_at`."""
    store = store or location.open()
    capabilities = capabilities_by_properties(store)
    if capabilities.is_refused:
        return AdoptionReport(capabilities)
    table = open_table(location, clock, store, capabilities.config)
    timeline = table.timeline()
    return AdoptionReport(
        read_capabilities(table, timeline), read_state(table, timeline, published)
    )


def _declare_zone(capabilities: TableCapabilities) -> NextStep:
    """The distance that was seen is a zone as well, of a country whose clocks never change."""
    minutes = 0 if capabilities.zone is None else capabilities.zone.ahead_minutes
    return NextStep(
        "declare the zone of its writers: by name (America/Los_Angeles) where clocks change with "
        "the seasons, or by the distance from UTC that its newest instant shows",
        "declare",
        (f"--timezone={offset_text(minutes)}",),
    )
