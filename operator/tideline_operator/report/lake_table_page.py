"""The page about one LakeTable of a cluster, from what is in its status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from tideline.report.fleet_page import RELOAD_S
from tideline.report.html import document, pill, section, table
from tideline.wording import counted, size_text
from tideline_operator.api_objects import Manifest
from tideline_operator.report.fleet_rows import DUE, MS_PER_HOUR, level_of, waiting_text
from tideline_operator.report.table_story import PLAN_COLUMNS, format_of, operation_text, plan_rows
from tideline_operator.resources.schedule import Timestamp

_OPERATION_COLUMNS = ("operation", "phase", "attempt", "started", "took", "instant", "result")
_SPENT_COLUMNS = ("kind", "runs", "failed", "pod hours", "GiB-hours", "read", "written", "requests")
_MIB_SECONDS_PER_GIB_HOUR = 1024 * 3600


def lake_table_page(item: Manifest) -> str:
    """How the table is, what is due, what was done, and what it took."""
    metadata, status = item["metadata"], item.get("status") or {}
    level, line = level_of(item)
    name = f"{metadata['namespace']}/{metadata['name']}"
    newest = (status.get("timeline") or {}).get("latest")
    place = (status.get("owned") or {}).get("location")
    about = " · ".join(filter(None, (place, f"newest commit {newest}" if newest else "no commit")))
    parts = [
        f'<header><p><a href="../../">all tables</a></p><h1>{escape(name)}</h1>'
        f"<p class=uri>{escape(about)}</p>{pill(level, line.removeprefix(DUE))}</header>",
        _facts(item, status),
        _section("Plan", PLAN_COLUMNS, map(_plan_cells, plan_rows(item))),
        _section("Operations", _OPERATION_COLUMNS, map(_operation_cells, _newest_first(status))),
        _section("What they took", _SPENT_COLUMNS, map(_spent_cells, _dearest_first(status))),
        _section("Conditions", ("condition", "status", "reason", "message"), _conditions(status)),
    ]
    return document(name, "".join(parts), reload_s=RELOAD_S)


def _facts(item: Manifest, status: Mapping[str, Any]) -> str:
    """The numbers one looks for first."""
    files, lag = status.get("table") or {}, status.get("lagFiles")
    ingests = (status.get("ingest") or {}).values()
    retained = sum(int(ingest.get("retainedBytes") or 0) for ingest in ingests)
    shown = {
        "format": format_of(item),
        "wait to be ingested": waiting_text(status) or ("" if lag is None else counted(0, "file")),
        "log kept by the server": size_text(retained) if retained else "",
        "files": f"{files.get('files', 0):,}" if files else "",
        "size": size_text(int(files.get("bytes") or 0)) if files else "",
        "of them small": f"{files.get('smallFilePercent', 0)} %" if files else "",
        "log files": f"{files['logFiles']:,}" if files.get("logFiles") else "",
    }
    tiles = "".join(
        f"<div><b>{escape(str(value))}</b><span>{escape(name)}</span></div>"
        for name, value in shown.items()
        if value
    )
    return f"<section class=tiles>{tiles}</section>"


def _section(title: str, heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    cells = [[escape(str(value)) for value in row] for row in rows]
    return section(title, "", table(map(escape, heads), cells)) if cells else ""


def _plan_cells(row: tuple[object, ...]) -> list[object]:
    what, is_due, why, last, following = row
    ended, _, result = str(last).partition(" ")
    return [what, "yes" if is_due else "no", why, f"{_when(ended)} {result}", _when(str(following))]


def _newest_first(status: Mapping[str, Any]) -> list[Manifest]:
    return list(reversed(status.get("operations") or ()))


def _operation_cells(item: Manifest) -> list[object]:
    started, finished = item.get("startedAt") or "", item.get("finishedAt")
    took_ms = Timestamp.parse(finished).ms - Timestamp.parse(started).ms if finished else None
    return [
        operation_text(item),
        item.get("phase", ""),
        item.get("attempt", 1),
        _when(started),
        "" if took_ms is None else f"{took_ms / 1000:,.0f} s",
        item.get("instant") or "",
        item.get("message") or item.get("error") or "",
    ]


def _when(moment: str) -> str:
    """A moment to the second, as people read it."""
    return moment[:19].replace("T", " ")


def _dearest_first(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    spent: Mapping[str, Mapping[str, Any]] = status.get("spent") or {}
    return sorted(spent.items(), key=lambda pair: -int(pair[1].get("podMs") or 0))


def _spent_cells(item: tuple[str, Mapping[str, Any]]) -> list[object]:
    kind, spent = item
    return [
        kind,
        f"{int(spent.get('runs') or 0):,}",
        f"{int(spent.get('failures') or 0):,}",
        f"{int(spent.get('podMs') or 0) / MS_PER_HOUR:,.2f}",
        f"{int(spent.get('mibSeconds') or 0) / _MIB_SECONDS_PER_GIB_HOUR:,.2f}",
        size_text(int(spent.get("bytesRead") or 0)),
        size_text(int(spent.get("bytesWritten") or 0)),
        f"{int(spent.get('requests') or 0):,}",
    ]


def _conditions(status: Mapping[str, Any]) -> list[list[object]]:
    return [
        [
            condition["type"],
            condition.get("status", ""),
            condition.get("reason", ""),
            condition.get("message", ""),
        ]
        for condition in status.get("conditions") or ()
    ]
