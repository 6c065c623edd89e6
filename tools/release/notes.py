"""What the CHANGELOG says of a version: notes of the release, and the chart's list of changes.

Source: keepachangelog.com 1.1.0; Artifact Hub's annotation `artifacthub.io/changes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.release.release import ReleaseError

_KINDS = {
    "Added": "added",
    "Changed": "changed",
    "Changed names": "changed",
    "Deprecated": "deprecated",
    "Removed": "removed",
    "Fixed": "fixed",
    "Security": "security",
}
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.M)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_DESCRIPTION_MAX = 200


def has_section(changelog: str, version: str) -> bool:
    """Whether there is a section of the version, with the date of its release."""
    return any(
        found["version"] == version and found["date"] for found in _HEADING.finditer(changelog)
    )


def section(changelog: str, version: str) -> str:
    """What stands below the heading of a version. Raises ReleaseError without one."""
    headings = list(_HEADING.finditer(changelog))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] == version:
            return changelog[heading.end() : after and after.start()].strip()
    raise ReleaseError(f"CHANGELOG.md has no section [{version}]")


def changes(text: str) -> list[dict[str, str]]:
    """The entries of a section, each the first sentence of it, without links."""
    return [{"kind": kind, "description": _first_sentence(entry)} for kind, entry in _entries(text)]


def _entries(text: str) -> Iterator[tuple[str, str]]:
    kind, entry = "changed", ""
    for line in [*text.splitlines(), ""]:
        if entry and not line.startswith("  "):
            yield kind, entry
            entry = ""
        if line.startswith("### "):
            kind = _KINDS.get(line[4:].strip(), "changed")
        elif line.startswith("- "):
            entry = line[2:]
        elif entry:
            entry += f" {line.strip()}"


def _first_sentence(entry: str) -> str:
    plain = _LINK.sub(r"\1", entry).replace("**", "").replace("`", "")
    sentence = re.split(r"(?<=[.;]) ", plain, maxsplit=1)[0].rstrip(";. ")
    if len(sentence) <= _DESCRIPTION_MAX:
        return sentence
    return sentence[:_DESCRIPTION_MAX].rpartition(" ")[0] + " ..."
