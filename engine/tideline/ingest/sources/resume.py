"""Which checkpoint an ingest continues from: its own, that of its former name, or none.

A checkpoint is kept under the ingest's name and names its source. Two changes of a spec
would make it say something false, so they are refused unless the spec says what was meant:

1. Another source under the same name. What is there may look like what was taken in from the old
   one and would be passed over. `former_address` says that the source was moved. Where positions
   have ids of what they are of, as those of topics, a source that has any of it is no other one.
2. Another name over the same source, for an operation that inserts. Everything would be inserted a
   second time. `former_name` says that the ingest was renamed. Where both names have a checkpoint
   the one that continued from the other counts, so that a name may be given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.kinds import FILES, kind_named
from tideline.ingest.sources.source import Available

_INSERTING = ("insert", "bulk_insert")


@dataclass(frozen=True, slots=True)
class Resume:
    """`checkpoint` is None at the start; `took_over` is the name it was kept under so far."""

    checkpoint: Checkpoint | None = None
    took_over: str = ""

    @property
    def generation(self) -> int:
        return self.checkpoint.generation if self.checkpoint is not None else 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The spec does not go with the checkpoint; `message` says what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What a spec says of one ingest; `names` are all that the spec has.

    `kind` is that of its source; addresses are as `Declared.address` spells them.
    """

    name: str
    names: frozenset[str]
    operation: str
    kind: str
    address: str
    former_name: str = ""
    former_address: str = ""


def resume_of(
    claim: Claim, checkpoints: Mapping[str, Checkpoint], available: Available | None
) -> Resume | Refused:
    """What the ingest continues from; `available` is what its source holds now, where it was looked
    at."""
    former = claim.former_name
    if former in claim.names:
        message = f"renamedFrom is {former!r}, which is an ingest of this table itself"
        return Refused("IngestRenamed", message)
    checkpoint = newest_of(checkpoints, claim.name, former)
    if checkpoint is not None and not _is_at(checkpoint, claim, available):
        return Refused("SourceMoved", _moved(claim, checkpoint))
    if claim.operation in _INSERTING:
        for name, other in checkpoints.items():
            if name in claim.names or name == former:
                continue
            if _read_from(other, claim, available) and _is_newer(other, checkpoint, claim):
                return Refused("IngestRenamed", _renamed(claim, name))
    took_over = former if checkpoint is not checkpoints.get(claim.name) else ""
    return Resume(checkpoint, took_over)


def _is_at(checkpoint: Checkpoint, claim: Claim, available: Available | None) -> bool:
    """Checkpoints of before they named their source are taken to be of the one in the spec."""
    if checkpoint.position.kind != claim.kind:
        return False
    if checkpoint.address in ("", claim.address, claim.former_address):
        return True
    if not kind_named(claim.kind).position_names_source:
        return False
    # What was not looked at is decided once it is.
    return available is None or available.was_read_to(checkpoint.position)


def _read_from(other: Checkpoint, claim: Claim, available: Available | None) -> bool:
    if other.position.kind != claim.kind:
        return False
    if other.address:
        return other.address == claim.address
    return available is not None and available.was_read_to(other.position)


def _is_newer(other: Checkpoint, own: Checkpoint | None, claim: Claim) -> bool:
    return own is None or (other.took_over == claim.name and other.generation > own.generation)


def _moved(claim: Claim, checkpoint: Checkpoint) -> str:
    if claim.kind != FILES.name or checkpoint.position.kind != claim.kind:
        return (
            f"the checkpoint is of {checkpoint.address}, and the source is {claim.address} now: "
            "revert the change; or give the ingest a new name to have everything there taken in"
        )
    return (
        f"the checkpoint is of files in {checkpoint.address}, and source.path is {claim.address} "
        "now: revert the change; or, if the files were moved along, say so with source.movedFrom;"
        " or give the ingest a new name to have everything at the new path taken in"
    )


def _renamed(claim: Claim, other: str) -> str:
    return (
        f"ingest {other!r}, which the spec no longer has, took files in from the same prefix, and"
        f" {claim.operation} would insert them again: name the ingest {other!r}, or continue from"
        f" there with renamedFrom: {other}"
    )
