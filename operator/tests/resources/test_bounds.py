"""A status that is too long for the API server is cut, and otherwise left alone."""

from __future__ import annotations

from tideline_operator.resources.bounds import within_bounds
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    OPERATIONS_MAX,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    PendingInstant,
    TimelineStatus,
)


def operation(number: int, message: str = "") -> OperationStatus:
    return OperationStatus(
        id=f"t-ingest-{number}",
        kind="ingest",
        phase=OperationPhase.RUNNING,
        started_at=Timestamp(0),
        message=message,
    )


def test_what_fits_is_left_as_it_is() -> None:
    status = LakeTableStatus(
        operations=(operation(1, "done"),), ingest={"landing": IngestStatus(lag_files=3)}
    )
    assert within_bounds(status) == status


def test_a_long_text_is_cut_and_says_so() -> None:
    (cut,) = within_bounds(LakeTableStatus(operations=(operation(1, "x" * 5000),))).operations
    assert len(cut.message) == 4096
    assert cut.message.endswith("x...")


def test_texts_inside_mappings_are_cut() -> None:
    status = LakeTableStatus(ingest={"landing": IngestStatus(checkpoint="y" * 3000)})
    assert len(within_bounds(status).ingest["landing"].checkpoint) == 2048


def test_the_newest_of_a_long_list_are_kept() -> None:
    operations = tuple(operation(number) for number in range(OPERATIONS_MAX + 3))
    kept = within_bounds(LakeTableStatus(operations=operations)).operations
    assert kept == operations[3:]
    pending = tuple(
        PendingInstant(time=f"{number:017d}", action="commit", state="requested")
        for number in range(150)
    )
    timeline = TimelineStatus(pending=pending, pending_count=150)
    cut = within_bounds(LakeTableStatus(timeline=timeline)).timeline
    assert (len(cut.pending), cut.pending_count) == (100, 150)
