"""The schemas of a registry by which records of a table were read.

A registry that was emptied and filled again gives the same numbers to other schemas, and nothing in
a value says by which of the two it was written. So a commit says what the numbers meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEPT_MAX = 50


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """Digests of schemas of the `registry` by their numbers, those that were used last behind the
    others."""

    registry: str = ""
    digests: tuple[tuple[int, str], ...] = ()

    def of(self, registry: str) -> Mapping[int, str]:
        """Those of this registry; none of another one."""
        return dict(self.digests) if registry == self.registry else {}

    def with_used(self, used: KnownSchemas) -> KnownSchemas:
        """These and those that were used since."""
        if not used.digests:
            return self
        newer = used.of(used.registry)
        before = [item for item in self.of(used.registry).items() if item[0] not in newer]
        return KnownSchemas(used.registry, (*before, *newer.items())[-_KEPT_MAX:])

    def stored(self) -> dict[str, Any]:
        """Nothing where nothing is known."""
        if not self.digests:
            return {}
        digests = {str(number): digest for number, digest in self.digests}
        return {"schemas": {"registry": self.registry, "digests": digests}}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> KnownSchemas:
        """Those of something stored. Raises ValueError, KeyError or TypeError."""
        found = content.get("schemas")
        if found is None:
            return cls()
        digests = dict(found["digests"]).items()
        return cls(
            str(found["registry"]), tuple((int(number), str(text)) for number, text in digests)
        )
