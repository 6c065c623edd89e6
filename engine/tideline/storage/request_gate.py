"""What a process that serves the stores of many puts between itself and their endpoints.

A connection with a gate asks it before every request, and says afterwards whether there was an
answer. So one endpoint that does not answer can be left alone for a while, and a process that may
not write any more can be kept from it, wherever in the engine the request is made.
"""

from __future__ import annotations

from typing import Protocol


class RequestGate(Protocol):
    """Asked before each request to a server. For any number of threads."""

    def refusal(self, server: str, *, writes: bool) -> str | None:
        """Why a request must not be sent now, as the end of a message; None when it may be.

        May raise: a process that must not write any more has no use for a message about the store.
        """

    def note(self, server: str, problem: str | None) -> None:
        """A request ended: with an answer, whatever it says; without one because of `problem`."""
