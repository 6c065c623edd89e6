"""A refusal as a value: why an operation is not done, and what to say where so that it can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError, TidelineError, UnsupportedTableError


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is refused; `path` and `value` are what speaks against it.

    `declare` is the setting that would allow it and `where` the places it can stand in; both are
    empty where nothing can be declared. Then `remedy` says what else helps, if anything does.
    """

    reason: str
    path: str | None = None
    value: str | None = None
    declare: str = ""
    where: str = ""
    remedy: str = ""

    @classmethod
    def of(cls, error: TidelineError, *, remedy: str = "") -> Refusal:
        """What an error says."""
        path = None if error.path is None else str(error.path)
        value = None if error.value is None else str(error.value)
        return cls(error.message, path, value, remedy=remedy)

    def error(self, table: str, *, instant: object = None) -> TidelineError:
        """The error that it is: ConfigError where something can be declared."""
        kind = ConfigError if self.declare else UnsupportedTableError
        return kind(
            self.reason, table=table or None, instant=instant, path=self.path, value=self.value
        )

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "reason": self.reason or None,
            "path": self.path,
            "value": self.value,
            "declare": self.declare or None,
            "where": self.where or None,
            "remedy": self.remedy or None,
        }
