"""Many tables: found below a folder, the worst first, served to this machine alone."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.report.fleet import find_tables
from tideline.report.fleet_page import FleetRow, fleet_page
from tideline.report.level import Level
from tideline.report.page_server import PageServer
from tideline.testing.patience import PATIENCE_S

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("sales/orders", "sales/items", "people"):
        made = tideline.create(str(tmp_path / name), schema=SCHEMA, record_key=["id"])
        made.write(pa.table({"id": [1, 2], "day": ["mon", "tue"]}, schema=SCHEMA))
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def server(lake: Path) -> Iterator[PageServer]:
    served = PageServer([str(lake)], {})
    thread = threading.Thread(target=served.serve, daemon=True)
    thread.start()
    yield served
    served.stop()
    thread.join()


def page(server: PageServer, path: str, host: str = "localhost") -> str:
    request = urllib.request.Request(server.url.rstrip("/") + path, headers={"Host": host})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


def test_tables_are_found_below_a_folder(lake: Path) -> None:
    found = {uri.removeprefix(f"file://{lake}/") for uri in find_tables(str(lake), {}).uris}
    assert found == {"sales/orders", "sales/items", "people"}
    assert find_tables(str(lake / "people"), {}).uris == (f"file://{lake}/people",)
    assert find_tables(str(lake / "empty"), {}).uris == ()


def test_a_link_is_left_out_by_name_and_a_missing_folder_is_an_error(lake: Path) -> None:
    (lake / "sales" / "elsewhere").symlink_to("/usr/lib")
    served = PageServer([str(lake)], {})
    lost = PageServer([str(lake), str(lake / "gone")], {})
    try:
        status, page = served.answer("/")
        assert status == 200
        assert "3 tables: 3 healthy" in page
        assert "Left out" in page
        assert "sales/elsewhere" in page
        status, page = lost.answer("/")
        assert status == 500
        assert '<p class="health bad">' in page
        assert "there is no such folder" in page
        assert "3 tables: 3 healthy" in page
    finally:
        served._server.server_close()
        lost._server.server_close()


def test_a_server_does_not_start_for_a_folder_that_is_not_there(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", str(lake), str(lake / "gone"), "--port", "0"]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_the_worst_table_comes_first() -> None:
    rows = [
        FleetRow("a", Level.HEALTHY, "nothing is due"),
        FleetRow("b", Level.BROKEN, "<b>gone</b>", "/table/1", {"rows": "7"}),
        FleetRow("c", Level.DUE, "cleaning is due"),
    ]
    made = fleet_page("Lake", "here", rows, ("rows", "size"))
    assert made.index("gone") < made.index("cleaning is due") < made.index("nothing is due")
    assert "&lt;b&gt;gone&lt;/b&gt;" in made
    assert '<a href="/table/1">b</a>' in made
    assert "3 tables: 1 needs attention, 1 work is due, 1 healthy" in made
    assert "There are no tables here." in fleet_page("Lake", "here", [], ())


def test_a_long_line_is_folded_and_whole_when_it_is_opened() -> None:
    words = [f"word{number}" for number in range(40)]
    made = fleet_page("Lake", "here", [FleetRow("a", Level.BROKEN, " ".join(words))], ())
    start, rest = re.findall(r"<details><summary>(.*) \u2026</summary>(.*)</details>", made)[0]
    assert f"{start} {rest}".split() == words
    assert len(start) <= 120


def test_the_fleet_leads_to_every_table(server: PageServer, lake: Path) -> None:
    fleet = page(server, "/")
    assert "3 tables: 3 healthy" in fleet
    titles = {page(server, f"/table/{number}").split("<title>")[1][:6] for number in range(3)}
    assert titles == {"orders", "items ", "people"}
    (lake / "people" / ".hoodie" / "hoodie.properties").write_text("nonsense")
    assert find_tables(str(lake), {}).uris
    with pytest.raises(urllib.error.HTTPError, match="404"):
        page(server, "/table/3")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        page(server, "/../etc/passwd")


def test_a_table_that_cannot_be_read_is_shown_as_such(lake: Path) -> None:
    (lake / "people" / ".hoodie" / "hoodie.properties").write_text("nonsense")
    served = PageServer([str(lake)], {})
    try:
        status, fleet = served.answer("/")
        assert status == 200
        assert "1 needs attention, 2 healthy" in fleet
    finally:
        served._server.server_close()


def test_a_name_that_leads_here_reads_nothing(server: PageServer) -> None:
    assert "Tables" in page(server, "/", "127.0.0.1:1")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        page(server, "/", "evil.example")


def test_what_is_seen_is_kept_for_a_while(lake: Path) -> None:
    clock = [0.0]
    served = PageServer([str(lake)], {}, monotonic_s=lambda: clock[0])
    try:
        assert "3 tables: 3 healthy" in served.answer("/")[1]
        (lake / "people" / ".hoodie" / "hoodie.properties").write_text("nonsense")
        assert "3 healthy" in served.answer("/")[1]
        clock[0] = 60.0
        assert "1 needs attention" in served.answer("/")[1]
    finally:
        served._server.server_close()


def test_a_port_that_is_taken_is_named(
    server: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    port = server.url.rstrip("/").rpartition(":")[2]
    assert run(["ui", ".", "--port", port]) == 2
    assert "cannot listen" in capsys.readouterr().err
