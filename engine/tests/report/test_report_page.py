"""The page of a table: one file that says how the table is, and fetches nothing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.lake_table import LakeTable
from tideline.report.charts import charts_of
from tideline.report.html import table as html_table
from tideline.report.level import Level
from tideline.report.page import page_of
from tideline.report.table_facts import facts_of, size_bins
from tideline.report.time_axis import time_axis
from tideline.report.vega_bundle import vega_script
from tideline.testing.browser import shown, with_look

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int64())])
QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
BYTES_MAX = 3_000_000


def write(table: LakeTable, keys: range, n: int, day: str = "mon") -> None:
    rows = {"id": [f"k{key}" for key in keys], "day": [day] * len(keys), "n": [n] * len(keys)}
    table.write(pa.table(rows, schema=SCHEMA), options=QUIET)


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    uri = str(tmp_path / "table")
    made = tideline.create(
        uri, schema=SCHEMA, record_key=["id"], partition_by=["day"], ordering=["n"]
    )
    for n, day in enumerate(("mon", "tue", "wed", "mon")):
        write(made, range(10), n, day)
    return tideline.open(uri)


class Tags(HTMLParser):
    """What an HTML parser sees of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_page_fetches_nothing_and_is_small(table: LakeTable) -> None:
    page = page_of(facts_of(table), vega_script())
    assert len(page.encode()) < BYTES_MAX
    tags = Tags(page).tags
    assert not [tag for tag, given in tags if {"src", "href"} & set(given)]
    assert not [tag for tag, _ in tags if tag in ("link", "img", "iframe", "object")]
    assert "@import" not in page[: page.index("</style>")]
    assert "url(" not in page[: page.index("</style>")]


def test_names_of_a_table_are_only_text(tmp_path: Path) -> None:
    uri = str(tmp_path / "<script>alert(1)" / "t")
    odd = tideline.create(uri, schema=SCHEMA, record_key=["id"], partition_by=["day"])
    write(odd, range(3), 1, "</script><b>")
    write(odd, range(3), 1, "tue")
    page = page_of(facts_of(tideline.open(uri)), "let end = '</script>';")
    assert [tag for tag, _ in Tags(page).tags].count("script") == 3
    data = re.findall(r'id="charts">(.*?)</script>', page, re.DOTALL)[0]
    partitions = next(item for item in json.loads(data) if item["title"] == "Partitions")
    assert set(partitions["data"]["partition"]) == {"</script><b>", "tue"}


def test_health_is_a_word_and_a_line(table: LakeTable) -> None:
    facts = facts_of(table)
    assert facts.health() == (Level.DUE, "clustering is due")
    assert (facts.base_files, facts.small_files) == (3, 3)
    newest = table.timeline().completed().instants[-1]
    table.hoodie_table.store.put(table.hoodie_table.timelines.path(newest), b"{")
    level, line = facts_of(tideline.open(table.uri)).health()
    assert level is Level.BROKEN
    assert "cannot be" in line


def test_healthy_is_explained_beside_small_files(table: LakeTable) -> None:
    table.run("clustering")
    write(table, range(10, 20), 9)
    level, line = facts_of(tideline.open(table.uri)).health()
    assert level is Level.HEALTHY
    assert "small files, but no clustering: " in line


@pytest.mark.parametrize(
    ("span_s", "label", "title"),
    [
        (0, "%H:%M:%S", "2026-01-31, UTC"),
        (30, "%H:%M:%S", "2026-01-31, UTC"),
        (3_600, "%H:%M", "2026-01-31, UTC"),
        (86_400, "%H:%M", "2026-01-31 to 2026-02-01, UTC"),
        (5 * 86_400, "%b %-d, %H:%M", "2026-01-31 to 2026-02-05, UTC"),
        (60 * 86_400, "%b %-d", "2026-01-31 to 2026-04-01, UTC"),
        (365 * 86_400, "%b %Y", "2026-01-31 to 2027-01-31, UTC"),
        (3_650 * 86_400, "%Y", "2026-01-31 to 2036-01-29, UTC"),
    ],
)
def test_an_axis_of_times_says_date_hour_and_zone(span_s: int, label: str, title: str) -> None:
    first_ms = 1_769_850_000_000
    x = time_axis([first_ms, first_ms + 1_000 * span_s])
    assert (x["axis"]["format"], x["axis"]["title"], x["scale"]["type"]) == (label, title, "utc")
    first, last = (
        datetime(item["year"], item["month"], item["date"], item["hours"], item["minutes"],
                 item["seconds"], tzinfo=UTC).timestamp()
        for item in x["scale"]["domain"]
    )  # fmt: skip
    assert last - first >= max(10, span_s)
    assert first <= first_ms / 1_000 <= last


def test_every_partition_has_a_line_of_its_own(table: LakeTable) -> None:
    """Beside the legend and the axis, which take eighty pixels of the chart."""
    (chart,) = (
        candidate for candidate in charts_of(facts_of(table)) if candidate.title == "Partitions"
    )
    assert (chart.height - 80) / len(chart.data["partition"]) >= 16


def test_columns_without_content_are_left_out() -> None:
    made = html_table(("a", "b", "c"), [["1", "", "x"], ["2", "", ""]])
    assert "<th>b</th>" not in made
    assert made.count("<td>") == 4
    assert html_table(("a",), []).count("<th>") == 1


def test_bins_double(table: LakeTable) -> None:
    view = table.hoodie_table.files.read_view(table.timeline())
    slices = [file_slice for path in view.partitions for file_slice in view.latest_slices(path)]
    (size_bin,) = size_bins(slices, 1 << 20)
    assert (size_bin.from_bytes, size_bin.files, size_bin.is_small) == (0, 3, True)
    assert not size_bins(slices, 1)[0].is_small


def test_the_command_says_how_the_table_is(
    table: LakeTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "pages" / "table.html"
    assert run(["report", table.uri, "-o", str(page), "--check"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "work is due: clustering is due."
    assert printed[1].startswith(f"The page is in {page} (")
    text = page.read_text()
    assert "Nothing is wrong." in text
    assert "tideline execute clustering" in text
    assert run(["report", table.uri, "-o", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["health"] == "work is due"
    assert "<h2>Check</h2>" not in page.read_text()


def test_without_the_package_the_command_names_it(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert run(["report", table.uri]) == 2
    assert "pip install 'tideline-lakehouse[report]'" in capsys.readouterr().err


@pytest.mark.parametrize("width", [1_200, 400])
def test_a_browser_draws_every_chart(table: LakeTable, tmp_path: Path, width: int) -> None:
    look = "document.body.dataset.width = document.documentElement.scrollWidth;"
    page = tmp_path / "table.html"
    page.write_text(with_look(page_of(facts_of(table), vega_script()), look))
    seen = shown(page.as_uri(), tmp_path, width=width).document
    charts = len(re.findall(r'id="chart-\d+"', seen))
    assert charts >= 6
    assert len(re.findall("<canvas", seen)) == charts
    assert ">This chart cannot be drawn" not in seen
    (found,) = re.findall(r'data-width="(\d+)"', seen)
    assert int(found) <= max(width, 500)
