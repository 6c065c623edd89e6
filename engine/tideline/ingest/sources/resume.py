"""Which checkpoint an ingest continues from: its own, that of its former name, or none.

A checkpoint is kept under the ingest's name and knows its landing prefix. Two changes of a spec
would make it say something false, so they are refused unless the spec says what was meant:

1. Another prefix under the same name. Files there may look like files taken in at the old one and
   would be passed over. `former_prefix` says that the files were moved along.
2. Another name over the same prefix, for an operation that inserts. Everything would be inserted a
   second time. `former_name` says that the ingest was renamed. Where both names have a checkpoint
   the one that continued from the other counts, so that a name may be given back.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.listing import ArrivedFile

_LOCAL = "file://"
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

    `prefix` and `former_prefix` are spelled by `landing_prefix`.
    """

    name: str
    names: frozenset[str]
    operation: str
    prefix: str
    former_name: str = ""
    former_prefix: str = ""


def landing_prefix(landing_uri: str, table_uri: str) -> str:
    """How a checkpoint spells a landing prefix: a local folder relative to the table, so that both
    may be moved together; anything else by its URI."""
    if not (landing_uri.startswith(_LOCAL) and table_uri.startswith(_LOCAL)):
        return landing_uri.rstrip("/")
    table = table_uri.removeprefix(_LOCAL)
    return posixpath.relpath(landing_uri.removeprefix(_LOCAL), table)


def prefix_uri(prefix: str, table_uri: str) -> str:
    """The landing prefix that `landing_prefix` spelled so, of a table that is here now."""
    if "://" in prefix:
        return prefix
    table = table_uri.removeprefix(_LOCAL)
    return _LOCAL + posixpath.normpath(posixpath.join(table, prefix))


def newest_of(
    checkpoints: Mapping[str, Checkpoint], name: str, former_name: str = ""
) -> Checkpoint | None:
    """The checkpoint of an ingest that may have had another name before."""
    found = [checkpoints[one] for one in (name, former_name) if one in checkpoints]
    return max(found, key=lambda one: one.generation, default=None)


def resume_of(
    claim: Claim, checkpoints: Mapping[str, Checkpoint], files: Iterable[ArrivedFile]
) -> Resume | Refused:
    """What the ingest continues from; `files` are those in its landing prefix now."""
    former = claim.former_name
    if former in claim.names:
        message = f"renamedFrom is {former!r}, which is an ingest of this table itself"
        return Refused("IngestRenamed", message)
    checkpoint = newest_of(checkpoints, claim.name, former)
    if checkpoint is not None and not _is_at(checkpoint, claim):
        return Refused("SourceMoved", _moved(claim, checkpoint))
    if claim.operation in _INSERTING:
        identities = [file.identity for file in files]
        for name, other in checkpoints.items():
            if name in claim.names or name == former:
                continue
            if _took_from(other, claim.prefix, identities) and _is_newer(other, checkpoint, claim):
                return Refused("IngestRenamed", _renamed(claim, name))
    took_over = former if checkpoint is not checkpoints.get(claim.name) else ""
    return Resume(checkpoint, took_over)


def _is_at(checkpoint: Checkpoint, claim: Claim) -> bool:
    """Checkpoints of before they knew their prefix are taken to be at the one in the spec."""
    return checkpoint.prefix in ("", claim.prefix, claim.former_prefix)


def _took_from(other: Checkpoint, prefix: str, identities: Iterable[str]) -> bool:
    if other.prefix:
        return other.prefix == prefix
    return any(identity in other.taken for identity in identities)


def _is_newer(other: Checkpoint, own: Checkpoint | None, claim: Claim) -> bool:
    return own is None or (other.took_over == claim.name and other.generation > own.generation)


def _moved(claim: Claim, checkpoint: Checkpoint) -> str:
    return (
        f"the checkpoint is of files in {checkpoint.prefix}, and source.path is {claim.prefix} now:"
        " revert the change; or, if the files were moved along, say so with source.movedFrom;"
        " or give the ingest a new name to have everything at the new path taken in"
    )


def _renamed(claim: Claim, other: str) -> str:
    return (
        f"ingest {other!r}, which the spec no longer has, took files in from the same prefix, and"
        f" {claim.operation} would insert them again: name the ingest {other!r}, or continue from"
        f" there with renamedFrom: {other}"
    )
