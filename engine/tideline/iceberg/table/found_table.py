"""A table as a catalog or a folder of tables lists it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FoundTable:
    """Namespaces and name. `obstacle` says why it cannot be opened by this way, empty if it can."""

    parts: tuple[str, ...]
    obstacle: str = ""

    @property
    def name(self) -> str:
        """`namespace.name`."""
        return ".".join(self.parts)
