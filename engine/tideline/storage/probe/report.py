"""What a store was asked, how it answered, and what a broken promise costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.errors import InvalidDataError


class ProbeOutcome(Enum):
    """PASSED: seen to hold. UNSUPPORTED: the store says that it does not do this. FAILED: it
    accepts the request and does something else.
    """

    PASSED = "passed"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value


class StorePromise(Enum):
    """One promise of a store, in the order in which they are asked for."""

    READ_AFTER_WRITE = "read-after-write"
    MISSING_OBJECT = "missing-object"
    CREATE_ONCE = "create-once"
    CREATE_RACE = "create-race"
    CREATE_RACE_AFTER_DELETE = "create-race-after-delete"
    REPLACE_MATCHING = "replace-matching"
    REPLACE_MISSING = "replace-missing"
    REPLACE_RACE = "replace-race"
    COUNTER = "counter"
    LIST_AFTER_CREATE = "list-after-create"
    LIST_AFTER_DELETE = "list-after-delete"
    LIST_PAGES = "list-pages"
    NAMES = "names"
    UPLOAD_IN_PARTS = "upload-in-parts"

    def __str__(self) -> str:
        return self.value

    @property
    def cost(self) -> str:
        """What happens to a table on a store that breaks this promise."""
        return _COSTS[self]


_LOST_COMMITS = "concurrent writers would lose commits"
_COSTS = {
    StorePromise.READ_AFTER_WRITE: "a writer would build on a state that is no longer the table's",
    StorePromise.MISSING_OBJECT: "a new table would look like one that is out of reach",
    StorePromise.CREATE_ONCE: _LOST_COMMITS,
    StorePromise.CREATE_RACE: _LOST_COMMITS,
    StorePromise.CREATE_RACE_AFTER_DELETE: "two writers would hold the table lock at once",
    StorePromise.REPLACE_MATCHING: "no writer could renew or take over the table lock",
    StorePromise.REPLACE_MISSING: "a lock that was released would come back for a dead owner",
    StorePromise.REPLACE_RACE: "two writers would hold the table lock at once",
    StorePromise.COUNTER: _LOST_COMMITS,
    StorePromise.LIST_AFTER_CREATE: "a writer would not see a commit that is complete",
    StorePromise.LIST_AFTER_DELETE: "a reader would look for files that cleaning has removed",
    StorePromise.LIST_PAGES: "a table of many files would lose some of its rows",
    StorePromise.NAMES: "partitions whose values hold such characters would be lost",
    StorePromise.UPLOAD_IN_PARTS: "data files larger than one part could not be written",
}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How one promise was kept; `message` is empty when it was, else one sentence."""

    promise: StorePromise
    outcome: ProbeOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The answers of one store, in the order asked. `notes` are what else was seen."""

    results: tuple[ProbeResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> ProbeOutcome:
        """The worst of all."""
        outcomes = {result.outcome for result in self.results}
        for outcome in (ProbeOutcome.FAILED, ProbeOutcome.UNSUPPORTED):
            if outcome in outcomes:
                return outcome
        return ProbeOutcome.PASSED

    @property
    def complaints(self) -> tuple[ProbeResult, ...]:
        """What was not passed, failures first."""
        found = (result for result in self.results if result.outcome is not ProbeOutcome.PASSED)
        return tuple(
            sorted(found, key=lambda probe_result: probe_result.outcome is not ProbeOutcome.FAILED)
        )

    def to_json_object(self) -> dict[str, Any]:
        return {
            "outcome": str(self.outcome),
            "checks": [
                {
                    "name": str(result.promise),
                    "outcome": str(result.outcome),
                    "message": result.message or None,
                }
                for result in self.results
            ],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json_object(cls, document: Mapping[str, Any]) -> StoreReport:
        """The report that `to_json_object` made. Raises InvalidDataError for anything else.

        Checks of a later version, whose names are not known here, are left out.
        """
        known = {promise.value for promise in StorePromise}
        try:
            return cls(
                tuple(
                    ProbeResult(
                        StorePromise(check["name"]),
                        ProbeOutcome(check["outcome"]),
                        str(check.get("message") or ""),
                    )
                    for check in document["checks"]
                    if check["name"] in known
                ),
                tuple(map(str, document.get("notes") or ())),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidDataError("not the report of a store check", value=str(error)) from error
