"""Shapes of values that are passed on to Kubernetes: what is taken, what is refused, and why.

One definition says what the parser checks and, through `tools/shape_schema.py`, what the Kubernetes
API server does. What a shape does not name is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Faults = Iterator[tuple[str, str]]


class Shape(Protocol):
    """What one value may be."""

    def faults(self, value: object, path: str) -> Faults:
        """Where a value differs, and how, for the parser."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text. `unlike` are beginnings that are refused, with the reason of each; `is_removable`:
    null stands for the field that a lower layer has."""

    length_max: int = 253
    choices: tuple[str, ...] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)
    is_removable: bool = False

    def faults(self, value: object, path: str) -> Faults:
        if value is None and self.is_removable:
            return
        if not isinstance(value, str):
            yield path, "must be text, so quote it"
        elif len(value) > self.length_max:
            yield path, f"has {len(value)} characters; allowed: at most {self.length_max}"
        elif self.choices and value not in self.choices:
            yield path, f"allowed: {', '.join(self.choices)}"
        else:
            yield from (
                (path, reason) for start, reason in self.unlike.items() if value.startswith(start)
            )


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    minimum: int = 0
    is_removable: bool = False

    def faults(self, value: object, path: str) -> Faults:
        if value is None and self.is_removable:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < self.minimum:
            yield path, f"must be a whole number from {self.minimum}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false, or `only` one of them."""

    only: bool | None = None

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, bool):
            yield path, "must be true or false"
        elif self.only is not None and value is not self.only:
            yield path, f"allowed: {str(self.only).lower()}"


@dataclass(frozen=True, slots=True)
class Free:
    """Any mapping: what is in it gives nobody anything, whatever it is."""

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, Mapping):
            yield path, "must be a mapping"


@dataclass(frozen=True, slots=True)
class Named:
    """Texts, or quantities, by name. Names under the `domains` belong to others, but for those
    `excepted`."""

    items_max: int = 64
    length_max: int = 4096
    domains: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    are_quantities: bool = False

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, Mapping):
            yield path, "must be a mapping"
            return
        if len(value) > self.items_max:
            yield path, f"has {len(value)} entries; allowed: at most {self.items_max}"
        for name, item in value.items():
            domain, slash, _ = str(name).partition("/")
            is_foreign = any(
                domain == entry or domain.endswith(f".{entry}") for entry in self.domains
            )
            if slash and is_foreign and name not in self.excepted:
                yield f"{path}.{name}", self.reason
            elif self.are_quantities:
                if isinstance(item, bool) or not isinstance(item, str | int):
                    yield f"{path}.{name}", "must be a quantity"
            else:
                text = Text(self.length_max, is_removable=True)
                yield from text.faults(item, f"{path}.{name}")

    @property
    def reason(self) -> str:
        """Why a name of such a domain is refused."""
        return f"names under {' and '.join(self.domains)} are not for tables"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    item: Shape
    items_max: int = 64
    items_min: int = 0

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, list | tuple):
            yield path, "must be a list"
            return
        if not self.items_min <= len(value) <= self.items_max:
            bounds = f"{self.items_min} to {self.items_max}"
            yield path, f"has {len(value)} items; allowed: {bounds}"
        for number, item in enumerate(value):
            yield from self.item.faults(item, f"{path}[{number}]")


@dataclass(frozen=True, slots=True)
class Refused:
    """A member that is known and not taken; `kind` is its type."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Members:
    """A mapping of these members, each with the reason why it is taken. Of `one_of` there must be
    exactly one."""

    taken: Mapping[str, tuple[Shape, str]]
    refused: Mapping[str, Refused] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, Mapping):
            yield path, "must be a mapping"
            return
        for name, item in value.items():
            if name in self.refused:
                yield f"{path}.{name}", self.refused[name].reason
            elif name not in self.taken:
                allowed = ", ".join(self.taken)
                yield f"{path}.{name}", f"no such field is taken from a table; allowed: {allowed}"
            else:
                yield from self.taken[name][0].faults(item, f"{path}.{name}")
        for name in self.required:
            if value.get(name) is None:
                yield f"{path}.{name}", "is required"
        if self.one_of and sum(name in value for name in self.one_of) != 1:
            yield path, self.one_of_rule

    @property
    def one_of_rule(self) -> str:
        """What `one_of` asks for."""
        return f"give exactly one of {', '.join(self.one_of)}"
