"""Which of two rows with one key stays, and the names that Hudi has for it."""

from __future__ import annotations

from enum import Enum


class MergeMode(Enum):
    """Which of two records with one key stays (Hudi: RecordMergeMode).

    EVENT_TIME_ORDERING: the higher ordering value, the later write when equal.
    COMMIT_TIME_ORDERING: the later write.
    """

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"

    @classmethod
    def from_payload(cls, class_name: str) -> MergeMode | None:
        """The mode that a payload class stands for, None for a custom class."""
        return _MODE_OF_PAYLOAD.get(class_name)

    @classmethod
    def from_strategy(cls, strategy_id: str) -> MergeMode | None:
        """The mode that a merge strategy's id stands for, None for a custom strategy."""
        return _MODE_OF_STRATEGY.get(strategy_id)

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


_MODEL = "org.apache.hudi.common.model."
PAYLOAD_OF_MODE = {
    MergeMode.EVENT_TIME_ORDERING: f"{_MODEL}DefaultHoodieRecordPayload",
    MergeMode.COMMIT_TIME_ORDERING: f"{_MODEL}OverwriteWithLatestAvroPayload",
}
PAYLOAD_OF_NULLS = {
    MergeMode.EVENT_TIME_ORDERING: f"{_MODEL}PartialUpdateAvroPayload",
    MergeMode.COMMIT_TIME_ORDERING: f"{_MODEL}OverwriteNonDefaultsWithLatestAvroPayload",
}
"""What earlier versions say instead of the mode and IGNORE_DEFAULTS."""
_MODE_OF_PAYLOAD = {payload: mode for mode, payload in PAYLOAD_OF_MODE.items()} | {
    f"{_MODEL}EventTimeAvroPayload": MergeMode.EVENT_TIME_ORDERING
}
STRATEGY_OF_MODE = {
    MergeMode.EVENT_TIME_ORDERING: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
CUSTOM_MODE = "CUSTOM"
"""The merge mode of tables whose rows custom code merges."""
MERGED_BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"
"""The merge strategy of those whose payload class does."""
_MODE_OF_STRATEGY = {strategy: mode for mode, strategy in STRATEGY_OF_MODE.items()}
