"""Where a store is: the value of a StoreLocation, for those who never open one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Location:
    """The URI of a store and the options to reach it, sorted."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        return {"uri": self.uri, "options": dict(self.options)}

    @classmethod
    def from_json_object(cls, content: Mapping[str, Any]) -> Location:
        options = {str(key): str(value) for key, value in content["options"].items()}
        return cls(str(content["uri"]), tuple(sorted(options.items())))
