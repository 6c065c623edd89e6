"""LakeStore's status: the buckets used through it, and whether they pass their checks."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tideline_operator.resources.field import described
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import ConditionStatus

BUCKETS_MAX = 64
_MESSAGE_LENGTH_MAX = 1024


class StoreConditionType(Enum):
    """Conditions of a store."""

    READY = "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCondition:
    """One condition."""

    type: StoreConditionType = described("Which condition.")
    status: ConditionStatus = described("Whether it holds.")
    reason: str = described("One word in CamelCase.", length_max=128)
    message: str = described("A sentence for people.", default="", length_max=_MESSAGE_LENGTH_MAX)
    last_transition_time: Timestamp = described("When `status` last changed.", length_max=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """One check of what the store must guarantee."""

    name: str = described("As `tideline check-store` calls it.", length_max=64)
    outcome: str = described("passed, unsupported or failed.", length_max=32)
    message: str = described(
        "What is wrong, and what it costs.", default="", length_max=_MESSAGE_LENGTH_MAX
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStatus:
    """One bucket that tables of the namespace use through this store."""

    problem: str = described(
        "Why it cannot be used, as one word; empty while it can.",
        default="",
        length_max=128,
        always_written=True,
        may_be_empty=True,
    )
    message: str = described(
        "The same for people, with what to do.", default="", length_max=_MESSAGE_LENGTH_MAX
    )
    outcome: str = described(
        "Worst outcome of its checks: passed, unsupported or failed.", default="", length_max=32
    )
    checks: tuple[StoreCheck, ...] = described(
        "The checks. Made once for a bucket that holds tables, and again when spec changes.",
        default=(),
        items_max=32,
    )
    checked_at: Timestamp | None = described("When.", default=None, length_max=40)
    checked_generation: int = described("Generation of the LakeStore then.", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeStoreStatus:
    """Observed state of one store."""

    observed_generation: int = described("Generation this status is about.", default=0)
    conditions: tuple[StoreCondition, ...] = described(
        "Conditions.", default=(), items_max=16, item_key="type"
    )
    buckets: Mapping[str, BucketStatus] = described(
        "Buckets by name.", default_factory=dict, items_max=BUCKETS_MAX
    )
