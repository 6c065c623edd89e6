"""Texts of a table that are markup or programs: a browser shows them, and runs nothing of them."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.check_finding import Finding, Severity
from tideline.lake_table import LakeTable
from tideline.report.fleet_page import FleetRow, fleet_page
from tideline.report.html import document, headers_of
from tideline.report.level import Level
from tideline.report.own_names import is_own_name
from tideline.report.page import page_of
from tideline.report.page_server import PageServer
from tideline.report.table_facts import PartitionFiles, TableFacts, facts_of
from tideline.report.vega_bundle import vega_script
from tideline.testing.browser import shown, with_look
from tideline.testing.patience import PATIENCE_S

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int64())])
OWNED = "document.title='owned';document.documentElement.dataset.owned=1"
PAYLOADS = (
    f'<img src=x onerror="{OWNED}">',
    f"</script><script>{OWNED}</script>",
    f'"><svg onload="{OWNED}"><animate onbegin="{OWNED}" attributeName=x dur=1s></svg>',
    f'<a id=link href="javascript:{OWNED}">x</a><script>link.click()</script>',
    f'<iframe srcdoc="<script>parent.{OWNED}</script>"></iframe>',
    f"<!--<script>-->{OWNED}<!--</script>",
    f'<meta http-equiv="refresh" content="0;url=javascript:{OWNED}"><base href="//evil.example/">',
    f"datum['constructor']['constructor']({OWNED!r})()",
    f"${{{OWNED}}}{{{{{OWNED}}}}}",
    f"'];{OWNED};['",
    f'<form action="javascript:{OWNED}" id=f><button autofocus onfocus="{OWNED}">',
    "<style>@import 'http://127.0.0.1:1/x';</style><link rel=stylesheet href=//127.0.0.1:1/y>",
)
LOOK = "document.documentElement.dataset.looked = document.title;"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LakeTable:
    uri = str(tmp_path_factory.mktemp("lake") / "<img src=x onerror=alert(1)>" / "t")
    made = tideline.create(
        uri, schema=SCHEMA, record_key=["id"], partition_by=["day"], ordering=["n"]
    )
    for day in ("<b onclick=alert(1)>", "datum['x']", "${alert(1)}"):
        rows = {"id": [f"k{n}" for n in range(5)], "day": [day] * 5, "n": [1] * 5}
        made.write(pa.table(rows, schema=SCHEMA))
    return tideline.open(uri)


def hostile(table: LakeTable) -> TableFacts:
    """Facts with payloads wherever a text can be."""
    facts = facts_of(table)
    payloads = "\n".join(PAYLOADS)
    done = tuple(
        replace(candidate, instant=payload, what=payload)
        for candidate, payload in zip(facts.life.done * len(PAYLOADS), PAYLOADS, strict=False)
    )
    states = (facts.life.states * len(PAYLOADS))[: len(done)]
    return replace(
        facts,
        name=payloads,
        uri=payloads,
        about=dict.fromkeys(PAYLOADS, payloads),
        partitions=tuple(PartitionFiles(markup, 1, 1, 1, 100) for markup in PAYLOADS),
        findings=tuple(
            Finding(markup, Severity.ERROR, markup, markup, advice=markup) for markup in PAYLOADS
        ),
        ingests=tuple({"name": p, "prefix": p, "up_to": p, "set_aside": p} for p in PAYLOADS),
        life=replace(facts.life, done=done, states=states),
    )


def assert_shown_and_not_run(seen: str) -> None:
    assert "data-owned" not in seen.partition(">")[0] + re.findall("<html[^>]*>", seen)[0]
    assert "<title>owned" not in seen
    text = unescape(re.sub(r"<script.*?</script>|<style.*?</style>", "", seen, flags=re.DOTALL))
    assert not [payload for payload in PAYLOADS if payload not in text]


def test_a_browser_runs_nothing_of_a_table(table: LakeTable, tmp_path: Path) -> None:
    page = tmp_path / "table.html"
    page.write_text(with_look(page_of(hostile(table), vega_script()), LOOK))
    seen = shown(page.as_uri(), tmp_path).document
    assert "data-looked" in seen
    assert_shown_and_not_run(seen)
    assert len(re.findall("<canvas", seen)) == len(re.findall(r'id="chart-\d+"', seen)) >= 6
    assert ">This chart cannot be drawn" not in seen


def test_a_browser_runs_nothing_of_a_fleet(tmp_path: Path) -> None:
    rows = [
        FleetRow(markup, Level.BROKEN, markup, "/table/0", {markup: markup}) for markup in PAYLOADS
    ]
    page = tmp_path / "fleet.html"
    page.write_text(with_look(fleet_page(PAYLOADS[0], "\n".join(PAYLOADS), rows, PAYLOADS), LOOK))
    seen = shown(page.as_uri(), tmp_path).document
    assert_shown_and_not_run(seen)


# A comment that does not end takes what follows with it.
@pytest.mark.parametrize(
    "payload", [markup for markup in PAYLOADS if "<" in markup and "<!--" not in markup]
)
def test_markup_that_was_not_escaped_runs_nothing_either(payload: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ours = "document.documentElement.dataset.ours = 1;"
    page.write_text(
        with_look(document("safe", f'<p title="{payload}">{payload}</p>', "", ours), LOOK)
    )
    seen = shown(page.as_uri(), tmp_path).document
    html = re.findall("<html[^>]*>", seen)[0]
    assert 'data-ours="1"' in html
    assert 'data-looked="safe"' in html
    assert "data-owned" not in html


def test_vega_makes_no_functions_of_texts(table: LakeTable, tmp_path: Path) -> None:
    page = page_of(facts_of(table), vega_script())
    assert "unsafe-eval" not in page[: page.index("<title>")]
    assert "'unsafe-inline'" not in re.findall(r"script-src ([^;]*)", page)[0]
    path = tmp_path / "page.html"
    path.write_text(
        with_look(
            page,
            "try { Function('return 1')(); } catch (e) { "
            "document.documentElement.dataset.refused = e.name; }",
        )
    )
    assert 'data-refused="EvalError"' in shown(path.as_uri(), tmp_path).document


@pytest.fixture
def server(table: LakeTable) -> Iterator[PageServer]:
    served = PageServer([table.uri], {})
    threading.Thread(target=served.serve, daemon=True).start()
    yield served
    served.stop()


@pytest.mark.parametrize("path", ["", "table/0", "nothing"])
def test_every_answer_has_a_policy(server: PageServer, path: str) -> None:
    try:
        with urllib.request.urlopen(server.url + path, timeout=PATIENCE_S) as answer:
            headers, page = answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        headers, page = error.headers, error.read().decode()
    policy = headers["Content-Security-Policy"]
    parts = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    for name in ("frame-ancestors", "base-uri", "form-action"):
        assert parts[name] == "'none'", name
    scripts = len(re.findall("<script>", page))
    assert parts["script-src"].count("'sha256-") == scripts
    assert (parts["script-src"] == "'none'") is (scripts == 0)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert policy.startswith(re.findall('Policy" content="([^"]*)"', page)[0])


def test_a_browser_draws_what_the_server_gives(server: PageServer, tmp_path: Path) -> None:
    seen = shown(f"{server.url}table/0", tmp_path)
    assert "Refused" not in seen.console
    assert len(re.findall("<canvas", seen.document)) >= 5


def test_a_page_without_a_policy_of_its_own_may_run_nothing() -> None:
    assert "script-src 'none'" in headers_of("<script>1</script>")["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8780", "[::1]:8780"])
@pytest.mark.parametrize("listens_on", ["127.0.0.1", "::1", "localhost"])
def test_a_loopback_server_has_the_names_of_this_machine(host: str, listens_on: str) -> None:
    assert is_own_name(host, listens_on)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8780", "10.0.0.1", "localhost.evil.example", "", ":80"]
)
def test_and_no_other(host: str) -> None:
    assert not is_own_name(host, "127.0.0.1")


def test_a_server_that_others_reach_has_its_addresses_but_no_foreign_name() -> None:
    for own in ("10.0.0.1:8780", "[fd00::1]:80", "lake.internal:8780", "localhost"):
        assert is_own_name(own, "lake.internal"), own
    assert not is_own_name("evil.example:8780", "0.0.0.0")
