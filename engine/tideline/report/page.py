"""The page: one HTML file with everything in it, light or dark as its reader likes it.

Texts of a table (names, messages, paths) are escaped; data of charts is JSON in an element of its
own, in which no tag can end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files

from tideline.distribution import installed_version
from tideline.report.charts import Chart, charts_of
from tideline.report.html import document, in_script, pill, section, table
from tideline.report.table_facts import TableFacts
from tideline.report.table_life import Done
from tideline.report.time_axis import at_utc
from tideline.services.explanation import Explanation
from tideline.services.run import ServicePlan
from tideline.wording import counted, size_text

_INSTANTS_SHOWN_MAX = 40
_FINDINGS_SHOWN_MAX = 50


def page_of(facts: TableFacts, script: str) -> str:
    """The page; `script` defines `vegaEmbed`."""
    charts = charts_of(facts)
    behaviour = (files("tideline.report") / "page.js").read_text(encoding="utf-8")
    body = "\n".join(
        (
            _head(facts),
            _tiles(facts),
            _due(facts),
            _findings(facts),
            "".join(_chart(number, chart) for number, chart in enumerate(charts)),
            _instants(facts),
            _kept(facts),
            _foot(facts),
        )
    )
    data = f'<script type="application/json" id="charts">{_json(charts)}</script>'
    return document(f"{facts.name} · Tideline", body, data, in_script(script), behaviour)


def _head(facts: TableFacts) -> str:
    level, sentence = facts.health()
    about = "".join(
        f"<li><span>{escape(name)}</span> {escape(text)}</li>" for name, text in facts.about.items()
    )
    return (
        f"<header><h1>{escape(facts.name)}</h1><p class=uri>{escape(facts.uri)}</p>"
        f"{pill(level, sentence)}"
        f"<ul class=about>{about}</ul></header>"
    )


def _tiles(facts: TableFacts) -> str:
    states = facts.life.states
    small = round(100 * facts.small_files / facts.base_files) if facts.base_files else 0
    newest = _newest_write(facts.life.done)
    tiles = [
        ("newest write, UTC", _in_a_tile(newest) if newest else "never"),
        ("rows", f"{states[-1].rows:,}" if states else "none"),
        ("size", size_text(facts.size_bytes)),
        ("pending", f"{len(facts.pending):,}"),
        ("logs to merge", f"{facts.log_files:,}"),
        ("small files", f"{small} %"),
        ("base files", f"{facts.base_files:,}"),
        ("partitions", f"{len(facts.partitions):,}"),
        ("stored", size_text(states[-1].stored_bytes) if states else "none"),
    ]
    cells = "".join(f"<div><b>{escape(text)}</b><span>{name}</span></div>" for name, text in tiles)
    return f"<section class=tiles>{cells}</section>"


def _due(facts: TableFacts) -> str:
    if not facts.plans:
        return ""
    rows = [_plan(plan, facts.uri) for plan in facts.plans]
    heads = ("service", "", "saves", "takes", "run it with")
    about = (
        "By the table's own settings; a LakeTable may set others. "
        "What is due comes first, in the order in which to run it."
    )
    return section("Services", about, table(heads, rows))


def _plan(plan: ServicePlan, uri: str) -> list[str]:
    outcome, name = plan.outcome, escape(plan.service.name)
    reason = escape(outcome.reason)
    if not isinstance(outcome, Explanation):
        return [name, f"<i>not due, {reason}</i>", "", "", ""]
    cost = f"{outcome.core_seconds:.1f} core-seconds"
    command = f"tideline execute {plan.service.name} {uri}"
    return [
        f"<b>{name}</b>",
        f"<b>due</b>, {reason}",
        escape(outcome.benefit.words),
        cost,
        f"<code>{escape(command)}</code>",
    ]


def _findings(facts: TableFacts) -> str:
    if facts.findings is None:
        return ""
    if not facts.findings:
        return section("Check", "Nothing is wrong.", "")
    shown = facts.findings[:_FINDINGS_SHOWN_MAX]
    rows = [
        [
            f"<b>{finding.severity}</b>",
            escape(finding.message),
            escape(finding.path or str(finding.instant or "")),
            escape(finding.advice or (f"--repair: {finding.repair}" if finding.repair else "")),
        ]
        for finding in shown
    ]
    more = len(facts.findings) - len(shown)
    about = f"{counted(len(facts.findings), 'finding')}, worst first."
    about += f" {more:,} more are not shown: tideline check names them." if more else ""
    return section("Check", about, table(("", "what", "where", "what helps"), rows))


def _chart(number: int, chart: Chart) -> str:
    box = f'<div class=chart id="chart-{number}" style="height:{chart.height}px"></div>'
    return section(chart.title, chart.about, box)


def _instants(facts: TableFacts) -> str:
    done = facts.life.done[-_INSTANTS_SHOWN_MAX:]
    if not done:
        return ""
    rows = [
        [
            f"<code>{escape(candidate.instant)}</code>",
            at_utc(candidate.at_ms),
            escape(candidate.what),
            *(f"{count:,}" if count else "" for count in _counts(candidate)),
            size_text(candidate.bytes_written) if candidate.bytes_written else "",
            f"{candidate.core_seconds:.1f}" if candidate.core_seconds else "",
        ]
        for candidate in reversed(done)
    ]
    heads = ("instant", "time", "what", "inserted", "updated", "deleted", "files", "written",
             "core-seconds")  # fmt: skip
    total = len(facts.life.done)
    about = f"The newest {len(done)} of {total:,} instants." if total > len(done) else ""
    return section("Instants", about, table(heads, rows))


def _counts(done: Done) -> tuple[int, int, int, int]:
    files_moved = done.files_written or done.files_deleted
    return done.rows_inserted, done.rows_updated, done.rows_deleted, files_moved


def _kept(facts: TableFacts) -> str:
    """Pending instants, savepoints and ingests, where there are any."""
    pending = [
        [
            f"<code>{escape(str(candidate.instant.time))}</code>",
            escape(str(candidate.instant.action)),
            candidate.instant.state.value.lower(),
            "its writer is gone: it is rolled back next" if candidate.is_dead else "under way",
        ]
        for candidate in facts.pending
    ]
    savepoints = [
        [
            f"<code>{escape(str(savepoint.instant))}</code>",
            escape(savepoint.comment),
            counted(savepoint.file_count, "file"),
        ]
        for savepoint in facts.savepoints
    ]
    ingests = [
        [
            escape(str(ingest["name"])),
            escape(str(ingest["prefix"] or "")),
            escape(str(ingest["up_to"] or "")),
            escape(str(ingest["set_aside"] or "nothing")),
        ]
        for ingest in facts.ingests
    ]
    parts = (
        ("Pending", ("instant", "action", "state", ""), pending),
        ("Savepoints", ("instant", "comment", "keeps"), savepoints),
        ("Ingests", ("ingest", "landing prefix", "up to", "set aside"), ingests),
    )
    return "".join(section(name, "", table(heads, rows)) for name, heads, rows in parts if rows)


def _foot(facts: TableFacts) -> str:
    made = f"Made by Tideline {installed_version()} on {at_utc(facts.at_ms)}"
    return f"<footer>{made} from metadata alone.</footer>"


def _in_a_tile(done: Done) -> str:
    """When it was, in two lines at most."""
    return at_utc(done.at_ms).removesuffix(" UTC").replace("-", "\N{NON-BREAKING HYPHEN}")


def _newest_write(done: Sequence[Done]) -> Done | None:
    return next(
        (
            candidate
            for candidate in reversed(done)
            if candidate.rows_inserted or candidate.rows_updated
        ),
        None,
    )


def _json(charts: Sequence[Chart]) -> str:
    text = json.dumps([asdict(chart) for chart in charts], separators=(",", ":"))
    return text.replace("<", "\\u003c")
