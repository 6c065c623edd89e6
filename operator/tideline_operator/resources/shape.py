"""Shapes of values that are passed on to Kubernetes: what is taken, what is refused, and why.

One definition makes the OpenAPI schema with its CEL rules, for the Kubernetes API server, and the
checks of the parser. What a shape does not name is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Schema = dict[str, Any]
Faults = Iterator[tuple[str, str]]


class Shape(Protocol):
    """What one value may be."""

    def schema(self) -> Schema:
        """For the API server."""
        ...

    def faults(self, value: object, path: str) -> Faults:
        """Where a value differs, and how, for the parser."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A text. `unlike` are beginnings that are refused, with the reason of each; `is_removable`:
    null stands for the field that a lower layer has."""

    length_max: int = 253
    choices: tuple[str, ...] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)
    is_removable: bool = False

    def schema(self) -> Schema:
        schema: Schema = {"type": "string", "maxLength": self.length_max}
        if self.choices:
            schema = {"type": "string", "enum": list(self.choices)}
        if self.unlike:
            schema["x-kubernetes-validations"] = [
                {"rule": f"!self.startsWith('{start}')", "message": reason}
                for start, reason in self.unlike.items()
            ]
        return _removable(schema, self.is_removable)

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

    def schema(self) -> Schema:
        schema: Schema = {"type": "integer", "format": "int64", "minimum": self.minimum}
        return _removable(schema, self.is_removable)

    def faults(self, value: object, path: str) -> Faults:
        if value is None and self.is_removable:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < self.minimum:
            yield path, f"must be a whole number from {self.minimum}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false, or `only` one of them."""

    only: bool | None = None

    def schema(self) -> Schema:
        return (
            {"type": "boolean"} if self.only is None else {"type": "boolean", "enum": [self.only]}
        )

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, bool):
            yield path, "must be true or false"
        elif self.only is not None and value is not self.only:
            yield path, f"allowed: {str(self.only).lower()}"


@dataclass(frozen=True, slots=True)
class Free:
    """Any mapping: what is in it gives nobody anything, whatever it is."""

    def schema(self) -> Schema:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

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

    def schema(self) -> Schema:
        member: Schema = {"type": "string", "maxLength": self.length_max, "nullable": True}
        if self.are_quantities:
            member = {"x-kubernetes-int-or-string": True}
        schema: Schema = {
            "type": "object",
            "maxProperties": self.items_max,
            "additionalProperties": member,
        }
        if self.domains:
            prefix = "k.split('/')[0]"
            foreign = " || ".join(
                f"{prefix} == '{domain}' || {prefix}.endsWith('.{domain}')"
                for domain in self.domains
            )
            rule = f"self.all(k, !k.contains('/') || k in {list(self.excepted)} || !({foreign}))"
            schema["x-kubernetes-validations"] = [{"rule": rule, "message": self._reason}]
        return schema

    def faults(self, value: object, path: str) -> Faults:
        if not isinstance(value, Mapping):
            yield path, "must be a mapping"
            return
        if len(value) > self.items_max:
            yield path, f"has {len(value)} entries; allowed: at most {self.items_max}"
        for name, item in value.items():
            domain, slash, _ = str(name).partition("/")
            is_foreign = any(domain == one or domain.endswith(f".{one}") for one in self.domains)
            if slash and is_foreign and name not in self.excepted:
                yield f"{path}.{name}", self._reason
            elif self.are_quantities:
                if isinstance(item, bool) or not isinstance(item, str | int):
                    yield f"{path}.{name}", "must be a quantity"
            else:
                text = Text(self.length_max, is_removable=True)
                yield from text.faults(item, f"{path}.{name}")

    @property
    def _reason(self) -> str:
        return f"names under {' and '.join(self.domains)} are not for tables"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    item: Shape
    items_max: int = 64
    items_min: int = 0

    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "x-kubernetes-list-type": "atomic"}
        if self.items_min:
            schema["minItems"] = self.items_min
        return {**schema, "maxItems": self.items_max, "items": self.item.schema()}

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

    def schema(self) -> Schema:
        properties = {
            name: {**shape.schema(), "description": reason}
            for name, (shape, reason) in self.taken.items()
        }
        properties |= {
            name: {**_of_kind(one.kind), "description": "Refused."}
            for name, one in self.refused.items()
        }
        rules: list[Schema] = [
            {"rule": f"!has(self.{name})", "message": one.reason, "fieldPath": f".{name}"}
            for name, one in self.refused.items()
        ]
        if self.one_of:
            present = ", ".join(f"has(self.{name})" for name in self.one_of)
            rule = f"[{present}].filter(one, one).size() == 1"
            rules.append({"rule": rule, "message": self._one_of})
        schema: Schema = {"type": "object", "properties": properties}
        if self.required:
            schema["required"] = list(self.required)
        return {**schema, "x-kubernetes-validations": rules} if rules else schema

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
            yield path, self._one_of

    @property
    def _one_of(self) -> str:
        return f"give exactly one of {', '.join(self.one_of)}"


def _of_kind(kind: str) -> Schema:
    """A schema that CEL can ask about."""
    if kind == "object":
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if kind == "array":
        item: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 64, "items": item}
    return {"type": kind, "maxLength": 253} if kind == "string" else {"type": kind}


def _removable(schema: Schema, is_removable: bool) -> Schema:
    return {**schema, "nullable": True} if is_removable else schema
