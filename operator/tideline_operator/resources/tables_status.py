"""The status of what has many tables: those that were found, and how its LakeTables are."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tideline_operator.resources.field import described
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import ConditionStatus

LEFT_MAX = 50
_MESSAGE_LENGTH_MAX = 1024


class TablesConditionType(Enum):
    """Conditions of what has many tables."""

    READY = "Ready"
    TABLES_READY = "TablesReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesCondition:
    """One condition."""

    type: TablesConditionType = described("Which condition.")
    status: ConditionStatus = described("Whether it holds.")
    reason: str = described("One word in CamelCase.", length_max=128)
    message: str = described("A sentence for people.", default="", length_max=_MESSAGE_LENGTH_MAX)
    last_transition_time: Timestamp = described("When `status` last changed.", length_max=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesStatus:
    """Observed state of a resource that has many tables."""

    observed_generation: int = described("Generation this status is about.", default=0)
    conditions: tuple[TablesCondition, ...] = described(
        "Conditions.", default=(), items_max=16, item_key="type"
    )
    last_look: Timestamp | None = described(
        "When its tables were listed last.", default=None, length_max=40
    )
    found: int = described("Tables that it has.", default=0, always_written=True)
    maintained: int = described(
        "Tables for which it keeps a LakeTable.", default=0, always_written=True
    )
    excluded: int = described(
        "Tables that include and exclude leave alone.", default=0, always_written=True
    )
    left_to_others: int = described("Tables whose place is that of another LakeTable.", default=0)
    late: int = described(
        "Maintained tables with services that are due and do not run.",
        default=0,
        always_written=True,
    )
    failing: int = described(
        "Maintained tables that are not ready.", default=0, always_written=True
    )
    left: Mapping[str, str] = described(
        "Tables that cannot be maintained, with the reason; the first of them.",
        default_factory=dict,
        length_max=_MESSAGE_LENGTH_MAX,
        items_max=LEFT_MAX,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCatalogStatus(TablesStatus):
    """Observed state of one LakeCatalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSourceStatus(TablesStatus):
    """Observed state of one LakeSource."""

    slot: str = described(
        "How much log the server keeps for the slot, and for which table, where that is much.",
        default="",
        length_max=_MESSAGE_LENGTH_MAX,
    )
