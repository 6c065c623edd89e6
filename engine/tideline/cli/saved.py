"""What a run saved readers and the store, and what it took, as commands print it."""

from __future__ import annotations

from typing import Any

from tideline.cli.output import print_line
from tideline.resource_usage import ResourceUsage
from tideline.services.benefit import Benefit
from tideline.wording import spending_text


def saved_json(benefit: Benefit, spent: ResourceUsage) -> dict[str, Any]:
    """For machines, by the names that operations use as well."""
    return {"saved": benefit.to_json_object(), **spent.to_json_object()}


def print_saved(benefit: Benefit, spent: ResourceUsage) -> None:
    """For people."""
    print_line(f"Saves {benefit.words}; took {spending_text(spent.core_seconds, spent.requests)}.")
