"""Changes of properties, and of the version of the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.iceberg.evolution.draft import Draft
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS
from tideline.iceberg.metadata.table_property import why_not_set


@dataclass(frozen=True, slots=True)
class SetTableProperties:
    """Set properties of the table, which every engine reads."""

    properties: Mapping[str, str]

    def __str__(self) -> str:
        return f"set {', '.join(f'{name}={text}' for name, text in self.properties.items())}"

    def apply(self, draft: Draft) -> Draft:
        for name, text in self.properties.items():
            _refuse_reserved(draft, name)
            if not name or not isinstance(text, str):
                raise ConfigError("a property is a name and a text", table=draft.table, value=name)
        return replace(draft, properties={**draft.properties, **self.properties})


@dataclass(frozen=True, slots=True)
class UnsetTableProperties:
    """Forget properties; those that are not set are no mistake."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"unset {', '.join(self.names)}"

    def apply(self, draft: Draft) -> Draft:
        for name in self.names:
            _refuse_reserved(draft, name)
        left = {name: text for name, text in draft.properties.items() if name not in self.names}
        return replace(draft, properties=left)


@dataclass(frozen=True, slots=True)
class UpgradeFormat:
    """Continue in a later version of the format; there is no way back."""

    version: int

    def __str__(self) -> str:
        return f"upgrade to format version {self.version}"

    def apply(self, draft: Draft) -> Draft:
        if self.version not in FORMAT_VERSIONS or self.version < draft.format_version:
            later = [str(n) for n in FORMAT_VERSIONS if n > draft.format_version]
            others = f"can become version {' or '.join(later)}" if later else "is the latest"
            message = f"the table is of format version {draft.format_version}, and {others}"
            raise ConfigError(message, table=draft.table, value=self.version)
        return replace(draft, format_version=self.version)


def _refuse_reserved(draft: Draft, name: str) -> None:
    if message := why_not_set(name):
        hint = ": upgrade the table instead" if name == "format-version" else ""
        raise ConfigError(f"{message}{hint}", table=draft.table, value=name)
