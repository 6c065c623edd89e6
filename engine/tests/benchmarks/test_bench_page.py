"""The page of benchmarks is made of records: what is measured again replaces what was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.measurement import Claim, Limit, Series, TimeLimit, report_json
from bench.page import (
    DOCS,
    RECORDS,
    claim_lines,
    freshness_lines,
    growth_lines,
    lines_of,
    with_block,
    write_page,
)

GROWN = [
    {"size": 10, "input": 10, "seconds": [0.5] * 3, "coreSeconds": [1.0] * 3, "peakBytes": 1 << 28},
    {"size": 40, "input": 40, "seconds": [1.5] * 3, "coreSeconds": [8.0] * 3, "peakBytes": 1 << 29},
]


def _measured() -> dict[str, Any]:
    ours, peer = Series("tideline", [1.0, 2.0, 3.0]), Series("hudi", [30.0, 20.0, 25.0])
    claims = [
        Claim("upsert", ours, peer, faster_by=20),
        Claim("aggregate", ours, Series("spark", [1.9]), within=1.1),
    ]
    limits: list[Limit | TimeLimit] = [
        Limit("memory", 3 << 20, 2 << 20),
        TimeLimit("one row", ours, 2.0),
    ]
    record: dict[str, Any] = json.loads(report_json(claims, limits, load_at_start=0.25))
    return record


def test_a_table_says_what_was_missed() -> None:
    assert claim_lines(_measured())[2:] == [
        "| upsert | 2.0 s | 25.0 s | 12.5x faster | >= 20x | missed |",
        "| aggregate | 2.0 s | 1.9 s | 1.05x its time | <= 1.1x |  |",
        "| memory | 3 MiB |  |  | < 2 MiB | missed |",
        "| one row | 2.0 s |  |  | <= 2 s |  |",
    ]


def test_growth_is_held_against_the_input() -> None:
    rows = [{**row, "requests": {"GET": 1_000, "PUT": 3}} for row in GROWN]
    assert growth_lines({"axes": {"rows": rows}})[2:] == [
        "| rows | 10 | 0.50 s | 1.00 | 256 MiB | 1,003 | 1.00x |",
        "| rows | 40 | 1.5 s | 8.00 | 512 MiB | 1,003 | 2.00x |",
    ]


def test_freshness_says_how_soon_and_for_how_many_pods() -> None:
    way = {"way": "a pod", "seconds": [3.0, 9.0, 4.0], "wantedSeconds": 3.5, "holds": False}
    many = {"tables": 2, "rows": 1_200, "medianSeconds": 2.0, "maxSeconds": 9.0}
    record = {
        "readable": [way],
        "many": {**many, "wantedSeconds": 30.0, "holds": True},
        "sparse": [{"way": "a pod", "podSecondsPerHour": 4_000}],
    }
    assert freshness_lines(record)[2:4] == [
        "| a pod | 4.0 s | 9.0 s | 3.5 s | missed |",
        "| two warm workers, 2 tables: every one of 1,200 rows | 2.0 s | 9.0 s | 30 s |  |",
    ]
    assert freshness_lines(record)[-1] == "| a pod | 4,000 |"


def test_only_what_was_measured_is_replaced(tmp_path: Path) -> None:
    docs, measured = tmp_path / "docs", tmp_path / "measured"
    (docs / "benchmarks").mkdir(parents=True)
    measured.mkdir()
    blocks = "".join(f"# {name}\n<!-- {name} -->\nold\n<!-- /{name} -->\n" for name in RECORDS)
    (docs / "benchmarks.md").write_text(blocks)
    (measured / "hudi.json").write_text(json.dumps(_measured()))
    write_page(measured, docs)
    page = (docs / "benchmarks.md").read_text()
    assert "| upsert | 2.0 s |" in page
    assert "on 2 cores" in page.replace(f"on {_measured()['cores']} cores", "on 2 cores")
    assert page.count("old") == len(RECORDS) - 1
    assert "<svg" in (docs / "benchmarks" / "speed.svg").read_text()
    write_page(measured, docs)
    assert (docs / "benchmarks.md").read_text() == page


def test_a_page_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="no block <!-- hudi -->"):
        with_block("text", "hudi", ["line"])


def test_the_page_has_what_the_records_say() -> None:
    page = (DOCS / "benchmarks.md").read_text()
    kept = [name for name in RECORDS if (DOCS / "benchmarks" / f"{name}.json").exists()]
    assert kept
    for name in kept:
        record = json.loads((DOCS / "benchmarks" / f"{name}.json").read_text())
        assert "\n".join(lines_of(name, record)) in page
