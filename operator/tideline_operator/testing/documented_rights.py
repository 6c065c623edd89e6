"""The rights that docs/security.md lists: role, resource and verb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "security.md"
_HEADER = "| account | resource | verbs |"

Right = tuple[str, str, str]


def documented_rights() -> set[Right]:
    """Those of the table of verbs."""
    lines = DOCUMENT.read_text("utf-8").partition(_HEADER)[2].splitlines()[2:]
    found, role = set(), ""
    for line in lines[: next(number for number, text in enumerate(lines) if not text)]:
        account, resources, verbs = (cell.strip() for cell in line.strip("|").split("|"))
        role = account.strip("`") or role
        found |= {
            (role, resource.strip(" `"), verb.strip())
            for resource in resources.split(",")
            for verb in verbs.split(",")
        }
    return found


def rights_in(role: str, rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The same of rules as the API server has them."""
    return {
        (role, named(resource, group) + (f"={name}" if name else ""), verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
        for verb in rule["verbs"]
    }


def named(resource: str, group: str) -> str:
    """How the document names a resource: `jobs.batch`, `laketables.tideline.dev/status`."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource
