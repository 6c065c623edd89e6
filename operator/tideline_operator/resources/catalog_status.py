"""LakeCatalog's status: the tables that were found, and how those that it maintains are."""

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


class CatalogConditionType(Enum):
    """Conditions of a catalog."""

    READY = "Ready"
    TABLES_READY = "TablesReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCondition:
    """One condition."""

    type: CatalogConditionType = described("Which condition.")
    status: ConditionStatus = described("Whether it holds.")
    reason: str = described("One word in CamelCase.", length_max=128)
    message: str = described("A sentence for people.", default="", length_max=_MESSAGE_LENGTH_MAX)
    last_transition_time: Timestamp = described("When `status` last changed.", length_max=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCatalogStatus:
    """Observed state of one catalog."""

    observed_generation: int = described("Generation this status is about.", default=0)
    conditions: tuple[CatalogCondition, ...] = described(
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
    left_to_others: int = described(
        "Tables that have a LakeTable of their own, or of another LakeCatalog.", default=0
    )
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
