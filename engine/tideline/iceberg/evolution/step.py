"""What every change of a table's definition is: a value that edits a draft."""

from __future__ import annotations

from typing import Protocol

from tideline.iceberg.evolution.draft import Draft


class Step(Protocol):
    """One change; its text is what is done, as in `add column total of type long`."""

    def __str__(self) -> str: ...

    def apply(self, draft: Draft) -> Draft:
        """The draft with the change. Raises ConfigError naming why it cannot be."""
