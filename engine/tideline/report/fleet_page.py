"""The page about many tables: those first that need somebody. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from tideline.report.html import document, dot, pill, section, table
from tideline.report.level import Level
from tideline.wording import counted

RELOAD_S = 30
_SHORT = 14
_LINE = 120
_MANY = 4
"""From so many broken tables on the page says first what they have in common."""
_WORST_FIRST = (Level.BROKEN, Level.DUE, Level.HEALTHY)


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One table: how it is, and `facts` about it by column. `link` leads to more; tables that are
    broken alike share a `reason`, a word."""

    name: str
    level: Level
    line: str
    link: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


def fleet_page(
    title: str,
    about: str,
    rows: Sequence[FleetRow],
    columns: Sequence[str],
    problems: Sequence[str] = (),
    skipped: Sequence[str] = (),
) -> str:
    """The page; `columns` are the facts it shows, in order. `problems` are places that cannot be
    listed, `skipped` folders that were left out, each with its reason."""
    ordered = sorted(rows, key=lambda row: (_WORST_FIRST.index(row.level), row.name))
    worst = ordered[0].level if ordered else Level.HEALTHY
    if problems:
        worst = Level.BROKEN
    head = (
        f"<header><h1>{escape(title)}</h1><p class=uri>{escape(about)}</p>"
        f"{pill(worst, '; '.join((*problems, _summary(ordered))))}{_causes(ordered)}</header>"
    )
    cells = [
        [
            dot(row.level),
            _linked(row),
            _folded(row.line),
            *(_short(row.facts.get(name, "")) for name in columns),
        ]
        for row in ordered
    ]
    listed = table(("", "table", "how it is", *map(escape, columns)), cells) if cells else ""
    note = "" if cells else "There are no tables here."
    left = "".join(f"<li>{escape(path)}</li>" for path in skipped)
    body = section("Tables", note, listed)
    body += section("Left out", "", f"<ul>{left}</ul>") if skipped else ""
    return document(title, head + body, reload_s=RELOAD_S)


def _summary(rows: Sequence[FleetRow]) -> str:
    counts = [(level, sum(1 for row in rows if row.level is level)) for level in _WORST_FIRST]
    parts = [f"{count:,} {level.value}" for level, count in counts if count]
    return f"{counted(len(rows), 'table')}: {', '.join(parts)}" if parts else "no tables"


def _causes(rows: Sequence[FleetRow]) -> str:
    """How many tables are broken for which reason, where they are many: the most frequent first."""
    counts = Counter(row.reason for row in rows if row.level is Level.BROKEN and row.reason)
    if counts.total() < _MANY:
        return ""
    listed = (
        f"<li><b>{escape(reason)}</b> {counted(count, 'table')}</li>"
        for reason, count in counts.most_common()
    )
    return f"<ul class=about>{''.join(listed)}</ul>"


def _folded(text: str) -> str:
    """A line; of a long one the start, and the whole when it is opened."""
    if len(text) <= _LINE:
        return escape(text)
    start = text[:_LINE].rpartition(" ")[0] or text[:_LINE]
    rest = text[len(start) :]
    return f"<details><summary>{escape(start)} \u2026</summary>{escape(rest.strip())}</details>"


def _short(text: str) -> str:
    """A number and its unit stay in one line."""
    return escape(text).replace(" ", "&nbsp;") if len(text) <= _SHORT else escape(text)


def _linked(row: FleetRow) -> str:
    name = escape(row.name)
    return f'<a href="{escape(row.link, quote=True)}">{name}</a>' if row.link else name
