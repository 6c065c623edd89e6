"""What a run saved readers and the store, and what it took, as commands print it."""

from __future__ import annotations

from typing import Any

from tideline.cli.output import print_line
from tideline.saving import Saving
from tideline.spending import Spending
from tideline.wording import spending_text


def saved_json(saving: Saving, spent: Spending) -> dict[str, Any]:
    """For machines, by the names that operations use as well."""
    return {"saved": saving.to_json_object(), **spent.to_json_object()}


def print_saved(saving: Saving, spent: Spending) -> None:
    """For people."""
    print_line(f"Saves {saving.words}; took {spending_text(spent.core_seconds, spent.requests)}.")
