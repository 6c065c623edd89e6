"""Settings of a process: environment variables, and the message about one that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any

from tideline.errors import ConfigError
from tideline_operator.resources.quantity import memory_bytes
from tideline_operator.resources.schedule import Duration

_SOURCE = "variable"


class Variables:
    """Parses variables. Everything but `text` and `names` raises ConfigError naming the one that is
    wrong."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        return self._given.get(name, "").strip()

    def names(self, name: str) -> tuple[str, ...]:
        """Names with commas between them."""
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def switch(self, name: str, default: bool) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise ConfigError(f"{name}: allowed: true, false", value=text)
        return default if not text else text == "true"

    def mapping(self, name: str) -> dict[str, Any]:
        """A JSON object; empty without the variable."""
        try:
            content = json.loads(self.text(name) or "{}")
        except ValueError as error:
            raise ConfigError(f"{name}: is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{name}: must be a JSON object")
        return content

    def number(self, name: str) -> int | None:
        """A number greater than zero; None without the variable."""
        text = self.text(name)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and int(text) > 0):
            raise ConfigError(f"{name}: allowed: a whole number greater than zero", value=text)
        return int(text)

    def memory(self, name: str) -> int | None:
        """Bytes; None where there is no limit."""
        text = self.text(name)
        try:
            return memory_bytes(text) if text else None
        except ConfigError as error:
            raise ConfigError(f"{name}: {error.message}", value=text) from error

    def seconds(self, name: str) -> float | None:
        """A duration such as 5m; None without the variable."""
        text = self.text(name)
        if not text:
            return None
        try:
            return Duration.parse(text).ms / 1000
        except ValueError as error:
            raise ConfigError(f"{name}: {error}", value=text) from error

    def declared(self, settings: type) -> dict[str, Any]:
        """Those fields of a dataclass, made by `variable`, whose variables are given."""
        found = {}
        for attribute in fields(settings):
            if _SOURCE in attribute.metadata:
                name, read = attribute.metadata[_SOURCE]
                found[attribute.name] = read(self, name)
        return {name: value for name, value in found.items() if value not in (None, "")}


def variable(name: str, read: Callable[[Variables, str], Any], default: Any = None) -> Any:
    """A field of a dataclass that a variable gives, read by a method of Variables."""
    return field(default=default, metadata={_SOURCE: (name, read)})
