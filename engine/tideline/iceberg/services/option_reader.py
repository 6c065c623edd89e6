"""Reading the options of a service, which are texts."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from tideline.errors import ConfigError


class OptionReader:
    """Options as typed values; remembers which were asked for. Raises ConfigError naming one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._known: set[str] = set()

    def text(self, name: str, default: str) -> str:
        self._known.add(name)
        return str(self._options.get(name, default)).strip()

    def integer(self, name: str, default: int, *, at_least: int) -> int:
        return self._integer(name, self.text(name, str(default)), at_least)

    def limit(self, name: str, *, at_least: int) -> int | None:
        text = self.text(name, "")
        return self._integer(name, text, at_least) if text else None

    def moment(self, name: str, now_ms: int) -> int | None:
        """The moment that is as many milliseconds ago as the option says."""
        age_ms = self.limit(name, at_least=0)
        return None if age_ms is None else now_ms - age_ms

    def ratio(self, name: str, default: float, *, at_most: float | None = None) -> float:
        text = self.text(name, str(default))
        try:
            value = float(text)
        except ValueError:
            raise ConfigError(f"{name} takes a number", value=text) from None
        if not 0 < value < float("inf") or (at_most is not None and value > at_most):
            upper = "" if at_most is None else f" and at most {at_most:g}"
            raise ConfigError(f"{name} must be above 0{upper}", value=text)
        return value

    def switch(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigError(f"{name} takes true or false", value=text)
        return text == "true"

    def refuse_others(self, what: str) -> None:
        """Raises ConfigError for options that were given and not asked for."""
        unknown = sorted(set(self._options) - self._known)
        if unknown:
            close = get_close_matches(unknown[0], self._known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(
                f"there is no such option of {what}{hint}",
                value=", ".join(unknown),
            )

    @staticmethod
    def _integer(name: str, text: str, at_least: int) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"{name} takes a whole number", value=text) from None
        if value < at_least:
            raise ConfigError(f"{name} must be at least {at_least}", value=text)
        return value
