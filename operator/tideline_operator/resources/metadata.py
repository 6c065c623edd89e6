"""What every resource has: API version, kind, name and namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline_operator.resources.field import CelRule, described

API_VERSION = "tideline.dev/v1alpha1"
PAUSED_ANNOTATION = "tideline.dev/paused"

NAME_LENGTH_MAX = 63
NAME: Mapping[str, Any] = {
    "pattern": r"[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    "pattern_meaning": "lower-case letters, digits and '-', beginning and ending with a letter or "
    "digit",
    "length_max": NAME_LENGTH_MAX,
}
"""What resources take as a name: constraints for `described`."""
NAME_RULE = CelRule(
    f"self.metadata.name.size() <= {NAME_LENGTH_MAX} && !self.metadata.name.contains('.')",
    f"metadata.name: allowed: at most {NAME_LENGTH_MAX} characters, and no dot",
)
"""The name becomes a label, which is shorter than names may be; Kubernetes checks the rest."""


def is_pause(annotations: Mapping[str, str]) -> bool:
    """Whether annotations pause the table, or the namespace, that has them."""
    return annotations.get(PAUSED_ANNOTATION, "").lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """The part of Kubernetes' metadata that Tideline reads; the rest is ignored."""

    name: str = described(
        "Name of the resource.",
        **NAME,
    )
    namespace: str = described(
        "Namespace of the resource.",
        default="default",
        **NAME,
    )
    annotations: Mapping[str, str] = described(
        'Free annotations; `tideline.dev/paused: "true"` suspends the table.',
        default_factory=dict,
        may_be_empty=True,
    )
    generation: int = described("Counts changes of the spec; set by Kubernetes.", default=0)

    @property
    def is_paused(self) -> bool:
        """True when the pause annotation is set."""
        return is_pause(self.annotations)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
