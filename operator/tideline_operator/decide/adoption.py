"""Whether the operator may work on a table that it found, and on what grounds. Pure.

1. A table that the operator made is known: there is no need to look.
2. Of any other the engine says what it is (`tideline.capabilities`), before anything is done to it.
3. Refused: what the LakeTable asks for cannot be done, or only once something is declared. Nothing
   is done, rolled back or repaired until the spec or the table says otherwise.
4. Unsure: work continues with a warning; what depends on the age of instants waits (decision 22).

A single service that the table does not support does not block the others: it is left out. Its
entry in the status says why, and so does the decision's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.refusal import Refusal
from tideline.hudi.capabilities.table_capabilities import TableCapabilities
from tideline.hudi.services.registry import TableService
from tideline_operator.decide.service_settings import spec_name, wanted_services
from tideline_operator.resources.lake_table import LakeTableSpec

_SPEC_FIELDS = frozenset(item.name for item in fields(LakeTableSpec))
_OUR_PREFIX = "tideline."


class AdoptionReason(Enum):
    """On what grounds a table is worked on, or is not; the reason of the condition `Adopted`."""

    TABLE_MADE = "TableMade"
    VERIFIED = "Verified"
    UNSURE = "Unsure"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class Adoption:
    """The decision about one table, with a message for people.

    `left_out` are wanted services that the table's capabilities refuse, with the reason.
    """

    reason: AdoptionReason = AdoptionReason.VERIFIED
    message: str = ""
    left_out: Mapping[TableService, str] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        return self.reason is AdoptionReason.REFUSED


def adoption_of(capabilities: TableCapabilities, spec: LakeTableSpec, *, is_ours: bool) -> Adoption:
    """The decision about a table of this capabilities. `is_ours`: the operator made it."""
    refusals = dict.fromkeys(filter(None, map(capabilities.may, _needed(spec))))
    if refusals:
        words = "; ".join(_in_words(candidate) for candidate in refusals)
        return Adoption(AdoptionReason.REFUSED, words)
    left_out = {
        service: _in_words(refusal)
        for service in wanted_services(spec)
        if (refusal := capabilities.may(service.permission)) is not None
    }
    message = "; ".join((*capabilities.warnings, *_left_out_messages(left_out)))
    is_unsure = capabilities.zone is not None and not capabilities.zone.knows_age
    reason = AdoptionReason.TABLE_MADE if is_ours else AdoptionReason.VERIFIED
    if is_unsure or capabilities.unreadable:
        reason = AdoptionReason.UNSURE
    return Adoption(reason, message, left_out)


def _left_out_messages(left_out: Mapping[TableService, str]) -> Iterator[str]:
    """The services that are left out, one message for each reason."""
    for why in dict.fromkeys(left_out.values()):
        names = ", ".join(
            spec_name(table_service) for table_service, text in left_out.items() if text == why
        )
        yield f"left out ({names}): {why}"


def _needed(spec: LakeTableSpec) -> Iterator[Permission]:
    """What has to be possible for the LakeTable to be worked on at all."""
    yield Permission.READ
    yield Permission.ROLLBACK
    if spec.ingest and not spec.fenced:
        yield Permission.WRITE
    if spec.restore_to is not None:
        yield Permission.RESTORE
    if spec.savepoints:
        yield Permission.SAVEPOINT


def _place_of(setting: str) -> str:
    """Where a LakeTable has a setting: in a field of its own, or among its properties."""
    name = setting.removeprefix(_OUR_PREFIX)
    has_field = setting.startswith(_OUR_PREFIX) and name in _SPEC_FIELDS
    return f"spec.{name}" if has_field else f"spec.properties[{setting}]"


def _in_words(refusal: Refusal) -> str:
    about = [text for text in (refusal.path, refusal.value) if text]
    text = f"{refusal.reason} ({', '.join(about)})" if about else refusal.reason
    if refusal.declare:
        return f"{text}; declare {_place_of(refusal.declare)}"
    return f"{text}; {refusal.remedy}" if refusal.remedy else text
